"""What all of the paper's competitors have in common: one door, one kind of answer, and an end that says why."""

import numpy as np
import pytest
from helpers import make_observations

import rankwise as rw
from rankwise import DataError, Observations, Problem, SettingError, solve
from rankwise.cli import main
from rankwise.losses import Absolute, Logistic, Square
from rankwise.solvers import METHODS, AISImpute, Coefficients, GreedyPursuit, History, Result, Solver, get

CLASSES = {
    "ais-impute": "AISImpute",
    "soft-impute": "AISImpute",
    "altmin": "AltMin",
    "admm": "ADMM",
    "wiberg": "Wiberg",
    "geco": "GECO",
    "local-search": "LocalSearch",
    "boosting": "Boosting",
    "active-subspace": "ActiveSubspace",
    "frank-wolfe": "FrankWolfe",
}
NAMES = tuple(CLASSES)
SMOOTH = tuple(name for name in NAMES if name not in ("admm", "wiberg"))
SIGMA = (
    "geco",
    "local-search",
    "boosting",
    "active-subspace",
    "frank-wolfe",
)  # those that know the gradient's top singular value
every_name = pytest.mark.parametrize("name", NAMES)
smooth_names = pytest.mark.parametrize("name", SMOOTH)
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def loss_of(name):
    return Absolute() if name in ("admm", "wiberg") else Square()


def make_problem(name, shape=(12, 9), density=0.6, dtype=np.float64, n_jobs=None, weights=True):
    observations = make_observations(loss_of(name), np.random.default_rng(8), shape, density, weights)
    return Problem(observations, loss_of(name), dtype=dtype, n_jobs=n_jobs)


def bits(result):
    parts = [result.model.path, result.model.U, result.model.V, result.history.column("value")]
    return [part.tobytes() for part in parts]


@every_name
@every_dtype
def test_the_answer_is_of_the_same_kind_for_all(name, dtype):
    problem = make_problem(name, dtype=dtype)
    result = solve(problem, name, rank=2)
    model = result.model
    assert type(result) is Result and type(model) is rw.LowRankModel and type(result.history) is History
    assert model.shape == (12, 9) and model.only_by == CLASSES[name] and model.chosen is None
    assert model.U.dtype == model.V.dtype == dtype and model.path.dtype == np.float64
    for part in (model.path, model.U, model.V, model.to_dense()):
        assert np.isfinite(part).all()
    for side in (model.U, model.V):
        np.testing.assert_allclose(np.linalg.norm(side, axis=0), 1, atol=1e-5)
    assert str(result.status).endswith(".") and len(str(result.status)) > 10
    assert model.rank <= 2 or name == "admm"  # whose rank follows from its weight


@every_name
def test_the_history_has_what_applies_and_none_for_the_rest(name):
    problem = make_problem(name)
    held_out = make_observations(loss_of(name), np.random.default_rng(9))
    history = solve(problem, name, rank=2, held_out=held_out).history
    n = len(history)
    assert n >= 1 and list(history.column("step")) == list(range(1, n + 1))
    assert np.isfinite(history.column("value")).all() and np.isfinite(history.initial_value)
    assert np.all(np.diff(history.column("wall_seconds")) > 0) and history[0].wall_seconds > 0
    assert np.all(np.diff(history.column("cpu_seconds")) >= 0)
    assert np.isfinite(history.column("score")).all()
    for column in ("sigma", "alignment", "gap"):
        found = history.column(column)
        applies = name in SIGMA or (name == "admm" and column == "gap")
        assert (found >= 0).all() if applies else found.tolist() == [None] * n
    assert np.all(history.column("n_products") >= 0) and np.all(history.column("n_evaluations") >= 0)


@every_name
def test_the_history_starts_from_zero_and_ends_at_the_model(name):
    problem = make_problem(name)
    result = solve(problem, name, rank=2)
    X = result.model.to_dense()[problem.observations.rows, problem.observations.cols]
    weights, targets = problem.observations.weights, problem.observations.targets

    def value(x):
        return weights @ loss_of(name).value(x, targets)

    penalty = 0.0
    if name in ("ais-impute", "soft-impute", "admm", "boosting", "active-subspace"):
        penalty = get(name).init(problem, 2)
        penalty = getattr(penalty, "nuclear_weight", getattr(penalty, "weight", None)) * result.model.theta.sum()
    assert result.history.initial_value == pytest.approx(value(np.zeros(targets.size)))
    assert result.history[-1].value == pytest.approx(value(X) + penalty, rel=1e-9)
    assert result.history[-1].value < result.history.initial_value


