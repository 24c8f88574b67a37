"""Fits on a cluster of processes: the bits of the threads engine, counted messages, clear refusals."""

import copy
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from clusters import (
    break_twice,
    connections,
    digest,
    forget_take,
    on_cluster,
    silence,
    solved,
    some_entries,
    tiny_shards,
    workers,
)
from distributed.comm.tcp import TLS
from distributed.security import Security

import rankwise
from rankwise import Everywhere, LossError, MatrixCompletion, Problem, Ridged, SettingError, solve
from rankwise.engines import Cluster, Shard, Threads, client_of
from rankwise.engines.cluster import client as cluster
from rankwise.engines.cluster import owners
from rankwise.engines.cluster.placement import place
from rankwise.losses import Absolute, Huber, Logistic, Square
from rankwise.solvers import AISImpute, AltMin, BayesSweeps, FactorSweeps, GreedyPursuit, NonsmoothPursuit
from rankwise.spectral import Lanczos, PowerMethod

NAMES = {"row": "user", "col": "film", "value": "stars"}


@pytest.fixture(scope="module")
def client():
    with workers(3) as client:
        yield client


@pytest.fixture(autouse=True)
def many_shards(monkeypatch):
    tiny_shards(monkeypatch)


SOLVERS = {
    "none": (GreedyPursuit("none"), Logistic()),
    "economic": (GreedyPursuit("economic"), Logistic()),
    "coefficients": (GreedyPursuit("coefficients"), Logistic()),
    "economic, square": (GreedyPursuit("economic", Lanczos(tol=0.1, block=2)), Square()),
    "coefficients, square": (GreedyPursuit("coefficients"), Square()),
    "nonsmooth": (NonsmoothPursuit(), Absolute()),
    "factors": (FactorSweeps(), Square()),
    "factors, by counts": (FactorSweeps(count_power=0.5), Square()),
    "bayes": (BayesSweeps(), Square()),
    "altmin": (AltMin(), Logistic()),
    "ais-impute": (AISImpute(20.0), Square()),
}


@pytest.mark.parametrize("weights", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["plain", "weighted"])
@pytest.mark.parametrize(("solver", "loss"), SOLVERS.values(), ids=SOLVERS)
def test_a_fit_has_the_bits_of_the_threads_engine(client, monkeypatch, solver, loss, weights):
    """Without weights, workers exchange all arrays and sums by column; with weights, only the factors of sweeps."""
    monkeypatch.setattr(cluster, "PEER_BYTES", math.inf if weights else 0)
    observations = some_entries(signs=isinstance(loss, Logistic), weights=weights)
    problem = Problem(on_cluster(client, observations), loss)
    assert solved(problem, solver) == solved(Problem(observations, loss), solver)
    assert isinstance(problem.engine, Cluster) and len(problem.engine.loads) >= 6
    exchanged = not weights or isinstance(solver, FactorSweeps | BayesSweeps)
    assert (problem.engine.traffic.peers > 0) == exchanged and problem.engine.peers_reached


@pytest.mark.slow
def test_the_scheduler_forwards_messages_to_workers_out_of_reach(client, monkeypatch):
    observations, solver = some_entries(), GreedyPursuit("economic")
    wanted = solved(Problem(observations, Square()), solver)
    ways = []
    close = Cluster.close
    monkeypatch.setattr(Cluster, "close", lambda each: (ways.extend(r.direct for r in each.remotes), close(each)))
    for direct in (True, False):
        ways.clear()
        monkeypatch.setattr(owners, "reaches", lambda client, address, direct=direct: direct)
        assert solved(Problem(on_cluster(client, observations), Square()), solver) == wanted
        assert ways == [direct] * 3


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_that_falls_silent_is_given_up(monkeypatch, when):
    """The system drops all packets from one worker, before a message or while the reply is awaited; same bits."""
    observations, solver = some_entries(), GreedyPursuit("economic")
    wanted, silenced, send = solved(Problem(observations, Square()), solver), [], Cluster._send

    def hooked(engine, remote, message):
        if when == "after":
            send(engine, remote, message)
        if engine.traffic.trips == 20 and not silenced:
            silenced.append(remote.address)
            silence(engine.client, remote.address)
        if when == "before":
            send(engine, remote, message)

    with dask.config.set({"distributed.comm.timeouts.tcp": "11s"}), workers(2) as client:
        monkeypatch.setattr(Cluster, "_send", hooked)
        problem = Problem(on_cluster(client, observations), Square())
        assert solved(problem, solver) == wanted
        assert silenced and set(client.nthreads()) >= set(silenced)  # the worker is well, as Dask says


