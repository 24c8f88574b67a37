"""A loss is declared once: a new one takes part in look-up, fits, `Mixed` and files; `@rw.loss` declares as much."""

import math
import pickle
from dataclasses import dataclass, fields
from typing import NamedTuple

import numba
import numpy as np
import pytest
from helpers import ROOT, make_observations, targets_for
from sklearn.base import clone

import rankwise as rw
from rankwise import losses
from rankwise.cli import options
from rankwise.kernels.expected import expected_at
from rankwise.kernels.formulas import Formulas, NoParameters, declare
from rankwise.losses.base import BY_NAME, CACHED, UNCACHED, takes_signs
from rankwise.losses.levels import LevelsLoss
from rankwise.model.files import save
from rankwise.solvers import NonsmoothPursuit, solve

# A new loss, written as a file of `rankwise.losses` would be.


class PseudoHuberFormula(NamedTuple):
    delta: float
    height: float


def value(p: PseudoHuberFormula, x: float, o: float) -> float:
    r = (x - o) / p.delta
    return p.height * (math.sqrt(1.0 + r * r) - 1.0)


def slope(p: PseudoHuberFormula, x: float, o: float) -> float:
    r = (x - o) / p.delta
    return p.height * r / math.sqrt(1.0 + r * r) / p.delta


def curvature(p: PseudoHuberFormula, x: float, o: float) -> float:
    r = (x - o) / p.delta
    return p.height / (1.0 + r * r) ** 1.5 / p.delta**2


@dataclass(frozen=True)
class PseudoHuber(losses.Loss):
    delta: float = 1.0
    height: float = 1.0
    name = "pseudo-huber"
    formulas = declare(Formulas(PseudoHuberFormula, value, slope, curvature))


@pytest.fixture
def registered():
    """The new loss among the others, for one test."""
    yield losses.register(PseudoHuber)
    del BY_NAME["pseudo-huber"]


def test_a_new_loss_is_found_by_name(registered):
    assert losses.get("pseudo-huber") == PseudoHuber()
    with pytest.raises(rw.LossError, match=r"^Unknown loss 'huberish': use one of 'square', .*, 'pseudo-huber', "):
        losses.get("huberish")


def test_a_name_belongs_to_one_loss(registered):
    @dataclass(frozen=True)
    class Other(losses.Loss):
        name = "pseudo-huber"

    with pytest.raises(rw.LossError, match="The name 'pseudo-huber' belongs to the loss PseudoHuber"):
        losses.register(Other)
    assert losses.register(PseudoHuber) is PseudoHuber


def test_the_types_of_parameters_have_names_of_their_own():
    """Numba would compile one for the other."""
    twin = type("HuberFormula", (NoParameters,), {})
    with pytest.raises(rw.LossError, match="two losses have the type name HuberFormula"):
        declare(Formulas(twin, value, slope, curvature))


def test_a_loss_without_formulas_says_so():
    with pytest.raises(NotImplementedError, match="Loss declares no formulas"):
        losses.Loss().value(0.0, 0.0)


def test_code_from_outside_the_package_never_reaches_the_disk_cache():
    assert losses.Huber().compiled is CACHED and PseudoHuber().compiled is UNCACHED
    assert rw.loss(lambda x, o: abs(x - o)).compiled is UNCACHED
    outside = losses.Mixed([losses.Huber(), PseudoHuber()], [0, 1], [0.0, 1.0])
    assert outside.compiled is UNCACHED and losses.Mixed([losses.Huber()], [0], [0.0]).compiled is CACHED
    assert type(outside.formula) is not type(losses.Mixed([losses.Huber()], [0], [0.0]).formula)


def test_a_new_loss_fits_by_name_as_the_same_loss_made_with_the_decorator(registered):
    observations = make_observations(PseudoHuber(), np.random.default_rng(0))
    twin = rw.loss(lambda x, o: math.sqrt(1.0 + (x - o) ** 2) - 1.0, smooth=True)
    fits = [
        solve(rw.Problem(observations, loss, dtype="float64", n_jobs=1), rank=3).history
        for loss in ("pseudo-huber", twin)
    ]
    assert fits[0][-1].value < 0.9 * fits[0].initial_value
    np.testing.assert_allclose([record.value for record in fits[0]], [record.value for record in fits[1]], rtol=1e-6)