@pytest.mark.parametrize("name", [*NAMES, "bayes", "factors"])
def test_each_says_its_objective_cost_rate_and_reference(name):
    solver, summary, _ = METHODS[name]
    assert isinstance(solver, Solver) and summary
    for word in ("Objective: ", "Cost per step: ", "Rate: ", "Reference: "):
        assert word in type(solver).__doc__
    assert repr(solver).startswith(CLASSES.get(name, type(solver).__name__))


@every_name
def test_each_is_reachable_by_name_from_the_estimator(name):
    problem = make_problem(name, weights=False)
    estimator = rw.MatrixCompletion(loss_of(name), 2, method=name, offsets="none", dtype="float64")
    estimator.fit(problem.observations)
    assert np.array_equal(estimator.model_.to_dense(), solve(problem, name, rank=2).model.to_dense())
    assert estimator.status_.reason and estimator.predict_entries([0], [0]).shape == (1,)


def test_the_command_lists_all(capsys):
    main(["methods"], standalone_mode=False)
    listed = capsys.readouterr().out
    assert all(f" {name} " in listed for name in NAMES)


@every_name
def test_ranks_that_were_not_fitted_are_refused_by_the_solver_s_name(name):
    model = solve(make_problem(name), name, rank=3).model
    assert model.rank >= 2
    with pytest.raises(SettingError, match=f"{CLASSES[name]} keeps no path, so rank=1 is not known; fit again"):
        model.predict_entries([0], [0], rank=1)
    assert model.predict_entries([0], [0], rank=model.rank) == model.predict_entries([0], [0])


@every_name
def test_saving_keeps_the_matrix_and_that_there_is_no_path(name, tmp_path):
    estimator = rw.MatrixCompletion(loss=loss_of(name), rank=3, method=name).fit(make_problem(name).observations)
    estimator.save(tmp_path / "model.rankwise")
    again = rw.load(tmp_path / "model.rankwise").model_
    assert np.array_equal(again.to_dense(), estimator.model_.to_dense())
    assert again.only_by == CLASSES[name]
    with pytest.raises(SettingError, match="keeps no path"):
        again.to_dense(1)


@every_name
@pytest.mark.usefixtures("small_shards")
def test_solving_twice_and_on_two_threads_gives_the_same_bits(name):
    if name in SMOOTH:  # enough entries for several shards
        rng = np.random.default_rng(10)
        truth = rng.normal(size=(500, 3)) @ rng.normal(size=(300, 3)).T
        observations = Observations.from_dense(truth + rng.normal(size=truth.shape))
    else:
        observations = make_problem(name).observations
    found = []
    for n_jobs in (1, 2):
        problem = Problem(observations, loss_of(name), n_jobs=n_jobs)
        assert (len(problem.engine.shards) > 1) == (name in SMOOTH)
        found += [bits(solve(problem, name, rank=3, max_iter=4)) for _ in range(2)]
    assert found[0] == found[1] == found[2] == found[3]


@every_name
@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (8, 1), (3, 4)], ids=str)
@pytest.mark.parametrize("rank", [1, 2, 30])
def test_any_shape_and_any_rank_is_taken(name, shape, rank):
    problem = make_problem(name, shape, density=1.0, weights=False)
    result = solve(problem, name, rank=rank, max_iter=50)
    assert result.model.shape == shape and result.model.rank <= min(shape)
    assert result.model.rank <= rank or name == "admm"
    assert np.isfinite(result.model.to_dense()).all() and np.isfinite(result.history.column("value")).all()


@every_name
@every_dtype
def test_rows_and_columns_without_entries_get_finite_predictions(name, dtype):
    rng = np.random.default_rng(11)
    rows, cols = np.repeat([1, 2, 4, 7], 3), np.tile([0, 3, 5], 4)
    observations = Observations.from_coo(rows, cols, rng.normal(size=12), (9, 8))
    result = solve(Problem(observations, loss_of(name), dtype=dtype), name, rank=2)
    X = result.model.to_dense()
    assert X.shape == (9, 8) and np.isfinite(X).all() and np.abs(X).max() < 1e3
    assert result.history[-1].value < result.history.initial_value


@every_name
def test_all_zero_targets_end_at_zero(name):
    result = solve(Problem(Observations.from_dense(np.zeros((5, 4))), loss_of(name)), name, rank=2)
    assert not result.model.to_dense().any()
    assert result.status.reason in ("tol", "optimal", "converged")


