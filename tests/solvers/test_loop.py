"""The loop that runs every solver: why it stops, what it records, what it leaves behind."""

import threading
import time
from unittest.mock import patch

import numpy as np
import pytest
from helpers import SMOOTH_LOSSES, make_observations

from rankwise import DataError, MultitaskRegression, Observations, Problem, Ridged, SettingError, solve
from rankwise.engines import LinesLost, Shard, Threads
from rankwise.losses import Poisson, Square
from rankwise.observations import shards
from rankwise.solvers import BayesSweeps, GreedyPursuit

every_refinement = pytest.mark.parametrize("refine", ["none", "economic", "coefficients"])
every_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def make_problem(loss=None, dtype=np.float64, shape=(12, 9), ridge=0.0, seed=29):
    loss = loss or Square()
    problem = Problem(make_observations(loss, np.random.default_rng(seed), shape, 0.5), loss, dtype=dtype)
    return Ridged(problem, ridge) if ridge else problem


@pytest.fixture(scope="module")
@patch.object(shards, "MIN_SHARD", 1 << 15)
def wide():
    """Enough entries for several shards, so that threads do run."""
    rng = np.random.default_rng(30)
    rows, cols = np.nonzero(rng.random((500, 400)) < 0.8)
    problem = Problem(Observations.from_coo(rows, cols, rng.normal(size=rows.size)), Square(), n_jobs=2)
    assert len(problem.engine.shards) > 1
    return problem


def our_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("rankwise")]


def bits(result):
    return [part.tobytes() for part in (result.model.path, result.model.U, result.model.V)] + [
        result.history.column(name).tobytes() for name in ("value", "sigma", "alignment", "gap")
    ]


def test_it_stops_at_the_rank():
    result = solve(make_problem(), rank=3)
    assert (result.status.reason, str(result.status)) == ("rank", "Reached rank 3.")
    assert len(result.history) == result.model.rank == 3


def test_the_status_tells_the_rank_of_the_model_where_components_without_effect_are_left_out():
    rng = np.random.default_rng(0)
    seen = Observations.from_dense(
        rng.normal(size=(40, 1)) @ rng.normal(size=(1, 30)) + 0.3 * rng.normal(size=(40, 30))
    )
    result = solve(Problem(seen, Square()), "bayes", rank=12, max_iter=40)
    assert result.history[-1].rank == 12 > result.model.longest
    n_left_out = 12 - result.model.longest
    assert f" {n_left_out} components without effect were left out: the model has rank {result.model.longest}." in str(
        result.status
    )


@pytest.mark.parametrize("method", ["bayes", "eglrl"])
def test_the_status_tells_that_a_rank_is_above_the_smaller_side(method):
    above = "`rank`=11 is above 9, the smaller side of the matrix."
    assert above in str(solve(make_problem(), method, rank=11).status)
    assert "smaller side" not in str(solve(make_problem(), method, rank=9).status)


def test_it_stops_when_the_value_hardly_changes():
    result = solve(make_problem(ridge=1.0), rank=50, tol=0.01)
    values = np.r_[result.history.initial_value, result.history.column("value")]
    falls = -np.diff(values) / values[:-1]
    assert result.status.reason == "tol" and "less than 0.01" in str(result.status)
    assert falls[-1] <= 0.01 and np.all(falls[:-1] > 0.01) and 1 < len(falls) < 50


def test_it_stops_at_the_time_limit():
    result = solve(make_problem(), rank=10**6, time_limit=1e-9)
    assert result.status.reason == "time" and "time limit of 1e-09 s" in str(result.status)
    assert len(result.history) == 1


def test_it_stops_when_the_callback_says_so():
    seen = []
    result = solve(make_problem(), rank=9, callback=lambda record: seen.append(record) or record.step == 4)
    assert result.status.reason == "callback" and "callback" in str(result.status) and "rank 4" in str(result.status)
    assert list(result.history) == seen and result.model.rank == 4


def test_a_callback_that_returns_nothing_stops_nothing():
    assert solve(make_problem(), rank=3, callback=lambda record: None).status.reason == "rank"


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@every_refinement
def test_targets_that_are_all_zero_are_optimal_at_once(refine, ridge):
    problem = Problem(Observations.from_dense(np.zeros((4, 3))), Square())
    result = solve(Ridged(problem, ridge) if ridge else problem, GreedyPursuit(refine), rank=3)
    assert result.status.reason == "optimal" and "gradient is zero at rank 0" in str(result.status)
    assert result.model.rank == 0 and len(result.history) == 0
    assert np.array_equal(result.model.predict_entries([0, 3], [0, 2]), [0, 0])
    assert not result.model.to_dense().any()


def test_a_fit_that_is_exact_is_optimal_before_the_rank():
    """Counts of one have their minimum at X = 0, where the gradient is zero to the last bit."""
    result = solve(Problem(Observations.from_dense(np.ones((4, 3))), Poisson(), dtype=np.float64), rank=3)
    assert result.status.reason == "optimal"