@pytest.mark.slow
def test_messages_are_encrypted_where_dask_is():
    """With keys made for the moment, and the same bits."""
    observations = some_entries()
    with workers(2, security=Security.temporary()) as client:
        problem = Problem(on_cluster(client, observations), Square())
        problem.value()
        assert all(remote.address.startswith("tls://") for remote in problem.engine.remotes)
        assert {type(each) for remote in problem.engine.remotes for each in connections(client, remote.address)} == {
            TLS
        }
        assert solved(problem, BayesSweeps()) == solved(Problem(observations, Square()), BayesSweeps())


def test_a_ridge_and_float64_have_the_same_bits(client):
    observations = some_entries()
    found, wanted = (
        solved(Ridged(Problem(given, Square(), dtype="float64"), 0.5), GreedyPursuit("economic"))
        for given in (on_cluster(client, observations), observations)
    )
    assert found == wanted


@pytest.mark.parametrize("solver", [GreedyPursuit("economic"), FactorSweeps(), BayesSweeps()], ids=str)
def test_a_term_of_all_cells_has_the_same_bits(client, solver):
    observations, term = some_entries(), Everywhere(0.2, row_power=-0.5, value=0.1)
    found, wanted = (
        solved(Problem(given, Square(), everywhere=term), solver)
        for given in (on_cluster(client, observations), observations)
    )
    assert found == wanted


@pytest.mark.slow
def test_a_loss_of_the_users_own_travels(client):
    @rankwise.loss(smooth=True, lipschitz=1.0)
    def log_cosh(x, o):
        return abs(x - o) + math.log(1 + math.exp(-2 * abs(x - o)))

    observations = some_entries()
    solved(Problem(observations, log_cosh), GreedyPursuit("economic"))  # compiled: what is compiled cannot travel
    assert pickle.loads(pickle.dumps(copy.copy(Huber(0.3)))) == Huber(0.3)
    found = solved(Problem(on_cluster(client, observations), log_cosh), GreedyPursuit("economic"))
    assert found == solved(Problem(observations, log_cosh), GreedyPursuit("economic"))


def ratings(seed=0, signs=False):
    observations = some_entries(seed=seed, signs=signs)
    users = np.array([f"u{row:03}" for row in observations.rows])
    return pd.DataFrame({"user": users, "film": observations.cols * 7, "stars": observations.targets})


