"""Laws over every loss and method: units, kinds of targets, labels and weights.

A fit either predicts finite numbers or raises one of rankwise's own errors, and units and levels change nothing.
"""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from unit_cases import LOSSES, SPREAD, planted

import rankwise as rw
from rankwise.losses import BY_NAME
from rankwise.solvers import METHODS

FIRST = [("square", "bayes"), ("l1", "factors"), ("own_shelf", "bayes"), ("huber", "eglrl")]  # in `make test`
# factor, and level in multiples of it
UNITS = [(1.0, 30.0), (7.0, -60.0), (1e-12, 0.0), (1e-12, 1e9), (1e12, 0.0), (1e12, -1e9), (1.0, 1e9), (1e-3, -1e5)]
BY_DIFFERENCES = ("own_absolute", "own_quantile")  # whose slopes near a corner depend on the steps of differences
ALL_CELLS = ("scaled-svd",)  # counts absent entries as zeros, so that a level is not the same for all


def slow_but(first, cases):
    """The cases, all but the first ones slow."""
    return [case if case in first else pytest.param(*case, marks=pytest.mark.slow) for case in cases]


def fitted(loss, method, dtype, factor=1.0, level=0.0):
    """Estimator fitted to the planted entries in another unit."""
    truth, seen = planted()
    steps = 5 if method in ("bayes", "factors") else 20
    estimator = rw.MatrixCompletion(LOSSES[loss](factor), method=method, rank=2, dtype=dtype, max_iter=steps)
    return estimator.fit(np.where(seen, factor * (truth + level), np.nan))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("loss, method", slow_but(FIRST, [(loss, method) for loss in LOSSES for method in METHODS]))
def test_neither_unit_nor_level_of_the_targets_changes_predictions(loss, method, dtype):
    try:
        wanted = fitted(loss, method, dtype)
    except rw.LossError as error:
        assert f'method="{method}" requires' in str(error)
        return
    for factor, level in ((factor, 0.0 if method in ALL_CELLS else level) for factor, level in UNITS):
        found = fitted(loss, method, dtype, factor, level)
        where = f"targets * {factor:g} + {factor * level:g}"
        if method == "wiberg":  # its linear programs have many solutions
            assert found.history_[-1].value / factor == pytest.approx(wanted.history_[-1].value, rel=1e-2), where
            continue
        change = np.abs((found.reconstruct() - factor * level) / factor - wanted.reconstruct()).max() / SPREAD
        coarse = dtype == "float32" and loss in BY_DIFFERENCES
        assert change < (5e-4 if coarse else 1e-4), where
        assert found.status_.reason == wanted.status_.reason, where


ENTRIES = 12
VALUES = [1, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1]
TARGETS = {
    "integers": np.array(VALUES, np.int8),
    "unsigned": np.array(VALUES, np.uint64) * 2**60,
    "bools": np.array(VALUES, bool),
    "float16": np.array(VALUES, np.float16) * np.float16(6e4),
    "float32": np.array(VALUES, np.float32) * np.float32(1e38),
    "long": np.array(VALUES, np.longdouble),
    "objects": np.array(VALUES, object),
    "signs": np.array(VALUES) * 2 - 1,
    "decimals": np.array([Decimal(value) / 7 for value in VALUES], object),
    "fractions": np.array([Fraction(value, 7) for value in VALUES], object),
    "whole beyond floats": np.array([10**400, *VALUES[1:]], object),
    "digits": np.array(["1.5", *map(str, VALUES[1:])]),
    "words": np.array(["good", *map(str, VALUES[1:])]),
    "bytes": np.array([b"1"] * ENTRIES),
    "complex": np.array(VALUES) * 1j,
    "dates": np.array(["2026-01-01"] * ENTRIES, "M8[D]"),
    "spans": np.array(VALUES, "m8[s]"),
    "records": np.array([(1, 2)] * ENTRIES, "i8,i8"),
    "missing": np.array([np.nan, *VALUES[1:]]),
    "none": np.array([None, *VALUES[1:]], object),
    "infinite": np.array([np.inf, *VALUES[1:]]),
    "constant": np.full(ENTRIES, 3.0),
    "zeros": np.zeros(ENTRIES),
    "tiny": np.array(VALUES) * 5e-324,
    "huge": np.array(VALUES) * 1e308,
    "far apart": np.array([1e150, 1e-150] * 6),
    "one far": np.array([1e12, *VALUES[1:]]),
}
NUMBERS = ("integers", "bools", "float16", "float32", "objects", "signs", "constant")


def works_or_is_refused(fit):
    """Return finite predictions, or None after an error of ours in one sentence; other errors come through."""
    try:
        predicted = fit()
    except rw.RankwiseError as error:
        assert str(error).endswith(".") and "\n" not in str(error)
        return None
    assert predicted.shape and np.isfinite(predicted).all()
    return predicted