@pytest.mark.parametrize("solver", [GreedyPursuit("none", "dense"), GreedyPursuit("economic", "dense")], ids=repr)
def test_a_gradient_whose_square_is_zero_is_zero(solver):
    """1e-200 squared is 0 in float64: the pair has a sigma, and no norm or value can tell what it is good for."""
    tasks = MultitaskRegression([np.eye(4)] * 3, [np.full(4, 1e-200)] * 3)
    result = solve(tasks, solver, rank=3)
    assert result.status.reason == "optimal" and result.model.rank == 0


def test_targets_whose_square_is_zero_are_refused():
    problem = Problem(Observations.from_dense(np.full((4, 3), 1e-200)), Square(), dtype=np.float64)
    with pytest.raises(DataError, match="cannot be squared in float64; multiply or divide them"):
        solve(problem, rank=3)


@every_refinement
def test_it_stops_where_no_step_lowers_the_value(refine):
    """Backtracking at the bottom of a rounded function: sigma is not zero, and nothing helps."""
    counts = np.random.default_rng(31).poisson(5.0, (5, 4)) + 1.0
    problem = Problem(Observations.from_dense(counts), Poisson(), dtype=np.float64)
    result = solve(problem, GreedyPursuit(refine, "dense"), rank=500)
    values = np.r_[result.history.initial_value, result.history.column("value")]
    assert result.status.reason == "no-descent" and "lowers the value" in str(result.status)
    assert values[-1] == pytest.approx(np.sum(counts - counts * np.log(counts)), rel=1e-9)
    assert result.model.rank == len(result.history) < 500


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
@every_refinement
@every_dtype
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_history_is_in_order(loss, refine, dtype, ridge):
    problem = make_problem(loss, dtype, ridge=ridge)
    result = solve(problem, GreedyPursuit(refine), rank=6)
    history, n = result.history, len(result.history)
    values = np.r_[history.initial_value, history.column("value")]
    assert 1 <= n <= 6
    assert np.all(np.diff(values) <= (1e-12 if dtype == np.float64 else 1e-6) * abs(values[0]))
    assert list(history.column("step")) == list(history.column("rank")) == list(range(1, n + 1))
    for name in ("wall_seconds", "cpu_seconds"):
        assert np.all(np.diff(history.column(name)) >= 0) and history[0].wall_seconds > 0
    assert set(history.column("n_products")) == {61}
    assert np.all(history.column("gap") >= 0) and np.all(history.column("n_evaluations") >= 0)
    assert history.column("score").tolist() == [None] * n
    assert result.compile_seconds >= 0


def test_a_history_reads_as_a_sequence_and_as_columns():
    history = solve(make_problem(), rank=4).history
    assert history[-1].step == 4 and [record.step for record in history[1:3]] == [2, 3]
    assert history[1:3].initial_value == history.initial_value
    assert history.to_dict()["value"] == [record.value for record in history]
    assert "4 steps" in repr(history) and "0 steps" in repr(history[:0])


def test_scoring_stops_the_clock(wide):
    def slow(targets, predictions):
        time.sleep(0.05)
        return float(np.mean((targets - predictions) ** 2))

    began = time.perf_counter()
    result = solve(wide, rank=6, held_out=wide.observations, score=slow)
    took = time.perf_counter() - began
    assert result.history[-1].wall_seconds <= took - 6 * 0.05
    assert took > 6 * 0.05


@pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
def test_the_score_is_the_mean_loss_of_the_model_of_that_rank(loss):
    problem = make_problem(loss)
    held_out = make_observations(loss, np.random.default_rng(1), weights=True)
    result = solve(problem, rank=4, held_out=held_out)
    for record in result.history:
        X = result.model.to_dense(record.rank)
        each = loss.value(X[held_out.rows, held_out.cols], held_out.targets)
        wanted = each @ held_out.weights / held_out.weights.sum()
        assert record.score == pytest.approx(wanted, rel=1e-10)


def test_scoring_changes_nothing():
    problem = make_problem()
    plain = solve(problem, rank=4)
    scored = solve(problem, rank=4, held_out=problem.observations, score=lambda targets, predictions: 0.0)
    assert bits(plain) == bits(scored)


def test_held_out_entries_of_another_shape_are_refused():
    with pytest.raises(DataError, match=r"`held_out` must have the shape of the objective, \(12, 9\), got \(12, 10\)"):
        solve(make_problem(), rank=1, held_out=make_observations(Square(), np.random.default_rng(0), (12, 10)))


def test_an_objective_without_a_loss_needs_a_score():
    rng = np.random.default_rng(32)
    tasks = MultitaskRegression(list(rng.normal(size=(4, 8, 3))), list(rng.normal(size=(4, 8))))
    held_out = make_observations(Square(), rng, (3, 4))
    with pytest.raises(SettingError, match="MultitaskRegression has no loss to score with; give `score`"):
        solve(tasks, rank=1, held_out=held_out)
    assert solve(tasks, rank=1, held_out=held_out, score=lambda o, x: 7.0).history[0].score == 7.0


