"""Real Dask clusters of worker processes on this machine, tiny shards for them, and digests of what was learned."""

import hashlib
from contextlib import contextmanager

import numpy as np
from distributed import Client, LocalCluster

from rankwise import Observations, solve
from rankwise.dask import ClusterEntries
from rankwise.observations import shards

SETTINGS = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}


@contextmanager
def workers(n, **settings):
    """A client of a scheduler in this process and `n` worker processes, each with a nanny that restarts it."""
    with LocalCluster(n_workers=n, **SETTINGS, **settings) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def tiny_shards(monkeypatch, size=256):
    """Cut small matrices into many shards; only the client cuts."""
    monkeypatch.setattr(shards, "SMALLEST", size)


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
