"""Workers die in the middle of a fit, by SIGKILL at seeded round trips, and no bit of the model changes."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
from cluster_cases import SOLVERS, data_for
from clusters import Killer, Processes, everyone, given_up, on_cluster, one, solved, tiny_shards, two
from helpers import ROOT

from rankwise import Checkpoint, ClusterError, Problem
from rankwise.engines import Cluster, Shard
from rankwise.engines.cluster import client as module
from rankwise.engines.cluster import program, scheduler
from rankwise.losses import Square
from rankwise.solvers import GreedyPursuit

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """A scheduler and three workers in processes of their own; the dead are replaced before the next test only."""
    found = Processes(tmp_path_factory.mktemp("cluster"))
    yield found
    found.close()


@pytest.fixture
def client(processes):
    with processes.client() as client:
        yield client


@pytest.fixture(autouse=True)
def many_shards(monkeypatch):
    tiny_shards(monkeypatch)
    monkeypatch.setattr(module, "PEER_BYTES", 0)  # workers exchange all arrays by column, and all sums by column


@pytest.fixture(scope="module")
def undisturbed():
    """By solver: digest on threads, and how many trips a fit takes; found once."""
    return {}


@pytest.mark.parametrize("seed", range(20))
def test_twenty_random_kills_are_followed_by_twenty_equal_results(client, monkeypatch, undisturbed, seed):
    solver, loss = SOLVERS[seed % len(SOLVERS)]
    if seed % len(SOLVERS) not in undisturbed:
        problem = Problem(on_cluster(client, data_for(loss)), loss)
        wanted = solved(Problem(data_for(loss), loss), solver)
        assert solved(problem, solver) == wanted
        undisturbed[seed % len(SOLVERS)] = wanted, problem.engine.traffic.trips
    wanted, trips = undisturbed[seed % len(SOLVERS)]
    rng = np.random.default_rng(seed)
    when = "before" if rng.random() < 0.5 else "after"
    plan = {int(rng.integers(1, trips + 1)): (when, partial(one, which=int(rng.integers(3))))}
    killer = Killer(monkeypatch, client, plan)
    assert solved(Problem(on_cluster(client, data_for(loss)), loss), solver) == wanted
    assert len(killer.done) == 1


@pytest.mark.parametrize("by", ["the client", "the scheduler"])
def test_a_worker_that_hangs_is_given_up(client, processes, monkeypatch, by):
    """Its system acknowledges all packets, so nothing breaks the connection; its peers wait for it too."""
    monkeypatch.setattr(program, "SILENCE", 2.0 if by == "the client" else 600.0)
    problem = Problem(on_cluster(client, data_for(Square())), Square())
    problem.value()
    engine, v = problem.engine, np.arange(problem.shape[1], dtype=np.float64)
    product, silent = engine.run(Shard.twice, v), engine.remotes[0].address
    pid = client.run(os.getpid, workers=[silent])[silent]
    os.kill(pid, signal.SIGSTOP)
    try:
        if by == "the scheduler":
            threading.Timer(2.5, client.run_on_scheduler, (given_up, silent)).start()
        assert engine.run(Shard.twice, v).tobytes() == product.tobytes()
        assert len(set(_addresses(engine))) == 2 and silent not in _addresses(engine)
        assert engine.run(Shard.twice, v).tobytes() == product.tobytes()  # two actors in a worker are peers too
        assert engine.peers_reached and engine.traffic.peers > 0
    finally:
        processes.end(pid)


def fit_with(client, monkeypatch, plan, solver=SOLVERS[0][0], loss=SOLVERS[0][1]):
    """Fit while the plan is carried out; the engine, after a check of the bits."""
    wanted = solved(Problem(data_for(loss), loss), solver)
    problem = Problem(on_cluster(client, data_for(loss)), loss)
    killer = Killer(monkeypatch, client, plan)
    before = {remote for remote in killer.pids}
    held = []
    close = Cluster.close
    monkeypatch.setattr(Cluster, "close", lambda engine: (held.extend(_addresses(engine)), close(engine)))
    assert solved(problem, solver) == wanted
    assert sorted(killer.done) == sorted(plan)
    return before, set(held)


def _addresses(engine):
    return [remote.address for remote in engine.remotes]


def test_a_worker_that_is_stopped_for_a_while_is_waited_for(client, processes, monkeypatch):

    def stop(killer, engine):
        pid = killer.pids[engine.remotes[0].address]
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(2.5, os.kill, (pid, signal.SIGCONT)).start()

    before, after = fit_with(client, monkeypatch, {30: ("before", stop)})
    assert len(before) == 3 and after == before


def test_two_die_at_once(client, processes, monkeypatch):
    before, after = fit_with(client, monkeypatch, {30: ("after", two)})
    assert len(before) == 3 and len(after) == 1 and after < before


def test_one_after_the_other_dies_until_one_is_left(client, processes, monkeypatch):
    before, after = fit_with(client, monkeypatch, {12: ("before", one), 50: ("after", one)})
    assert len(before) == 3 and len(after) == 1 and after < before


def test_one_dies_while_lost_shards_are_made_anew(client, processes, monkeypatch):
    killed, make = [], Cluster._start

    def hooked(engine, address, numbers, n_threads):
        remote = make(engine, address, numbers, n_threads)
        if engine.traffic.trips == 30 and not killed:
            killed.append(address)
            killer.kill(address)
        return remote

    killer = Killer(monkeypatch, client, {})
    monkeypatch.setattr(Cluster, "_start", hooked)
    before, after = fit_with(client, monkeypatch, {30: ("before", one)})
    assert len(killed) == 1 and len(before) == 3 and len(after) == 1 and killed[0] not in after


def test_a_new_worker_takes_over(client, processes, monkeypatch):

    def replace(killer, engine):
        processes.add()
        client.wait_for_workers(4, timeout=180)
        two(killer, engine)

    before, after = fit_with(client, monkeypatch, {20: ("before", replace)})
    assert len(after) == 2 and len(after - before) == 1


def test_all_die_and_a_new_worker_comes(client, processes, monkeypatch):

    def all_new(killer, engine):
        everyone(killer, engine)
        processes.add()

    before, after = fit_with(client, monkeypatch, {25: ("after", all_new)}, *SOLVERS[3])
    assert not after & before


def test_no_worker_is_left(client, processes, monkeypatch):
    monkeypatch.setattr(scheduler, "WORKER_TIMEOUT", 2.0)
    problem = Problem(on_cluster(client, data_for(Square())), Square())
    Killer(monkeypatch, client, {10: ("after", everyone)})
    with pytest.raises(ClusterError, match="has no worker, and none joined within 2 s"):
        solved(problem, GreedyPursuit("economic"))


CLIENT = """
import os, signal, sys
from distributed import Client
from clusters import on_cluster, solved
from cluster_cases import SOLVERS, data_for
from rankwise import Checkpoint, Problem
from rankwise.engines import Cluster, Shard
from rankwise.observations import shards
file, folder, which, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
shards.MIN_SHARD = 256
send = Cluster._send
def hooked(engine, remote, message):
    if last and engine.traffic.trips == last:
        os.kill(os.getpid(), signal.SIGKILL)
    send(engine, remote, message)