SETTINGS = {
    "economic": {"method": "eglrl", "rank": 3, "loss": "square"},
    "with offsets": {"method": "eglrl", "rank": 2, "loss": "square", "offsets": "both", "ridge": 0.5},
    "the default": {"rank": 3, "max_iter": 3},
    "eglrl": {"method": "eglrl", "rank": 2, "loss": "logistic"},
    "robust": {"method": "glrl-nonsmooth", "rank": 2, "loss": "l1"},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_estimator_finds_the_same_model(client, settings):
    frame = ratings(signs=settings.get("loss") == "logistic")
    wanted = MatrixCompletion(**settings).fit(frame, **NAMES)
    given = dd.from_pandas(frame.sample(frac=1.0, random_state=3), npartitions=4, sort=False)
    with client.as_current():
        found = MatrixCompletion(**settings).fit(given, **NAMES)
    for part in ("path", "U", "V"):
        assert getattr(found.model_, part).tobytes() == getattr(wanted.model_, part).tobytes()
    assert found.model_.targets.low == wanted.model_.targets.low
    assert np.array_equal(found.model_.targets.thresholds, wanted.model_.targets.thresholds)
    pairs = frame["user"][:20], frame["film"][:20]
    assert np.array_equal(found.predict_entries(*pairs), wanted.predict_entries(*pairs))
    assert (
        found.recommend("u003", exclude_seen=False)[0].tolist()
        == wanted.recommend("u003", exclude_seen=False)[0].tolist()
    )


def test_a_fitted_estimator_is_like_any_other(client, tmp_path):
    frame = ratings()
    frame.to_parquet(tmp_path / "ratings.parquet")
    estimator = MatrixCompletion(loss="square", method="eglrl", rank=2)
    with client.as_current():
        estimator.fit(tmp_path / "ratings.parquet", **NAMES, held_out=frame[:50])
    assert estimator.history_[0].score is not None
    estimator.save(tmp_path / "model.rankwise")
    loaded = rankwise.load(tmp_path / "model.rankwise")
    assert loaded.get_params() == estimator.get_params() and "tcp" not in str(loaded.model_.facts)
    again = pickle.loads(pickle.dumps(estimator))
    assert np.array_equal(again.U_, estimator.U_) and np.array_equal(loaded.U_, estimator.U_)
    assert estimator.residuals(n=3, X=rankwise.Observations.from_frame(frame, **NAMES)).losses.size == 3


REFUSED = {
    "calibration": {"calibration": 0.1},
    'rank="auto"': {"method": "eglrl", "loss": "square"},
    'ridge="auto"': {"method": "factors", "rank": 2},
    "admm": {"method": "admm", "loss": "l1", "rank": 2},
    "wiberg": {"method": "wiberg", "loss": "l1", "rank": 2},
}


@pytest.mark.parametrize(("what", "settings"), REFUSED.items(), ids=REFUSED)
def test_what_needs_entries_in_memory_is_refused_by_name(client, what, settings):
    entries = on_cluster(client, some_entries())
    with pytest.raises(SettingError, match=f"{what}.* requires the entries in memory, .* in a Clus"):
        MatrixCompletion(**settings).fit(entries)


def test_residuals_and_quantiles_of_entries_elsewhere_are_refused(client):
    observations = some_entries()
    estimator = MatrixCompletion(rank=2, max_iter=2).fit(on_cluster(client, observations))
    with pytest.raises(SettingError, match="`residuals` requires the entries in memory"):
        estimator.residuals()
    fresh = some_entries(seed=7).take(slice_of(observations, some_entries(seed=7)))
    with pytest.raises(SettingError, match='by="quantiles" requires the entries in memory'):
        estimator.calibrate(fresh, by="quantiles")
    low, high = estimator.calibrate(fresh).predict_interval([0], [0])
    assert low < high


def slice_of(seen, fresh):
    """Entries that are not among those seen."""
    keys = [given.rows * given.shape[1] + given.cols for given in (seen, fresh)]
    return ~np.isin(keys[1], keys[0])


def test_a_client_is_needed():
    with pytest.raises(SettingError, match="has no Dask client"):
        client_of(None)
    with pytest.raises(SettingError, match="must be a `dask"):
        client_of("tcp://localhost:8786")


def test_a_closed_client_is_refused(client, monkeypatch):
    monkeypatch.setattr(client, "status", "closed")
    with pytest.raises(SettingError, match="`client` is closed"):
        client_of(client)


def test_an_error_of_an_operation_is_raised_by_the_client(client):
    problem = Problem(on_cluster(client, some_entries()), Square())
    problem.value()
    with pytest.raises(AttributeError, match="no attribute 'shape'"):
        problem.engine.run(Shard.product, "no vector")
    assert problem.value() == Problem(some_entries(), Square()).value()  # and the engine goes on


def broken(piece):
    raise LossError("this shard is broken")


def test_an_error_of_a_load_task_comes_back_as_itself(client):
    observations = some_entries()
    entries = on_cluster(client, observations)
    problem = Problem(entries, Square())
    problem.engine.loads = [*entries.loads[:-1], client.submit(broken, entries.loads[-1], pure=False)]
    with pytest.raises(LossError, match="this shard is broken"):
        problem.value()


def test_shards_go_when_the_engine_is_closed_and_come_back_when_needed(client):
    problem = Problem(on_cluster(client, some_entries()), Square())
    problem.add(1.0, 0.5, *(np.ones(size, np.float32) for size in problem.shape))
    value = problem.value()
    problem.close()
    assert problem.engine.remotes == []
    problem.current.summary = None
    assert problem.value() == value and len(problem.engine.remotes) == 3


def test_round_trips_and_bytes_of_a_step_of_eglrl(client):
    """The costs in docs/scale.md: 36 trips under the square loss with 30 power iterations, vectors and no more."""
    observations, seen = some_entries(), []
    problem = Problem(on_cluster(client, observations), Square())
    solve(
        problem,
        GreedyPursuit("economic"),
        rank=3,
        callback=lambda record: seen.append(copy.copy(problem.engine.traffic)),
    )
    (n_rows, n_cols), n_workers = observations.shape, 3
    trips, out, back = (getattr(seen[2], name) - getattr(seen[1], name) for name in ("trips", "out", "back"))
    assert trips == 30 + 1 + 1 + 3 + 1  # twice; product; aim and plane_curve; plane; add and evaluate
    assert out == 31 * 4 * n_cols * n_workers + 4 * (n_rows + n_cols * n_workers)  # v; then u, cut up, and v
    parts = sum(len(parts_of(remote.numbers)) for remote in _placed(problem))
    assert back == 8 * n_rows + 8 * (30 * n_cols + 3 * 5) * parts  # G v once; sums


def test_bytes_through_the_client_do_not_grow_with_the_workers_if_these_exchange_arrays(client, monkeypatch):
    """The costs in docs/scale.md: v, u and v once, and sums once; the rest goes from worker to worker."""
    monkeypatch.setattr(cluster, "PEER_BYTES", 0)
    observations, seen = some_entries(), []
    problem = Problem(on_cluster(client, observations), Square())
    solve(
        problem,
        GreedyPursuit("economic"),
        rank=3,
        callback=lambda record: seen.append(copy.copy(problem.engine.traffic)),
    )
    (n_rows, n_cols), n_workers = observations.shape, 3
    out, back, peers = (getattr(seen[2], name) - getattr(seen[1], name) for name in ("out", "back", "peers"))
    parts = sum(len(parts_of(remote.numbers)) for remote in _placed(problem))
    assert out == 31 * 4 * n_cols + 4 * (n_rows + n_cols)
    assert back == 8 * n_rows + 8 * (30 * n_cols + 3 * 5 * parts)
    others = n_workers - 1  # every worker has entries in all columns; of a sum it gets its third of the others' parts
    assert peers == 32 * 4 * n_cols * others + 30 * 8 * (n_cols // n_workers) * others * parts


def test_a_worker_gets_the_lines_of_its_entries_alone(client, monkeypatch):
    """Rows of one worker have entries in few columns, most of which another worker has lines of."""
    monkeypatch.setattr(cluster, "PEER_BYTES", 0)
    rows, k = np.repeat(np.arange(300), 4), np.tile(np.arange(4), 300)
    cols = (rows // 100 * 20 + 15 + 3 * k) % 60
    observations = rankwise.Observations.from_coo(rows, cols, np.ones(rows.size), (300, 60))
    problem = Problem(on_cluster(client, observations), Square())
    problem.value()
    engine, block = problem.engine, np.random.default_rng(0).standard_normal((60, 8))
    before = engine.traffic.peers
    sums = engine.run(Shard.gather, block, 8)
    np.testing.assert_allclose(sums, np.add.reduceat(block[cols], np.arange(0, rows.size, 4)), rtol=1e-12)
    needed = [np.unique(cols[np.isin(rows, remote.take(np.arange(300)))]) for remote in engine.remotes]
    foreign = sum(int((lines // 20 != number).sum()) for number, lines in enumerate(needed))
    assert 0 < foreign < 20 and engine.traffic.peers - before == 8 * 8 * foreign


@pytest.mark.slow
def test_an_error_in_one_worker_ends_the_waiting_of_its_peers(monkeypatch):
    monkeypatch.setattr(cluster, "PEER_BYTES", 0)
    with workers(2) as client, ThreadPoolExecutor(1) as thread:
        problem = Problem(on_cluster(client, some_entries()), Square())
        problem.value()
        client.run(break_twice, workers=[problem.engine.remotes[1].address])
        run = thread.submit(problem.engine.run, Shard.twice, np.ones(problem.shape[1]))
        with pytest.raises(MemoryError, match="of one worker"):
            run.result(timeout=60)


@pytest.mark.slow
def test_the_client_sends_everything_if_workers_do_not_reach_each_other(monkeypatch):
    monkeypatch.setattr(cluster, "PEER_BYTES", 0)
    with workers(2) as client:
        client.run(forget_take)
        problem = Problem(on_cluster(client, some_entries()), Square())
        assert solved(problem, BayesSweeps()) == solved(Problem(some_entries(), Square()), BayesSweeps())
        assert not problem.engine.peers_reached and len(problem.engine.remotes) in (0, 2)


def _placed(problem):
    problem.value() if problem.engine.remotes else problem.engine.run(Shard.evaluate)
    return problem.engine.remotes


def parts_of(numbers):
    """Nodes of the tree over shard numbers that a run of shards is made of."""
    left, found = list(numbers), []
    while left:
        width = 1
        while left[0] % (2 * width) == 0 and 2 * width <= len(left):
            width *= 2
        found.append(left[:width])
        left = left[width:]
    return found


def sweep_traffic(client, observations, solver, rank=3):
    """Bytes of the last of four sweeps: out of the client, into it, and between workers."""
    problem, seen = Problem(on_cluster(client, observations), Square()), []

    def look(record):
        both = problem.engine.traffic, problem.engine_of("columns").traffic
        seen.append([sum(getattr(each, name) for each in both) for name in ("out", "back", "peers")])

    solve(problem, solver, rank=rank, max_iter=4, tol=0.0, callback=look)
    return np.subtract(seen[3], seen[2])


def test_bytes_of_a_sweep_with_a_given_ridge(client):
    """The costs in docs/scale.md: small arrays to every worker; factors between workers, as their entries need them."""
    observations, rank, n_workers = some_entries(), 3, 3
    out, back, between = sweep_traffic(client, observations, FactorSweeps(), rank)
    assert out == 2 * 8 * (rank + 1) * n_workers  # the ridge of every component
    nodes = 2 * 3 * n_workers  # at most, of the sums: of either side, and of a worker's shards
    assert 0 < back <= 8 * (4 + 2 * (rank + 1)) * nodes
    assert 0 < between <= 4 * (rank + 1) * sum(observations.shape) * (n_workers - 1)


@pytest.mark.parametrize("solver", [FactorSweeps(), BayesSweeps()], ids=["factors", "bayes"])
def test_bytes_of_a_sweep_through_the_client_do_not_depend_on_rows_and_columns(client, monkeypatch, solver):
    """In as many shards, whose sums the client adds up."""
    found = []
    for shape, size in (((120, 30), 256), ((480, 120), 4096)):
        tiny_shards(monkeypatch, size)
        found.append(sweep_traffic(client, some_entries(shape), solver)[:2])
    assert found[0].tolist() == found[1].tolist() and sum(found[0]) > 0


@pytest.mark.slow
def test_round_trips_of_a_sweep(client):
    """The costs in docs/scale.md: one trip for both sides; three more for the pattern of each side."""
    for solver, wanted in ((FactorSweeps(), 1), (BayesSweeps(), 1 + 2 * 3), (BayesSweeps(pattern_prior=False), 1)):
        seen = []
        problem = Problem(on_cluster(client, some_entries()), Square())

        def look(record, problem=problem, seen=seen):
            seen.append(problem.engine.traffic.trips + problem.engine_of("columns").traffic.trips)

        solve(problem, solver, rank=3, max_iter=5, tol=0.0, callback=look)
        assert set(np.diff(seen)[2:]) == {wanted}


def test_fewer_trips_with_another_oracle(client):
    trips = []
    for oracle in (PowerMethod(), Lanczos(tol=0.01)):
        problem = Problem(on_cluster(client, some_entries()), Square())
        solve(problem, GreedyPursuit("economic", oracle), rank=3)
        trips.append(problem.engine.traffic.trips)
    assert trips[1] < 0.6 * trips[0]


@pytest.mark.parametrize("seed", range(20))
def test_shards_are_placed_evenly_and_in_runs(seed):
    rng = np.random.default_rng(seed)
    n, names = int(rng.integers(1, 60)), [f"w{k}" for k in range(int(rng.integers(1, 8)))]
    sizes, threads = rng.integers(1, 100, n).tolist(), {name: int(rng.integers(1, 5)) for name in names}
    placed = place(range(n), sizes, threads, {})
    assert [number for numbers in placed.values() for number in numbers] == list(range(n))
    for name, numbers in placed.items():
        share = sum(sizes) * threads[name] / sum(threads.values())
        assert abs(sum(sizes[k] for k in numbers) - share) <= max(sizes) + 1e-9
    held = {name: sum(sizes[k] for k in numbers) for name, numbers in placed.items()}
    more = place(range(n), sizes, threads | {"new": 2}, held)  # the same again, and a worker with nothing
    assert (
        sum(sizes[k] for k in more.get("new", []))
        >= min(sum(sizes), 2 * sum(sizes) * 2 / (sum(threads.values()) + 2)) - max(sizes) - 1e-9
    )


def test_threads_and_cluster_say_who_they_are(client):
    assert isinstance(Problem(some_entries(), Square()).engine, Threads)
    assert digest(solve(Problem(some_entries(), Square()), "eglrl", rank=1)) != ""


@pytest.fixture
def lonely():
    """An engine whose client only takes orders: four shards of 3, 2, 4 and 1 rows."""
    client = SimpleNamespace(submit=lambda *order, **where: SimpleNamespace(release=lambda: None))
    return Cluster(client, [None] * 4, np.array([0, 3, 5, 9, 10]), [3, 2, 4, 1], Square(), np.float64)


def test_a_worker_is_sent_the_rows_of_its_shards_alone(lonely):
    rows = np.arange(10.0)
    for numbers, wanted in (([0, 2, 3], [0, 1, 2, 5, 6, 7, 8, 9]), ([1], [3, 4]), ([0, 1, 3], [0, 1, 2, 3, 4, 9])):
        assert lonely._start("tcp://nowhere:1", numbers, 1).take(rows).tolist() == wanted


def test_what_waits_for_the_next_trip_stays_as_it_was_asked(lonely):
    u, v = np.ones(10), np.ones(4)
    lonely.run(Shard.aim, u, v, None)
    u[:], v[:] = 2.0, 3.0
    (call,) = lonely.queue
    args = call.args
    assert call.operation is Shard.aim and args[0].tolist() == [1.0] * 10 and args[1].tolist() == [1.0] * 4