def predictions(targets, loss="auto", method="bayes", **settings):
    """Fit twelve entries of a 4 x 3 matrix; predict all."""
    pairs = np.column_stack((np.arange(ENTRIES) // 3, np.arange(ENTRIES) % 3))
    return rw.MatrixCompletion(loss, method=method, rank=1, **settings).fit(pairs, targets).predict(pairs)


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("loss, method", slow_but(FIRST[:2], [(n, "bayes") for n in BY_NAME] + FIRST))
def test_targets_of_any_kind_work_or_are_refused(kind, loss, method):
    loss = LOSSES[loss](1.0) if loss in LOSSES else loss
    found = works_or_is_refused(lambda: predictions(TARGETS[kind], loss, method))
    if kind in NUMBERS and loss in ("square", "l1", "huber"):
        assert found is not None


@pytest.mark.slow
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_or_refuses_targets_of_any_kind(kind, method):
    loss = "l1" if method in ("admm", "wiberg", "glrl-nonsmooth") else "square"
    works_or_is_refused(lambda: predictions(TARGETS[kind], loss, method, max_iter=3))


LABELS = {
    "text": ["a", "b", "c"],
    "whole": [-(2**63), 0, 2**63 - 1],
    "beyond 64 bits": np.array([2**70, 1, 2], object),
    "objects that are integers": np.array([2**40, 1, 2], object),
    "fractions": [0.5, 1.5, -2.0],
    "mixed": np.array([1, "b", 2.5], object),
    "long": ["a" * 50_000, "b", "c"],
    "zeros at the end": ["a", "a\0", "a\0\0"],
    "empty": ["", " ", "\t"],
    "letters": ["é", "e\u0301", "\U0001f600"],
    "half letters": ["\ud800", "b", "c"],
    "escapes": ["\x1b[31m", "b", "c"],
    "bytes": [b"a", b"b", b"c"],
    "records": np.array([(1, 2), (3, 4), (5, 6)], "i8,i8"),
    "raw": np.array([b"ab", b"cd", b"ef"], "V2"),
    "complex": [1j, 2j, 3j],
    "dates": np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "M8[D]"),
    "bools": [True, False],
    "none": np.array([None, "b", "c"], object),
    "missing": [np.nan, 1.0, 2.0],
    "tuples": [(1, 2), (3, 4), (5, 6)],
    "objects": np.array([object(), object(), object()], object),
    "strings": np.array(["a", "a\0", "b" * 500], np.dtypes.StringDType()),
}
REFUSED = (
    "mixed",
    "beyond 64 bits",
    "long",
    "zeros at the end",
    "strings",
    "records",
    "raw",
    "complex",
    "none",
    "missing",
    "tuples",
    "objects",
)


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_come_back_from_a_file_or_are_refused(kind, tmp_path):
    labels = LABELS[kind]
    rows = [label for label in labels for _ in range(4)] if isinstance(labels, list) else np.repeat(labels, 4)
    cols = [0, 1, 2, 3] * len(labels)

    def fit():
        model = rw.MatrixCompletion(rank=1, max_iter=2).fit(
            rw.Observations.from_labels(rows, cols, np.arange(float(len(cols))))
        )
        model.save(tmp_path / "labels.rankwise")
        loaded = rw.load(tmp_path / "labels.rankwise")
        found = loaded.model_.row_labels
        assert np.array_equal(found, model.model_.row_labels) and sorted(found.tolist()) == sorted(labels)
        return loaded.predict_entries(rows, cols)

    assert (works_or_is_refused(fit) is None) == (kind in REFUSED)


WEIGHTS = {
    "one huge": [1e300] + [1.0] * 11,
    "smallest": [5e-324] * 12,
    "one small": [1e-30] + [1.0] * 11,
    "some zero": [0.0, 1.0] * 6,
    "all zero": [0.0] * 12,
    "light": [1e-3] * 12,
    "heavy": [1e9] * 12,
    "far apart": [1e-12, 1e12] * 6,
    "negative": [-1.0] + [1.0] * 11,
    "missing": [np.nan] + [1.0] * 11,
    "whole": np.arange(1, 13),
    "bools": np.array([True, False] * 6),
    "float16": np.full(12, 6e4, np.float16),
    "decimals": [Decimal("0.5")] * 12,
    "words": ["a"] * 12,
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("method", slow_but([("bayes",)], [(method,) for method in METHODS]))
def test_weights_of_any_kind_work_or_are_refused(kind, method):
    loss = "l1" if method in ("admm", "wiberg", "glrl-nonsmooth") else "square"

    def fit():
        rows, cols = np.divmod(np.arange(12), 3)
        seen = rw.Observations.from_coo(rows, cols, np.sin(np.arange(12.0)), weights=WEIGHTS[kind])
        return rw.MatrixCompletion(loss, method=method, rank=1, max_iter=3).fit(seen).reconstruct()

    works_or_is_refused(fit)