@every_name
@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_the_scale_of_the_targets_does_not_matter(name, scale):
    """A power of two, so that rounding does not lead a nonconvex method elsewhere."""
    plain = make_problem(name, weights=False)
    o = plain.observations
    scaled = Problem(Observations.from_coo(o.rows, o.cols, scale * o.targets, o.shape), loss_of(name), dtype=np.float64)
    X, Y = (solve(problem, name, rank=2, max_iter=20).model.to_dense() for problem in (plain, scaled))
    np.testing.assert_allclose(Y / scale, X, atol=1e-6 * np.abs(X).max())


@every_name
def test_too_few_steps_end_in_a_status_that_says_so(name):
    result = solve(make_problem(name, (20, 15)), name, rank=3, max_iter=1)
    assert result.status.reason == "max_iter" and "1 step" in str(result.status)
    assert len(result.history) == 1 and np.isfinite(result.model.to_dense()).all()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "wiberg"])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_value_that_is_not_finite_ends_the_run_at_the_model_before(name, value, monkeypatch):
    """Wiberg is left out: its values come from linear programs, not from the objective."""
    problem = make_problem(name, (20, 15))
    solver = AISImpute(1.0, accelerate=name == "ais-impute", continuation=0.0) if "impute" in name else name
    wanted = solve(problem, solver, rank=8, max_iter=2, tol=0.0)
    broken = []

    def break_down(record):
        broken.extend([record] * (record.step == 2))

    evaluate = problem.value
    monkeypatch.setattr(problem, "value", lambda: value if broken else evaluate())
    result = solve(problem, solver, rank=8, tol=0.0, callback=break_down)
    assert result.status.reason == "diverged" and "no longer finite" in str(result.status)
    assert len(result.history) == 2 and bits(result) == bits(wanted)


@pytest.mark.parametrize("accelerate", [True, False], ids=["ais-impute", "soft-impute"])
@every_dtype
@pytest.mark.parametrize("lipschitz", [0.4, 0.05, 1e-3, 1e-8])
def test_a_lipschitz_constant_that_is_too_small_ends_in_divergence_not_in_nan(accelerate, dtype, lipschitz):
    problem = make_problem("ais-impute", dtype=dtype, density=0.9, weights=False)
    problem.lipschitz = lipschitz
    result = solve(problem, AISImpute(0.1, accelerate), max_iter=3000)
    assert result.status.reason == "diverged"
    assert np.isfinite(result.model.to_dense()).all() and np.isfinite(result.history.column("value")).all()


@every_name
@pytest.mark.parametrize(
    "setting",
    [
        *({"rank": value} for value in (0, -1, 1.5, True, "3")),
        *({"tol": value} for value in (-1e-3, np.nan, "small")),
        *({"max_iter": value} for value in (-1, np.nan, "many")),
        {"time_limit": 0},
        {"random_state": -1},
    ],
    ids=str,
)
def test_bad_settings_are_refused_in_one_sentence(name, setting):
    (which,) = setting
    with pytest.raises(SettingError, match=f"^`{which}` must .*[^.]\\.$"):
        solve(make_problem(name), name, **{"rank": 2, **setting})


@every_name
def test_bad_targets_are_refused_before_any_solver_sees_them(name):
    for bad in (np.nan, np.inf):
        with pytest.raises(DataError):
            Problem(Observations.from_coo([0, 1], [0, 1], [1.0, bad]), loss_of(name))


@every_name
@pytest.mark.parametrize("setting", [{"time_limit": 1e-9}, {"callback": lambda record: True}], ids=["time", "callback"])
def test_the_loop_s_own_ways_to_stop_work_for_all(name, setting):
    result = solve(make_problem(name), name, rank=4, **setting)
    assert result.status.reason == {"time_limit": "time"}.get(*setting, "callback")
    assert len(result.history) == 1


@smooth_names
def test_each_learns_planted_signs_about_as_well_as_the_pursuit(name):
    """Held-out accuracy within four points of GLRL's."""
    planted = rw.datasets.signed_network(200, 150, rank=3, density=0.4, flip=0.02, random_state=0)
    train, held_out = rw.selection.split_entries(planted.observations, 0.2, 0)
    problem = Problem(train, Logistic())

    def accuracy(method):
        score = rw.selection.sign_accuracy
        return solve(problem, method, rank=3, held_out=held_out, score=score).history[-1].score

    wanted = accuracy(GreedyPursuit(Coefficients(50)))
    assert wanted > 0.75 and accuracy(name) > wanted - 0.04