def test_new_losses_and_those_of_users_are_columns_of_a_mixed_loss():
    tilted = rw.loss(lambda x, o: max(2.0 * (o - x), x - o))
    columns = [PseudoHuber(0.5, 2.0), losses.Logistic(), tilted, losses.Ordinal(3), PseudoHuber()]
    rng = np.random.default_rng(1)
    cols = np.repeat(np.arange(5), 8)
    targets = np.concatenate([targets_for(loss, rng, 8) for loss in columns])
    scales, shifts = np.array([1.0, 2.0, 0.5, 3.0, 1.5]), np.array([0.0, 0.3, -0.2, 0.0, 1.0])
    mixed, codes = losses.Mixed.encode(columns, cols, targets, scales=scales, shifts=shifts)
    x = rng.normal(0, 2, codes.size)
    for verb in ("value", "slope", "curvature"):
        wanted = [
            scales[j] * getattr(columns[j], verb)(a + shifts[j], o) for j, a, o in zip(cols, x, targets, strict=True)
        ]
        np.testing.assert_allclose(getattr(mixed, verb)(x, codes), wanted, rtol=1e-12, atol=1e-12)
    for j, o, code in zip(cols, targets, codes, strict=True):
        wanted = scales[j] * np.array(expected_at(columns[j].formula, 0.3 + shifts[j], 0.8, float(o)))
        np.testing.assert_allclose(expected_at(mixed.formula, 0.3, 0.8, float(code)), wanted, rtol=1e-10, atol=1e-10)


def test_a_mixed_loss_with_a_column_of_the_user_survives_a_pickle():
    mixed = losses.Mixed([losses.Ordinal(3), PseudoHuber()], [0, 1], [2.0, 1.0], scales=[2.0, 1.0])
    again = pickle.loads(pickle.dumps(mixed))
    np.testing.assert_array_equal(again.value([0.1, 0.2], [0.0, 1.0]), mixed.value([0.1, 0.2], [0.0, 1.0]))
    assert again.checksum() == mixed.checksum()


def test_files_name_losses_of_the_package_only(registered, tmp_path):
    """Elsewhere the name might mean another loss, or none; the model is saved without it, as with one of a user."""
    assert losses.to_plain(PseudoHuber()) is None and losses.to_plain(None) is None
    parts = np.ones((1, 1)), np.ones((3, 1)), np.ones((2, 1))
    save(rw.LowRankModel(*parts, loss=PseudoHuber()), tmp_path / "model")
    again = rw.load(tmp_path / "model")
    assert again.loss is None and again.predict_entries([2], [1]) == 1.0


@pytest.mark.parametrize("kind", BY_NAME.values(), ids=BY_NAME)
def test_every_loss_has_a_file_and_a_place_in_the_reference(kind):
    assert kind.__module__ == f"rankwise.losses.{kind.__module__.rpartition('.')[2]}"
    assert [other for other in BY_NAME.values() if other.__module__ == kind.__module__] == [kind]
    assert getattr(losses, kind.__name__) is kind and kind.__name__ in losses.__all__
    assert f"\n   {kind.__name__}\n" in (ROOT / "docs/api/losses.md").read_text(encoding="utf-8")


def test_the_lists_of_the_command_line_are_those_of_the_declarations():
    """They are written out there, so that help does not load Numba."""
    assert list(options.LOSS_CHOICES) == list(BY_NAME)
    assert set(options.PARAMETRIC) == {name for name, kind in BY_NAME.items() if fields(kind)}
    assert set(options.ORDINAL) == {name for name, kind in BY_NAME.items() if issubclass(kind, LevelsLoss)}


# What `@rw.loss` declares.


def pinball(x, o):
    return max(0.9 * (o - x), 0.1 * (x - o))


def tube(x, o):
    return max(0.0, abs(x - o) - 0.5)


@pytest.mark.parametrize(
    ("function", "kinks", "built_in"),
    [
        (pinball, lambda o: (-0.9, o, 1, o, 0), losses.Quantile(0.9)),
        (tube, lambda o: (-1.0, o - 0.5, 1.0, o + 0.5, 1.0), losses.EpsilonInsensitive(0.5)),
    ],
    ids=["one kink", "two kinks"],
)
def test_kinks_of_a_users_loss_give_the_best_steps_of_the_built_in_one(function, kinks, built_in):
    loss = rw.loss(function, kinks=kinks)
    assert loss.piecewise_linear and not rw.loss(function).piecewise_linear
    observations = make_observations(built_in, np.random.default_rng(2))
    runs = [
        solve(rw.Problem(observations, each, dtype="float64", n_jobs=1), NonsmoothPursuit(), rank=3).history
        for each in (loss, built_in)
    ]
    np.testing.assert_allclose([record.value for record in runs[0]], [record.value for record in runs[1]], rtol=1e-6)