BAD_SETTINGS = [
    *({"rank": value} for value in (0, -1, 1.5, True, "3", None, np.nan)),
    *({"tol": value} for value in (-1e-3, np.nan, "small")),
    *({"time_limit": value} for value in (0, -1.0, np.nan, "long")),
    *({"random_state": value} for value in (-1, 1.5, True, "seed", None)),
    {"callback": 3},
]


@pytest.mark.parametrize("setting", BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused_in_one_sentence(setting):
    (name,) = setting
    with pytest.raises(SettingError, match=f"^`{name}` must .*[^.]\\.$"):
        solve(make_problem(), **{"rank": 2, **setting})


@pytest.mark.parametrize("rank", [np.int64(2), np.uint8(2)])
def test_numpy_integers_are_integers(rank):
    assert solve(make_problem(), rank=rank, random_state=np.int32(3)).model.rank == 2


@every_refinement
@every_dtype
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("loss", [Square(), Poisson()], ids=repr)
def test_solving_twice_gives_the_same_bits(refine, dtype, ridge, loss):
    problem = make_problem(loss, dtype, ridge=ridge)
    first = solve(problem, GreedyPursuit(refine), rank=5)
    solve(problem, GreedyPursuit("none", "lanczos"), rank=3, random_state=5)
    assert bits(solve(problem, GreedyPursuit(refine), rank=5)) == bits(first)


@every_refinement
@every_dtype
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_every_rank_of_the_path_is_the_run_that_stopped_there(refine, dtype, ridge):
    problem = make_problem(dtype=dtype, ridge=ridge)
    long = solve(problem, GreedyPursuit(refine), rank=10).model
    rows, cols = np.repeat(np.arange(12), 9), np.tile(np.arange(9), 12)
    for rank in range(1, 11):
        short = solve(problem, GreedyPursuit(refine), rank=rank).model
        assert np.array_equal(short.theta, long.coefficients(rank))
        assert np.array_equal(short.U, long.U[:, :rank]) and np.array_equal(short.V, long.V[:, :rank])
        assert np.array_equal(short.predict_entries(rows, cols), long.predict_entries(rows, cols, rank=rank))


def test_the_seed_decides_the_start_vectors():
    problem = make_problem()
    first, again, other = (solve(problem, "eglrl", rank=2, random_state=seed) for seed in (1, 1, 2))
    assert bits(first) == bits(again) != bits(other)


@pytest.mark.parametrize("rank", [7, 8, 16])
def test_a_model_does_not_change_when_its_problem_is_solved_again(rank):
    """At multiples of eight the factors have no padding, and a view would do where a copy is meant."""
    problem = make_problem(shape=(30, 25))
    result = solve(problem, rank=rank)
    before = bits(result)
    solve(problem, "glrl", rank=rank, random_state=9)
    problem.replace(np.zeros(rank))
    problem.add(0.5, 3.0, np.ones(30), np.ones(25))
    assert bits(result) == before


class Stop(Exception):
    pass


def raises(error):
    def interrupt(*args):
        raise error

    return interrupt


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["callback", "score"])
def test_an_interruption_propagates_and_leaves_no_thread_and_a_usable_problem(wide, where, error):
    wanted, running = bits(solve(wide, rank=2)), []
    extra = {where: raises(error), "held_out": wide.observations}
    with pytest.raises(error):
        solve(wide, rank=2, **extra)
    assert not our_threads()
    assert bits(solve(wide, rank=2, callback=lambda record: running.extend(our_threads()) and None)) == wanted
    assert running and not our_threads()


def test_an_error_inside_an_operation_propagates_and_leaves_a_usable_problem(wide, monkeypatch):
    wanted = bits(solve(wide, rank=2))
    with monkeypatch.context() as patch:
        patch.setattr(Shard.plane, "method", raises(Stop))
        with pytest.raises(Stop):
            solve(wide, rank=2)
    assert not our_threads()
    assert bits(solve(wide, rank=2)) == wanted


def test_a_refused_run_leaves_no_thread(wide):
    with pytest.raises(SettingError):
        solve(wide, GreedyPursuit("none", "arpack"), rank=2)
    assert not our_threads()


def test_a_run_whose_factors_are_lost_is_repeated_and_reports_each_step_once(monkeypatch):
    """Workers of a cluster may be lost with the factors that they keep; here threads say so, in two last steps."""
    seen, options = make_observations(Square(), np.random.default_rng(3), (30, 20), 0.5), {"rank": 2, "max_iter": 5}
    wanted = solve(Problem(seen, "square"), BayesSweeps(), **options, tol=0.0)
    steps, solves, apply = [], [], Threads.apply

    def losing(engine, operation, args):
        solves.extend([1] if operation is Shard.solve_rows else [])
        if operation is Shard.solve_rows and len(solves) in (15, 31):
            raise LinesLost("lost")
        return apply(engine, operation, args)

    monkeypatch.setattr(Threads, "apply", losing)
    problem = Problem(seen, "square")
    found = solve(problem, BayesSweeps(), **options, tol=0.0, callback=lambda record: steps.append(record.step))
    assert len(solves) == 15 + 16 + 16 and steps == [1, 2, 3, 4, 5] == [record.step for record in found.history]
    assert bits(found) == bits(wanted)
