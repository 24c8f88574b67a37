"""`MatrixCompletion`: input formats, parameters, methods, fitted attributes, predictions, files."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import SMOOTH_LOSSES, make_observations
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.utils.validation import check_is_fitted

from rankwise import (
    DataError,
    LowRankModel,
    MatrixCompletion,
    ModelFileError,
    Observations,
    Problem,
    RankwiseError,
    Ridged,
    RobustFactorization,
    SettingError,
    datasets,
    load,
    loss,
    solve,
)
from rankwise._errors import NotFittedError
from rankwise.losses import Huber, Logistic, Square
from rankwise.model import Offsets, save
from rankwise.solvers import BayesSweeps, FactorSweeps, GreedyPursuit, NonsmoothPursuit, fit_offsets
from rankwise.spectral import Lanczos

ROWS, COLS = np.divmod(np.arange(12 * 9), 9)
KINDS = {"bayes": {}, "factors": {"method": "factors", "ridge": 1.0}, "pursuit": {"method": "eglrl"}}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.fixture
def observations():
    return make_observations(Square(), np.random.default_rng(34), density=0.5)


def nan_array(observations):
    array = np.full(observations.shape, np.nan)
    array[observations.rows, observations.cols] = observations.targets
    return array


def shuffled_coo(observations):
    order = np.random.default_rng(0).permutation(observations.n_observed)
    entries = observations.targets[order], (observations.rows[order], observations.cols[order])
    return sp.coo_array(entries, shape=observations.shape)


def masked(observations):
    return np.ma.masked_invalid(nan_array(observations))


def lists(observations):
    return nan_array(observations).tolist()


def with_weights(data, weights):
    return Observations.from_coo(data.rows, data.cols, data.targets, data.shape, weights=weights)


def same(one, other):
    parts = ("theta_", "U_", "V_")
    return (
        all(np.array_equal(getattr(one, part), getattr(other, part)) for part in parts)
        and np.array_equal(one.history_.column("value"), other.history_.column("value"))
        and np.array_equal(one.model_.to_dense(), other.model_.to_dense())  # with the offsets
    )


@pytest.mark.parametrize("form", [Observations.to_sparse, shuffled_coo, nan_array, masked, lists])
@every_kind
def test_every_form_of_the_data_gives_the_same_fit(observations, form, kind):
    wanted = MatrixCompletion(rank=4, **kind).fit(observations)
    found = MatrixCompletion(rank=4, **kind).fit(form(observations))
    assert same(found, wanted) and found.n_features_in_ == 9


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_array, sp.coo_array, sp.lil_array, sp.dok_array])
def test_every_sparse_format_is_read(observations, form):
    wanted = MatrixCompletion(rank=2).fit(observations)
    assert same(MatrixCompletion(rank=2).fit(form(observations.to_sparse())), wanted)


def test_an_explicit_zero_is_observed():
    sparse = sp.csr_array(([0.0, 2.0, 3.0], ([0, 0, 1], [0, 1, 0])), shape=(2, 2))
    assert same(MatrixCompletion(rank=1).fit(sparse), MatrixCompletion(rank=1).fit([[0.0, 2.0], [3.0, np.nan]]))


SOLVERS = [
    ({}, BayesSweeps()),
    ({"method": "bayes"}, BayesSweeps()),
    ({"offsets": "rows"}, BayesSweeps("rows")),
    ({"method": BayesSweeps("rows", 2, pattern_prior=False)}, BayesSweeps("rows", 2, pattern_prior=False)),
    ({"method": "factors", "ridge": 0.5}, FactorSweeps(ridge=0.5)),
    ({"method": "factors", "ridge": 0.5, "offsets": "none"}, FactorSweeps("none", ridge=0.5)),
    ({"method": FactorSweeps("none", 1, ridge=0.5)}, FactorSweeps("none", 1, ridge=0.5)),
    ({"method": BayesSweeps(pattern_prior=False), "offsets": "rows"}, BayesSweeps("rows", pattern_prior=False)),
    ({"method": FactorSweeps("none", ridge=0.5), "offsets": "both"}, FactorSweeps("both", ridge=0.5)),
    ({"method": "eglrl", "offsets": "none"}, "eglrl"),
    (
        {"method": GreedyPursuit("coefficients", shrinkage=0.5), "offsets": "none"},
        GreedyPursuit("coefficients", shrinkage=0.5),
    ),
]


@pytest.mark.parametrize(("settings", "solver"), SOLVERS, ids=str)
def test_a_fit_is_the_solver_s_result(observations, settings, solver):
    fitted = MatrixCompletion("square", 4, dtype="float64", random_state=3, **settings).fit(observations)
    result = solve(Problem(observations, Square(), dtype=np.float64), solver, rank=4, random_state=3)
    assert np.array_equal(fitted.theta_, result.model.theta) and np.array_equal(fitted.U_, result.model.U)
    assert np.array_equal(fitted.model_.to_dense(), result.model.to_dense())
    assert fitted.history_.column("value").tolist() == result.history.column("value").tolist()
    assert str(fitted.status_) == str(result.status)


def test_the_default_is_bayes_with_pruning(observations):
    most = -(-(observations.n_observed // max(observations.shape)) // 8) * 8 - 1
    default, named = (MatrixCompletion(**settings).fit(observations) for settings in ({}, {"method": "bayes"}))
    loss = Huber(1.345 * observations.targets.std())
    spelled = solve(Problem(observations, loss), BayesSweeps("both", least_effect=0.1), rank=most)
    assert same(default, named) and same(default, MatrixCompletion(method=BayesSweeps()).fit(observations))
    assert np.array_equal(default.model_.to_dense(), spelled.model.to_dense())
    assert isinstance(default.offsets_, Offsets) and default.model_.posterior is not None


@pytest.mark.parametrize(
    ("targets", "loss"),
    [([1.0, -1.0, 1.0], "logistic"), ([-1.0, -1.0, -1.0], "logistic"), ([1.0, 1.0, 1.0], "square"),
     ([1.0, 0.0, 1.0], "bernoulli"), ([0.0, 0.0, 0.0], "square"),
     ([1.0, -1.0, 0.0], "square"), ([1.0, 2.0, -1.0], "square")],
)  # fmt: skip
def test_auto_is_logistic_for_two_classes_and_square_for_others_in_a_pursuit(targets, loss):
    data = Observations.from_coo([0, 1, 1], [0, 0, 1], targets)
    found, wanted = (MatrixCompletion(name, rank=1, method="eglrl").fit(data) for name in ("auto", loss))
    assert same(found, wanted) and found.model_.loss == wanted.model_.loss
    assert found.model_.link == ("identity" if loss == "square" else "logit")


@every_kind
@pytest.mark.parametrize("offsets", ["none", "global", "rows", "columns", "both"])
def test_offsets_are_of_the_asked_kind_and_part_of_every_prediction(observations, kind, offsets):
    fitted = MatrixCompletion(rank=2, offsets=offsets, dtype="float64", **kind).fit(observations)
    low_rank = (fitted.U_ * fitted.theta_) @ fitted.V_.T
    if offsets == "none":
        assert fitted.offsets_ is None or not fitted.offsets_.to_dense().any()
    else:
        assert fitted.offsets_.constant != 0
        assert fitted.offsets_.rows.any() == (offsets in ("rows", "both"))
        assert fitted.offsets_.cols.any() == (offsets in ("columns", "both"))
        low_rank = low_rank + fitted.offsets_.to_dense()
    np.testing.assert_allclose(fitted.predict_entries(ROWS, COLS), low_rank[ROWS, COLS], atol=1e-12)


def test_the_offsets_of_a_pursuit_are_those_fitted_first_and_stay(observations):
    """The rank-0 prediction is the offsets, and the pursuit is the one of a problem with these offsets."""
    fitted = MatrixCompletion(rank=3, method="eglrl", offsets="both").fit(observations)
    problem = Problem(observations, Square(), offsets=fitted.offsets_)
    assert np.array_equal(fitted.theta_, solve(problem, "eglrl", rank=3).model.theta)
    np.testing.assert_allclose(fitted.model_.to_dense(0), fitted.offsets_.to_dense())


@pytest.mark.parametrize("method", ["eglrl", "glrl", "glrl-none"])
def test_rank_auto_of_a_pursuit_is_the_smallest_within_a_standard_error(observations, method):
    fitted = MatrixCompletion(method=method, rank="auto").fit(observations)
    scores, path = fitted.path_.scores, fitted.path_
    within = scores <= scores.min() + path.deviations[scores.argmin()]
    assert path.best == path.settings[within].min() == fitted.model_.longest
    assert same(fitted, MatrixCompletion(method=method, rank=path.best).fit(observations))


def test_ridge_auto_of_the_factors_is_the_best_on_held_out_entries(observations):
    fitted = MatrixCompletion(method="factors", rank=2).fit(observations)
    assert fitted.path_.best == fitted.path_.settings[fitted.path_.scores.argmin()]
    assert np.all(np.diff(fitted.path_.settings) < 0) and len(fitted.path_.settings) > 1
    assert same(fitted, MatrixCompletion(method="factors", rank=2, ridge=fitted.path_.best).fit(observations))
    assert same(fitted, MatrixCompletion(method="factors", rank=2, ridge="auto").fit(observations))


def test_standard_deviations_come_with_bayes_and_are_refused_without(observations):
    fitted = MatrixCompletion(rank=3).fit(observations)
    predicted, deviations = fitted.predict_entries(ROWS, COLS, return_std=True)
    assert np.array_equal(predicted, fitted.predict_entries(ROWS, COLS))
    assert deviations.shape == (108,) and np.all(deviations > 0)
    assert np.array_equal(deviations, np.sqrt(fitted.model_.posterior.variance_at(ROWS, COLS)))
    for kind in ("factors", "pursuit"):
        with pytest.raises(SettingError, match="return_std"):
            MatrixCompletion(rank=3, **KINDS[kind]).fit(observations).predict_entries([0], [0], return_std=True)


def test_a_component_s_worth_of_entries_keeps_the_ranks_of_sweeps_in_order_of_size(observations):
    """The model of a lower rank is the truncated one: the best approximation of the low-rank part."""
    fitted = MatrixCompletion(rank=4, dtype="float64", **KINDS["factors"]).fit(observations)
    offsets = fitted.offsets_.to_dense()
    left, values, right = np.linalg.svd(fitted.model_.to_dense() - offsets)
    np.testing.assert_allclose(fitted.theta_, values[:4], rtol=1e-9)
    for rank in range(1, 5):  # rank 0 has offsets of its own
        truncated = (left[:, :rank] * values[:rank]) @ right[:rank]
        np.testing.assert_allclose(fitted.model_.to_dense(rank), truncated + offsets, atol=1e-9)


def test_parameters_can_be_read_set_cloned_and_printed():
    estimator = MatrixCompletion(Huber(0.5), rank=7, ridge=0.25)
    assert estimator.get_params()["loss"] == Huber(0.5) and estimator.get_params()["ridge"] == 0.25
    twin = clone(estimator)
    assert twin is not estimator and twin.get_params() == estimator.get_params()
    assert estimator.set_params(rank=3).rank == 3 and twin.rank == 7
    assert "rank=3" in repr(estimator) and "Huber" in repr(estimator)
    with pytest.raises(ValueError, match="Invalid parameter"):
        estimator.set_params(ranks=3)


def test_the_constructor_stores_what_it_is_given_and_looks_at_nothing():
    values = dict.fromkeys(MatrixCompletion().get_params(), object())
    estimator = MatrixCompletion(**values)
    assert all(getattr(estimator, name) is value for name, value in values.items())
    assert vars(estimator).keys() == values.keys()


def test_fit_changes_nothing_but_names_that_end_in_an_underscore(observations):
    estimator = MatrixCompletion("huber", rank=2, random_state=np.random.RandomState(0))
    before = dict(vars(estimator))
    assert estimator.fit(observations) is estimator
    after = dict(vars(estimator))
    assert {name for name in after if not name.endswith("_")} == before.keys()
    assert all(after[name] is value for name, value in before.items())
    learned = {"model_", "theta_", "U_", "V_", "offsets_", "history_", "status_", "n_features_in_"}
    assert learned <= after.keys() - before.keys()


def test_fit_leaves_its_input_alone(observations):
    array, sparse = nan_array(observations), observations.to_sparse()
    kept, data = array.copy(), sparse.data.copy()
    MatrixCompletion(rank=2).fit(array)
    MatrixCompletion(rank=2).fit(sparse)
    assert np.array_equal(array, kept, equal_nan=True) and np.array_equal(sparse.data, data)
    sparse.data[:] = 0.0  # still the caller's to write


@pytest.mark.parametrize("use", [lambda e: e.predict_entries([0], [0]), lambda e: e.save("nowhere")])
@pytest.mark.parametrize("kind", [NotFittedError, RankwiseError, ValueError, AttributeError])
def test_an_estimator_that_is_not_fitted_says_so(use, kind):
    with pytest.raises(kind, match="not fitted yet; call `fit` first"):
        use(MatrixCompletion())


def test_scikit_learn_can_tell_whether_it_is_fitted(observations):
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(MatrixCompletion())
    check_is_fitted(MatrixCompletion(rank=1).fit(observations))


@pytest.mark.parametrize(
    "setting",
    [
        {"offsets": "sideways"},
        {"offsets": None},
        {"method": "eglrl", "offsets": "sideways"},
        {"loss": "cubic"},
        {"loss": 3},
        {"rank": 0},
        {"rank": 2.0},
        {"rank": "many"},
        {"method": "eglrl", "rank": "many"},
        {"method": "auto"},
        {"method": None},
        {"method": "svd"},
        {"ridge": 0.5},
        *({"method": method, "ridge": ridge} for method in ("factors", "eglrl") for ridge in (-1.0, np.nan, "strong")),
        {"warm_start": "yes"},
        {"checkpoint": 3},
        {"calibration": 1.0},
        {"verbose": 2},
        {"tol": -1},
        {"max_iter": 0},
        {"time_limit": 0},
        {"dtype": "float16"},
        {"n_jobs": 0},
        {"random_state": "seed"},
        {"random_state": -1},
        {"random_state": 1.5},
    ],
    ids=str,
)
def test_bad_parameters_are_refused_in_a_sentence_by_fit(observations, setting):
    name, value = list(setting.items())[-1]
    with pytest.raises(RankwiseError) as caught:
        MatrixCompletion(**setting).fit(observations)
    message = str(caught.value)
    assert message.endswith(".") and (repr(value) in message or str(value) in message) and name.split("_")[0] in message


@every_kind
@pytest.mark.parametrize("rank", [0, -3, "many"])
def test_a_rank_that_is_none_names_both_forms(observations, kind, rank):
    with pytest.raises(SettingError, match=f"`rank` must be a positive integer or 'auto', got {rank!r}"):
        MatrixCompletion(rank=rank, **kind).fit(observations)


@pytest.mark.parametrize(
    "form", [np.array, np.ndarray.tolist, lambda pairs: pairs.astype(str)], ids=["array", "list", "text"]
)
def test_pairs_with_a_third_column_are_refused_and_matrices_of_three_columns_are_not(form):
    rows, cols = np.divmod(np.arange(20), 5)
    third = form(np.column_stack((rows, cols, np.arange(20) % 3)))
    with pytest.raises(
        DataError, match="`X` has three columns, of which the first two look like row and column labels"
    ):
        MatrixCompletion(rank=1).fit(third, np.arange(20.0))
    matrix = np.random.default_rng(0).integers(1, 6, size=(20, 3)).astype(float)
    for table in (matrix, matrix + 0.5, np.where(matrix > 1, matrix, np.nan)):
        assert MatrixCompletion(rank=1, max_iter=1).fit(table, np.arange(20.0)).model_.shape == (20, 3)


@pytest.mark.parametrize(
    ("solver", "setting"),
    [
        (BayesSweeps(), {"ridge": 1.0}),
        (FactorSweeps(), {"ridge": 1.0}),
    ],
    ids=str,
)
def test_a_setting_that_the_solver_object_has_itself_is_an_error(observations, solver, setting):
    ((name, value),) = setting.items()
    with pytest.raises(SettingError, match=f"`{name}` must be .*got {value!r}"):
        MatrixCompletion(rank=2, method=solver, **setting).fit(observations)


@pytest.mark.parametrize("method", ["eglrl", GreedyPursuit("economic")], ids=str)
def test_offsets_and_ridge_of_a_pursuit_are_the_estimator_s(observations, method):
    fitted = MatrixCompletion(rank=2, method=method, offsets="both", ridge=0.3).fit(observations)
    problem = Problem(observations, Square(), offsets=fit_offsets(Problem(observations, Square())))
    assert np.array_equal(fitted.model_.to_dense(), solve(Ridged(problem, 0.3), "eglrl", rank=2).model.to_dense())


def test_a_method_that_works_at_one_rank_needs_it(observations):
    with pytest.raises(SettingError, match="`rank` must be an integer with method='altmin'"):
        MatrixCompletion(method="altmin").fit(observations)


@every_kind
def test_random_states_of_every_kind(observations, kind):
    def theta(random_state):
        return MatrixCompletion(rank=3, random_state=random_state, **kind).fit(observations).theta_.tolist()

    assert theta(None) == theta(None) == theta(0) == theta(np.int64(0)) != theta(1)
    for make in (np.random.RandomState, np.random.default_rng):
        assert theta(make(5)) == theta(make(5)) != theta(make(6))
        shared = make(5)
        assert theta(shared) != theta(shared)  # a generator moves on, as in scikit-learn


@pytest.mark.parametrize("method", ["r1mp", "r1mp-economic", "glrl", "eglrl", "glrl-none"])
def test_methods_by_name(observations, method):
    fitted = MatrixCompletion(method=method, rank=3, offsets="none").fit(observations)
    wanted = solve(Problem(observations, Square()), method, rank=3)
    assert np.array_equal(fitted.theta_, wanted.model.theta)


@pytest.mark.parametrize("refine", ["none", "economic", "coefficients"])
def test_solver_objects_carry_their_own_settings(observations, refine):
    fitted = MatrixCompletion(method=GreedyPursuit(refine, "lanczos"), rank=3, offsets="none").fit(observations)
    wanted = solve(Problem(observations, Square()), GreedyPursuit(refine, Lanczos()), rank=3)
    assert np.array_equal(fitted.theta_, wanted.model.theta)


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
def test_losses_by_name_and_by_object(loss):
    data = make_observations(loss, np.random.default_rng(35), density=0.5)
    by_object = MatrixCompletion(loss, rank=3, method="eglrl").fit(data)
    if loss == type(loss)():
        assert same(MatrixCompletion(loss.name, rank=3, method="eglrl").fit(data), by_object)
    assert by_object.history_[-1].value < by_object.history_.initial_value
    for scale in ("link", "response"):
        assert np.isfinite(by_object.predict_entries(ROWS, COLS, scale=scale)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["glrl-none", "eglrl", "glrl"])
def test_predicting_at_a_lower_rank_is_refitting_at_that_rank(observations, dtype, method):
    full = MatrixCompletion(rank=9, method=method, dtype=dtype).fit(observations)
    for rank in range(1, 10):
        refitted = MatrixCompletion(rank=rank, method=method, dtype=dtype).fit(observations)
        assert np.array_equal(full.predict_entries(ROWS, COLS, rank=rank), refitted.predict_entries(ROWS, COLS))
    assert np.all(full.predict_entries(ROWS, COLS, rank=0) == full.offsets_.constant)


@every_kind
def test_predictions_are_the_factors_product_and_the_offsets(observations, kind):
    fitted = MatrixCompletion(rank=4, dtype="float64", **kind).fit(observations)
    X = (fitted.U_ * fitted.theta_) @ fitted.V_.T + (0 if fitted.offsets_ is None else fitted.offsets_.to_dense())
    np.testing.assert_allclose(fitted.predict_entries(ROWS, COLS), X[ROWS, COLS], atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(fitted.U_, axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(fitted.V_, axis=0), 1, atol=1e-12)


@every_kind
def test_a_saved_model_predicts_the_same_bits(observations, tmp_path, kind):
    fitted = MatrixCompletion("square", rank=9, **kind).fit(observations)
    fitted.save(tmp_path / "model.rankwise")
    loaded = load(tmp_path / "model.rankwise")
    for rank in (None, 0, fitted.model_.rank // 2):
        assert np.array_equal(
            loaded.predict_entries(ROWS, COLS, rank=rank), fitted.predict_entries(ROWS, COLS, rank=rank)
        )


@every_kind
def test_a_fitted_estimator_can_be_pickled(observations, kind):
    fitted = MatrixCompletion(rank=2, **kind).fit(observations)
    assert same(pickle.loads(pickle.dumps(fitted)), fitted)


@pytest.mark.parametrize("loss", [Square(), Huber(), Logistic()], ids=repr)
@pytest.mark.parametrize("refine", ["none", "economic", "coefficients"])
def test_doubling_all_weights_doubles_the_value_and_changes_no_model(loss, refine):
    data = make_observations(loss, np.random.default_rng(36), density=0.5)
    once, twice = (
        MatrixCompletion(loss, rank=4, method=GreedyPursuit(refine, "dense"), dtype="float64").fit(
            with_weights(data, np.full(data.n_observed, weight))
        )
        for weight in (1.0, 2.0)
    )
    np.testing.assert_allclose(twice.history_.column("value"), 2 * once.history_.column("value"), rtol=1e-9)
    np.testing.assert_allclose(twice.model_.to_dense(), once.model_.to_dense(), atol=1e-7)
    np.testing.assert_allclose(twice.history_.column("sigma"), 2 * once.history_.column("sigma"), rtol=1e-7)


@every_kind
def test_weights_all_one_are_no_weights(observations, kind):
    weighted = with_weights(observations, np.ones(observations.n_observed))
    one, other = (MatrixCompletion(rank=4, dtype="float64", **kind).fit(data) for data in (observations, weighted))
    np.testing.assert_allclose(one.model_.to_dense(), other.model_.to_dense(), atol=1e-12)


def test_an_entry_of_weight_zero_is_not_seen(observations):
    weights = np.ones(observations.n_observed)
    weights[::3] = 0.0
    one = MatrixCompletion(rank=4, method=GreedyPursuit("economic", "dense"), dtype="float64").fit(
        with_weights(observations, weights)
    )
    other = MatrixCompletion(rank=4, method=GreedyPursuit("economic", "dense"), dtype="float64").fit(
        observations.take(weights > 0)
    )
    np.testing.assert_allclose(one.model_.to_dense(), other.model_.to_dense(), atol=1e-8)


def test_a_ridge_shrinks(observations):
    for method in ("factors", "eglrl"):
        fits = [MatrixCompletion(rank=4, method=method, ridge=ridge).fit(observations) for ridge in (0.0, 0.5, 2.0)]
        norms = [np.abs(fit.theta_).sum() for fit in fits]
        assert norms[0] > norms[1] > norms[2] > 0


@every_kind
def test_early_stopping_reaches_the_solver(observations, kind):
    assert MatrixCompletion(rank=50, tol=0.9, **kind).fit(observations).status_.reason == "tol"
    assert MatrixCompletion(rank=50, time_limit=1e-9, **kind).fit(observations).status_.reason == "time"
    assert len(MatrixCompletion(rank=50, max_iter=2, **kind).fit(observations).history_) == 2


def test_labels_reach_the_predictions():
    data = Observations.from_labels(["ann", "bob", "bob"], ["x", "x", "y"], [1.0, 2.0, 3.0])
    fitted = MatrixCompletion(rank=1, method="glrl", dtype="float64").fit(data)
    np.testing.assert_allclose(fitted.predict_entries(["bob"], ["y"]), fitted.model_.to_dense()[1, 1])


def test_a_ridge_per_entry_can_be_chosen_on_held_out_entries():
    observations = datasets.ratings(30, 20, rank=2, density=0.4).observations
    chosen = MatrixCompletion("square", 2, method=FactorSweeps(count_power=1.0), ridge="auto").fit(observations)
    assert chosen.path_.settings.max() < 128 and np.isfinite(chosen.path_.scores).all()
    solver = FactorSweeps(ridge=chosen.path_.best, count_power=1.0)
    wanted = solve(Problem(observations, Square()), solver, rank=2)
    np.testing.assert_array_equal(chosen.model_.to_dense(), wanted.model.to_dense())


def test_predictions_are_on_the_response_scale_unless_the_link_scale_is_asked_for():
    data = make_observations(Logistic(), np.random.default_rng(37), density=0.5)
    fitted = MatrixCompletion("logistic", rank=2, method="eglrl").fit(data)
    linked = fitted.predict_entries(ROWS, COLS, scale="link")
    np.testing.assert_allclose(linked, fitted.model_.to_dense()[ROWS, COLS], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_entries(ROWS, COLS), 1 / (1 + np.exp(-linked)), rtol=1e-9)
    for scale in ("link", "response"):
        signs = fitted.predict_entries(ROWS, COLS, scale=scale, decode="class")
        assert np.array_equal(signs, np.where(linked > 0, 1.0, -1.0))


RESTORED = {
    "default": MatrixCompletion(),
    "settings": MatrixCompletion(Huber(0.5), 3, max_iter=4, dtype=np.float64, n_jobs=1, random_state=7),
    "solver": MatrixCompletion("square", 3, method=GreedyPursuit("economic", Lanczos(tol=0.1), 0.5), ridge=0.1),
    "factors": MatrixCompletion("square", 2, method=FactorSweeps("rows", ridge=0.5, count_power=0.5)),
    "robust": RobustFactorization(rank=3, method=NonsmoothPursuit("paper")),
}


@pytest.mark.parametrize("estimator", RESTORED.values(), ids=RESTORED)
def test_load_returns_the_saved_estimator_which_can_be_refitted(observations, tmp_path, estimator):
    fitted = clone(estimator).fit(observations)
    fitted.save(tmp_path / "m.rankwise")
    loaded = load(tmp_path / "m.rankwise")
    params = estimator.get_params() | {"dtype": np.dtype(estimator.dtype).name}
    assert type(loaded) is type(estimator) and str(loaded.get_params()) == str(params)
    assert (loaded.n_features_in_, loaded.n_iter_) == (fitted.n_features_in_, fitted.n_iter_)
    assert np.array_equal(loaded.predict_entries(ROWS, COLS), fitted.predict_entries(ROWS, COLS))
    assert same(loaded.fit(observations), fitted)


def test_load_returns_a_model_where_a_model_was_saved(observations, tmp_path):
    fitted = MatrixCompletion(rank=2, max_iter=2).fit(observations)
    save(fitted.model_, tmp_path / "m.rankwise")
    assert isinstance(load(tmp_path / "m.rankwise"), LowRankModel)


class OwnPursuit(GreedyPursuit):
    """A solver that a file cannot restore."""


def test_a_solver_of_the_user_s_own_is_named_when_the_loaded_estimator_is_refitted(observations, tmp_path):
    MatrixCompletion("square", 2, method=OwnPursuit()).fit(observations).save(tmp_path / "m.rankwise")
    loaded = load(tmp_path / "m.rankwise")
    assert loaded.predict_entries([0], [0]).shape == (1,)
    with pytest.raises(SettingError, match="OwnPursuit"):
        loaded.fit(observations)


@pytest.mark.parametrize(
    "damage", [{"params": {"rankness": 3}}, {"params": 3}, {"estimator": "Nobody"}, {"fitted": {}}], ids=str
)
def test_a_file_with_damaged_parameters_is_an_error(observations, tmp_path, damage):
    fitted = MatrixCompletion(rank=2, max_iter=2).fit(observations)
    save(replace(fitted.model_, facts=fitted.model_.facts | fitted._to_state() | damage), tmp_path / "m.rankwise")
    with pytest.raises(ModelFileError):
        load(tmp_path / "m.rankwise")


def test_a_file_without_labels_has_no_name_of_a_column(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"secret": [1.0, 2.0, 3.0], "hidden": [2.0, np.nan, 6.0]})
    fitted = MatrixCompletion(rank=1, max_iter=2).fit(frame)
    assert list(fitted.feature_names_in_) == ["secret", "hidden"]
    fitted.save(tmp_path / "with")
    fitted.save(tmp_path / "without", labels=False)
    assert b"secret" in (tmp_path / "with").read_bytes() and b"secret" not in (tmp_path / "without").read_bytes()
    assert load(tmp_path / "without").n_features_in_ == 2


def test_a_custom_loss_is_not_in_a_file_and_fit_says_so(tmp_path):
    custom = loss(lambda x, o: abs(x - o))
    seen = datasets.ratings(12, 10, rank=1, density=0.6).observations
    MatrixCompletion(custom, rank=1, method="glrl-nonsmooth").fit(seen).save(tmp_path / "m")
    restored = load(tmp_path / "m")
    with pytest.raises(SettingError, match=r"'loss' parameter .* which the file does not contain"):
        restored.fit(seen)
    assert restored.set_params(loss="l1").fit(seen).model_.loss.name == "l1"