def test_a_users_loss_of_signs_counts_or_shares_checks_its_targets():
    signed = rw.loss(lambda x, o: max(0.0, 1.0 - x * o), domain=losses.SIGNS)
    assert takes_signs(signed) and not takes_signs(losses.Huber()) and not takes_signs(None)
    with pytest.raises(rw.DataError, match=r"needs targets that are -1 or \+1; 1 of 2 .*`2 \* y - 1`"):
        signed.check_targets(np.array([1.0, 0.0]))
    shares = losses.Domain("between 0 and 1", lambda targets: (targets >= 0) & (targets <= 1), "Divide by the total.")
    logit = rw.loss(lambda x, o: max(x, 0.0) + math.log1p(math.exp(-abs(x))) - o * x, domain=shares, link="logit")
    logit.check_targets(targets_for(logit, np.random.default_rng(0), 20))
    assert logit.link == "logit"
    with pytest.raises(rw.DataError, match=r"are between 0 and 1; .*first: 3 at entry 1\). Divide by the total\."):
        logit.check_targets(np.array([0.5, 3.0]))


def test_a_users_quadratic_loss_is_solved_by_least_squares():
    twice = rw.loss(lambda x, o: (x - o) ** 2, smooth=True, lipschitz=2.0, quadratic=True, curvature=lambda x, o: 2.0)
    observations = make_observations(losses.Square(), np.random.default_rng(3))
    values = [
        solve(rw.Problem(observations, loss, dtype="float64", n_jobs=1), "r1mp", rank=3).history[-1].value
        for loss in (twice, losses.Square())
    ]
    assert values[0] == pytest.approx(2 * values[1], rel=1e-6)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"smooth": 1}, "`smooth` must be True or False, got 1"),
        ({"quadratic": True}, "`quadratic=True` needs `smooth=True`"),
        ({"smooth": True, "kinks": lambda o: (-1.0, o, 2.0, o, 0.0)}, "A loss with kinks is not smooth"),
        ({"link": "probit"}, "`link` must be one of 'identity', 'logit', 'log', got 'probit'"),
        ({"domain": "signs"}, "`domain` must be a `rankwise.losses.Domain`, .* got 'signs'"),
    ],
    ids=["smooth", "quadratic", "kinks", "link", "domain"],
)
def test_facts_that_cannot_be_true_are_refused(facts, message):
    with pytest.raises(rw.LossError, match=message):
        rw.loss(lambda x, o: abs(x - o), **facts)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"smooth": True, "quadratic": True}, "declared quadratic, but has a different curvature near x = "),
        ({"kinks": lambda o: (-1.0, o, 1.0, o, 0.0)}, "has values that do not fit its kinks near x = "),
    ],
    ids=["curvature", "jump"],
)
def test_facts_that_the_values_contradict_are_refused(facts, message):
    with pytest.raises(rw.LossError, match=message):
        rw.loss(lambda x, o: abs(x - o), **facts).check_targets(np.array([0.0, 1.5]))


@pytest.mark.parametrize("kinks", [lambda o: (-1.0, o), lambda x, o: (-1.0, o, 2.0, o, 0.0)], ids=["two", "of x"])
def test_kinks_are_five_numbers_for_each_target(kinks):
    with pytest.raises(rw.LossError, match=r"cannot be compiled: .* on one number, and return five"):
        rw.loss(lambda x, o: abs(x - o), kinks=kinks).check_targets(np.array([0.0, 1.5]))


def test_a_checksum_tells_declarations_apart():
    made = [
        rw.loss(pinball, **facts)
        for facts in ({}, {"domain": losses.COUNTS}, {"link": "log"}, {"kinks": lambda o: (-0.9, o, 1, o, 0)})
    ]
    assert len({loss.checksum() for loss in made}) == 4 and made[0].checksum() == rw.loss(pinball).checksum()


def scaled(scale, helper=None):
    """A loss whose function is made anew by every call."""
    if helper is None:
        return rw.loss(lambda x, o: scale * abs(x - o))
    return rw.loss(lambda x, o: scale * helper(x - o))


def test_equal_definitions_share_their_machine_code_and_no_others_do():
    """Numba never releases machine code, so a loss made in a loop must not be compiled in each round."""
    first = scaled(2.0)
    assert scaled(2.0).formulas is first.formulas
    assert clone(rw.MatrixCompletion(first)).loss.formulas is first.formulas
    helpers = [numba.njit(lambda d, c=c: c * d * d) for c in (1.0, 1.0, 3.0)]
    assert scaled(2.0, helpers[0]).formulas is scaled(2.0, helpers[1]).formulas
    table = np.ones(2)
    distinct = [
        first,
        scaled(2),
        scaled(2.0, helpers[0]),
        scaled(2.0, helpers[2]),
        rw.loss(lambda x, o: table[0] * abs(x - o)),
        rw.loss(lambda x, o: table[0] * abs(x - o)),
        rw.loss(lambda x, o: 2.0 * abs(x - o), slope=lambda x, o: 2.0 if x > o else -2.0),
    ]
    assert len({loss.formulas.parameters for loss in distinct}) == len(distinct)
