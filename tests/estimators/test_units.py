"""Everything beside predictions follows the unit and the level of the targets; for predictions see `test_laws`."""

import numpy as np
import pytest
from unit_cases import LOSSES, SPREAD, planted

import rankwise as rw

UNITS = [(10.0, 0.0), (1e-12, 0.0), (1e12, 0.0), (1.0, 1e9)]  # factor, level in multiples of it


def fitted(loss, factor=1.0, level=0.0, **settings):
    """Estimator fitted to the planted entries in another unit."""
    truth, seen = planted()
    return rw.MatrixCompletion(LOSSES[loss](factor), **settings).fit(np.where(seen, factor * (truth + level), np.nan))


def compare(found, wanted, factor, level):
    """Differences between two fits, after the units are undone, in spreads."""
    return np.abs((found.reconstruct() - factor * level) / factor - wanted.reconstruct()).max() / SPREAD


@pytest.mark.parametrize("factor, level", UNITS)
def test_everything_beside_predictions_is_in_the_units_of_the_targets(factor, level):
    settings = {"rank": 2, "max_iter": 5, "calibration": 0.2}
    wanted, found = fitted("square", **settings), fitted("square", factor, level, **settings)
    numbers = np.arange(10)
    for part in ("row_variances", "col_variances"):  # the last column is that of the offsets
        pairs = (getattr(each.model_.posterior, part)[:, -1] for each in (wanted, found))
        np.testing.assert_allclose(
            *(pair / scale for pair, scale in zip(pairs, (1, factor**2), strict=True)), rtol=1e-3
        )
    noise = found.model_.posterior.noise_variance / factor**2
    assert noise == pytest.approx(wanted.model_.posterior.noise_variance, rel=1e-4)
    assert found.model_.scale * factor**2 == pytest.approx(wanted.model_.scale, rel=1e-4)
    for one, other in zip(
        wanted.predict_interval(numbers, numbers), found.predict_interval(numbers, numbers), strict=True
    ):
        np.testing.assert_allclose((other - factor * level) / factor, one, atol=1e-3)
    shift = np.log(factor) * found.observations_.n_observed  # density of the targets
    assert found.history_[-1].value - shift == pytest.approx(wanted.history_[-1].value, abs=0.01)
    unseen = [(each.predict([[0, 99], [99, 0], [99, 99]])) for each in (wanted, found)]
    np.testing.assert_allclose((unseen[1] - factor * level) / factor, unseen[0], atol=1e-4)


@pytest.mark.parametrize("method", ["bayes", "factors"])
@pytest.mark.parametrize("factor, level", UNITS[1:4])
def test_new_rows_and_warm_starts_do_not_depend_on_units(method, factor, level):
    truth, _ = planted()
    new = np.where(np.random.default_rng(2).random((3, 20)) < 0.5, truth[:3] + 0.5, np.nan)
    results = []
    for s, c in ((1.0, 0.0), (factor, level)):
        estimator = fitted("square", s, c, method=method, rank=2, max_iter=4)
        folded = estimator.fold_in(s * (new + c)).to_dense()
        estimator.set_params(warm_start=True, max_iter=2).fit(estimator.observations_)
        results.append([(part - s * c) / s for part in (folded, estimator.reconstruct())])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(other, one, atol=3e-4)


@pytest.mark.parametrize("factor", [1e-3, 1e8])
def test_a_ridge_is_given_in_the_units_of_the_targets(factor):
    """Scaled targets have the scaled solution if the ridge is scaled as the squared factors are."""
    wanted = fitted("square", method="factors", ridge=3.0, rank=2, offsets="none", dtype="float64")
    found = fitted("square", factor, method="factors", ridge=3.0 * factor, rank=2, offsets="none", dtype="float64")
    assert compare(found, wanted, factor, 0.0) < 1e-4
    pursuit = {"method": "glrl", "rank": 3, "ridge": 2.0, "dtype": "float64"}
    assert compare(fitted("square", factor, **pursuit), fitted("square", **pursuit), factor, 0.0) < 1e-4


def test_solve_has_scores_and_callbacks_in_the_units_of_the_targets():
    truth, seen = planted()
    inside, outside = (np.where(mask, 1e5 * truth, np.nan) for mask in (seen, ~seen))
    records, problem = [], rw.Problem(inside, "square", dtype="float64")
    result = rw.solve(problem, "eglrl", rank=3, held_out=rw.Observations.from_dense(outside), callback=records.append)
    x = result.model.to_dense()
    assert result.history[-1].value == pytest.approx(0.5 * np.sum((x - 1e5 * truth)[seen] ** 2))
    assert result.history[-1].score == pytest.approx(0.5 * np.mean((x - 1e5 * truth)[~seen] ** 2))
    assert records[-1].value == result.history[-1].value
    assert problem.value() == pytest.approx(result.history[-1].value)


def test_ordinary_targets_are_stored_as_they_are():
    truth, seen = planted()
    problem = rw.Problem(np.where(seen, truth + 3.5, np.nan), "square")
    assert problem.in_own_units(level=True) is problem


@pytest.mark.parametrize("factor", [1e-100, 1e100, 1e-200, 1e300])
@pytest.mark.parametrize("loss", ["square", "own_square", "l1"])
def test_extreme_units_give_a_fit_or_a_sentence(loss, factor):
    try:
        found = fitted(loss, factor, rank=2, max_iter=3)
    except rw.DataError as error:
        assert "targets" in str(error)
    else:
        assert compare(found, fitted(loss, rank=2, max_iter=3), factor, 0.0) < 1e-4


def test_the_noise_of_a_users_square_loss_is_that_of_the_square_loss():
    ours, own = (fitted(loss, 100.0, rank=2, max_iter=5) for loss in ("square", "own_square"))
    assert own.model_.scale == pytest.approx(ours.model_.scale, rel=1e-3)
    assert compare(own, ours, 1.0, 0.0) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bayes", "factors"])
@pytest.mark.parametrize("own, ours", [("own_absolute", "l1"), ("own_quantile", "quantile")])
def test_a_users_loss_with_a_corner_predicts_as_ours_does(own, ours, method):
    truth, seen = planted()
    losses = []
    for loss in (own, ours):
        predicted = fitted(loss, method=method, rank=2, dtype="float64").reconstruct()
        losses.append(LOSSES[own](1.0).value(predicted, truth)[~seen].mean())
    assert losses[0] < 1.1 * losses[1]


def test_the_best_constant_is_in_the_middle_of_all_best_ones():
    targets = np.array([[1.0, 2.0, 4.0, 9.0]])
    for shift in (0.0, -3.0, -20.0, 20.0):
        offsets = rw.solvers.fit_offsets(rw.Problem(targets + shift, "l1"), "global")
        assert offsets.constant == pytest.approx(3.0 + shift)
