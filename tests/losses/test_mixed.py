"""A loss per column: every column's own loss, moved and weighed, behind one loss that takes codes."""

import numpy as np
import pytest
from helpers import targets_for

import rankwise as rw
from rankwise.kernels.expected import expected_at
from rankwise.losses import (
    BY_NAME,
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Mixed,
    Ordinal,
    OrdinalHinge,
    Poisson,
    ProportionalOdds,
    Quantile,
    SmoothHinge,
    Square,
    SquaredHinge,
    mixed,
)
from rankwise.solvers import FactorSweeps, solve

COLUMNS = [Square(), Huber(0.4), Absolute(), Quantile(0.8), Hinge(), Logistic(), Poisson()]
COLUMNS += [Ordinal(4), OrdinalHinge(3, (-1.0, 0.3)), ProportionalOdds(5), Huber(2.0), ProportionalOdds(2)]
COLUMNS += [SquaredHinge(), SmoothHinge(), EpsilonInsensitive(0.3)]
COLUMNS += [kind() for kind in BY_NAME.values() if kind not in {type(loss) for loss in COLUMNS}]  # any new one
SCALES, SHIFTS = np.linspace(0.5, 3.0, len(COLUMNS)), np.linspace(-1.0, 1.0, len(COLUMNS))


def entries(n=40, seed=0):
    """Columns and targets, `n` of each column, and the mixed loss with their codes."""
    rng = np.random.default_rng(seed)
    columns = np.repeat(np.arange(len(COLUMNS)), n)
    targets = np.concatenate([targets_for(loss, rng, n) for loss in COLUMNS])
    return columns, targets, *Mixed.encode(COLUMNS, columns, targets, scales=SCALES, shifts=SHIFTS)


def test_every_registered_loss_can_be_a_column():
    assert {type(loss) for loss in COLUMNS} == set(BY_NAME.values())


def test_a_code_stands_for_its_column_and_target():
    columns, targets, loss, codes = entries()
    np.testing.assert_array_equal(loss.columns[codes.astype(int)], columns)
    np.testing.assert_array_equal(loss.values[codes.astype(int)], targets)
    assert loss.values.size == len({*zip(columns.tolist(), targets.tolist(), strict=True)})


def test_the_loss_of_a_code_is_that_of_its_column_moved_and_weighed():
    columns, targets, loss, codes = entries()
    x = np.random.default_rng(1).normal(0, 2, codes.size)
    for verb in ("value", "slope", "curvature"):
        wanted = [
            SCALES[j] * getattr(COLUMNS[j], verb)(a + SHIFTS[j], o) for j, a, o in zip(columns, x, targets, strict=True)
        ]
        np.testing.assert_allclose(getattr(loss, verb)(x, codes), wanted, rtol=1e-13, atol=1e-13)


def test_so_is_its_expected_loss():
    columns, targets, loss, codes = entries(6)
    formula = loss.formula
    for j, o, code in zip(columns, targets, codes, strict=True):
        for m, s in ((0.3, 0.0), (-1.2, 0.8)):
            wanted = SCALES[j] * np.array(expected_at(COLUMNS[j].formula, m + SHIFTS[j], s, float(o)))
            np.testing.assert_allclose(expected_at(formula, m, s, float(code)), wanted, rtol=1e-10, atol=1e-10)


def test_facts_are_those_of_the_columns_together():
    few = {"columns": [0, 1], "values": [1.0, 1.0]}
    assert Mixed([Square(), Logistic()], **few, scales=[2.0, 4.0]).lipschitz == 2.0
    assert Mixed([Square(), Poisson()], **few).lipschitz is None
    assert Mixed([Square(), Logistic()], **few).smooth and not Mixed([Square(), Absolute()], **few).smooth
    assert Mixed([Square(), Square()], **few).quadratic
    assert not Mixed([Square(), Square()], **few, scales=[1.0, 2.0]).quadratic
    assert repr(Mixed([Square(), Poisson()], **few)) == "Mixed(1 square, 1 poisson)"


@pytest.mark.slow
def test_columns_of_one_loss_are_learned_as_by_that_loss():
    rng = np.random.default_rng(2)
    rows, cols = np.nonzero(rng.random((30, 8)) < 0.7)
    signs = targets_for(Logistic(), rng, rows.size)
    loss, codes = Mixed.encode([Logistic()] * 8, cols, signs)
    fits = [
        solve(rw.Problem(rw.Observations.from_coo(rows, cols, o), each, dtype="float64"), FactorSweeps(), rank=2)
        for each, o in ((Logistic(), signs), (loss, codes))
    ]
    np.testing.assert_allclose(fits[1].model.to_dense(), fits[0].model.to_dense(), atol=1e-10)


def test_codes_outside_the_table_are_refused():
    loss = Mixed([Square()], [0, 0], [1.0, 2.0])
    for wrong in (-1.0, 2.0, 0.5, np.nan):
        with pytest.raises(rw.DataError, match="codes: whole numbers from 0 to 1; 1 of 2 are not"):
            loss.check_targets(np.array([0.0, wrong]))


def test_more_values_than_float32_can_number_are_refused(monkeypatch):
    monkeypatch.setattr(mixed, "MOST_CODES", 3)
    with pytest.raises(rw.DataError, match=r"There are 4 different values, more than the 3 .*round the real columns"):
        Mixed.encode([Square()], [0] * 4, np.arange(4.0))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([], [0], [1.0]), rw.LossError, "`losses` must contain at least one loss"),
        ((["square"], [0], [1.0]), rw.LossError, "`losses` must contain objects of `rankwise.losses`, got 'square'"),
        (([Mixed([Square()], [0], [1.0])], [0], [0.0]), rw.LossError, "Mixed cannot be a column of Mixed: its targets"),
        (([Square()], [0, 0], [1.0]), rw.DataError, "`columns` and `values` must have the same length"),
        (
            ([Square()], [1], [1.0]),
            rw.DataError,
            "`columns` must lie between 0 and 0, .* got 1 to 1",
        ),
        (([Logistic()], [0], [0.0]), rw.DataError, r"Logistic needs targets that are -1 or \+1"),
    ],
)
def test_wrong_tables_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Mixed(*arguments)


@pytest.mark.parametrize(("name", "given"), [("scales", [1.0, 2.0]), ("scales", [0.0]), ("shifts", [np.inf])])
def test_wrong_scales_and_shifts_are_refused(name, given):
    with pytest.raises(rw.LossError, match=f"`{name}` must"):
        Mixed([Square()], [0], [1.0], **{name: given})