Cluster._send = hooked
solver, loss = SOLVERS[which]
with Client(scheduler_file=file, set_as_default=False, timeout=60) as client:
    problem = Problem(on_cluster(client, data_for(loss)), loss)
    print(solved(problem, solver, checkpoint=Checkpoint(folder, every=1, resume=True)), problem.engine.traffic.trips)
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_client_is_killed_at_any_round_trip_and_another_goes_on(processes, tmp_path, seed):
    with processes.client():
        pass  # three workers are there
    which = (0, 3)[seed % 2]
    solver, loss = SOLVERS[which]
    paths = [str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def client(folder, last):
        command = [sys.executable, "-c", CLIENT, processes.file, str(tmp_path / folder), str(which), str(last)]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)

    wanted, whole = solved(Problem(data_for(loss), loss), solver), client("whole", 0)
    assert whole.returncode == 0, whole.stderr
    found, trips = whole.stdout.split()
    assert found == wanted
    killed = client("killed", int(np.random.default_rng(seed).integers(1, int(trips) + 1)))
    assert killed.returncode == -signal.SIGKILL
    again = client("killed", 0)
    assert again.returncode == 0 and again.stdout.split()[0] == wanted, again.stderr


def test_the_scheduler_dies_and_the_fit_goes_on_elsewhere(processes, monkeypatch, tmp_path):
    """The scheduler is not started again: this is the last test with these processes."""
    monkeypatch.setattr(scheduler, "SCHEDULER_TIMEOUT", 5.0)
    client = processes.client()
    data, solver, options = data_for(Square()), GreedyPursuit("economic"), {"rank": 20, "max_iter": 20}
    wanted = solved(Problem(data, Square()), solver, **options)
    problem = Problem(on_cluster(client, data), Square())

    def everything_ends(killer, engine):
        """Workers go when their scheduler does; until then they answer, and a fit may well end."""
        processes.scheduler.kill()
        for process in processes.running:
            process.wait(60)

    Killer(monkeypatch, client, {100: ("before", everything_ends)})
    start = time.monotonic()
    options["checkpoint"] = Checkpoint(tmp_path, every=1)
    with pytest.raises(ClusterError, match="The Dask scheduler does not answer"):
        solved(problem, solver, **options)
    assert time.monotonic() - start < 120
    client.close(timeout=2)
    steps = [int(path.stem.partition("-")[2]) for path in tmp_path.glob("*.checkpoint")]
    assert 0 < max(steps) < 20
    options["checkpoint"] = Checkpoint(tmp_path, every=1, resume=True)
    assert solved(Problem(data, Square()), solver, **options) == wanted
