"""Real Dask clusters of worker processes on this machine, tiny shards for them, and digests of what was learned."""

import ctypes
import hashlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from distributed import Client, LocalCluster

from rankwise import Observations, solve
from rankwise.dask import ClusterEntries
from rankwise.engines import Cluster, Shard
from rankwise.engines.cluster.worker import ShardWorker
from rankwise.observations import shards

SO_ATTACH_FILTER = 26  # of Linux
SETTINGS = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}


@contextmanager
def workers(n, **settings):
    """A client of a scheduler in this process and `n` worker processes, each with a nanny that restarts it."""
    with LocalCluster(n_workers=n, **SETTINGS, **settings) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def tiny_shards(monkeypatch, size=256):
    """Cut small matrices into many shards; only the client cuts."""
    monkeypatch.setattr(shards, "MIN_SHARD", size)


def same(piece):
    return piece


def on_cluster(client, observations):
    """The same entries with the workers, each shard by a task of its own."""
    loads = [client.submit(same, piece, pure=False) for piece in observations.weighted().pieces()]
    return ClusterEntries(client, loads, observations.shape, (observations.row_labels, observations.col_labels))


def some_entries(shape=(240, 60), seed=0, signs=False, weights=False):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1])) + 0.3 * rng.standard_normal(shape)
    values = np.where(values > 0, 1.0, -1.0) if signs else values
    rows, cols = np.nonzero(rng.random(shape) < 0.3)
    given = rng.integers(1, 4, rows.size) / 3.0 if weights else None
    return Observations.from_coo(rows, cols, values[rows, cols], shape, weights=given)


def digest(result):
    """A hash of all that a fit found."""
    model, found = result.model, hashlib.sha256()
    parts = [model.path, model.U, model.V, result.history.column("value")]
    if model.offsets is not None:
        parts += [np.array(model.offsets.constant), model.offsets.rows, model.offsets.cols]
    if model.learned is not None:
        parts += [model.learned.rows.variances, model.learned.cols.precisions]
    for part in parts:
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def solved(problem, solver, **options):
    return digest(solve(problem, solver, **{"rank": 3, "max_iter": 3, **options}))


class Processes:
    """A scheduler and `n` workers as processes of their own, without nannies: who is killed stays dead."""

    def __init__(self, folder, n=3):
        self.file, self.running = str(folder / "scheduler.json"), []
        place = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
        self.scheduler = self._start("scheduler", *place, "--scheduler-file", self.file)
        self.fill(n)

    def add(self):
        """One more worker."""
        options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--scheduler-file", self.file]
        return self._start("worker", *options)

    def fill(self, n):
        """Start workers until `n` are there, or end some."""
        self.running = [process for process in self.running if process.poll() is None]
        for process in self.running[n + 1 :]:
            process.kill()
        for _ in range(n + 1 - len(self.running)):
            self.add()

    def client(self, n=3):
        """A client, once `n` workers are there and no more."""
        self.fill(n)
        found = Client(scheduler_file=self.file, set_as_default=False, timeout=60)
        while len(found.nthreads()) != n:
            time.sleep(0.05)
        return found

    def end(self, pid):
        """Kill a process and wait for its end."""
        process = next(process for process in self.running if process.pid == pid)
        process.kill()
        process.wait()

    def close(self):
        for process in self.running:
            process.kill()
        for process in self.running:
            process.wait()

    def _start(self, *command):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.running.append(subprocess.Popen([sys.executable, "-m", "dask", *command], env=env, **quiet))
        return self.running[-1]


def connections(client, address):
    """Connections of a client to a worker, in use or not."""
    return [*client.rpc.available[address], *client.rpc.occupied[address]]


def silence(client, address):
    """Have the system drop all packets that come from a worker, acknowledgments too; nothing closes the connection."""
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF: accept 0 bytes
    drop_all = struct.pack("HL", 1, ctypes.addressof(program))
    for connection in connections(client, address):
        connection.stream.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, drop_all)


class Killer:
    """Kills worker processes by SIGKILL at given round trips of an engine, not by the clock.

    Parameters
    ----------
    plan : dict of trip number to ("before" | "after", function of this and the engine)
        What to do before the first message of that trip goes out, or while it is on its way.
    """

    def __init__(self, monkeypatch, client, plan):
        self.pids, self.plan, self.done = client.run(os.getpid), dict(plan), []
        send = Cluster._send

        def hooked(engine, remote, message):
            when, act = self.plan.pop(engine.traffic.trips, (None, None))
            if when == "after":
                send(engine, remote, message)
            if act is not None:
                self.done.append(engine.traffic.trips)
                act(self, engine)
            if when != "after":
                send(engine, remote, message)

        monkeypatch.setattr(Cluster, "_send", hooked)

    def kill(self, address):
        os.kill(self.pids[address], signal.SIGKILL)


def one(killer, engine, which=0):
    """Kill one worker."""
    killer.kill(engine.remotes[which % len(engine.remotes)].address)


def two(killer, engine):
    """Kill two workers at once."""
    for remote in engine.remotes[:2]:
        killer.kill(remote.address)


def everyone(killer, engine):
    """Kill all workers."""
    for remote in engine.remotes:
        killer.kill(remote.address)


async def given_up(address, dask_scheduler):
    """Have the scheduler give up a worker."""
    await dask_scheduler.remove_worker(address, stimulus_id="test")


def forget_take():
    """Have a worker refuse its peers; runs in the worker."""
    del ShardWorker.take


def break_twice():
    """Have an operation raise an error; runs in a worker."""

    def broken(shard, v):
        raise MemoryError("of one worker")

    Shard.twice.method = broken
