"""Fit on threads and on a Dask cluster, of which one worker is killed during the fit, and compare the bits.

Run it: python examples/cluster.py
"""

import os
import signal
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster

import rankwise as rw

NAMES = {"row": "user", "col": "film", "value": "stars"}


def ratings(n_users: int = 4000, n_films: int = 300, n: int = 250_000) -> pd.DataFrame:
    """Synthetic ratings of rank 3 with noise, rounded to one to five stars."""
    rng = np.random.default_rng(0)
    users, films = np.divmod(rng.permutation(n_users * n_films)[:n], n_films)
    tastes, kinds = rng.normal(size=(n_users, 3)), rng.normal(size=(n_films, 3))
    stars = 3.3 + 0.6 * np.einsum("ik,ik->i", tastes[users], kinds[films]) + rng.normal(0, 0.5, n)
    return pd.DataFrame({"user": users, "film": films, "stars": np.clip(np.round(stars), 1, 5)})


def main() -> None:
    """Fit on threads, then on a cluster of processes, and compare the models."""
    frame = ratings()
    settings = {"loss": "square", "method": "eglrl", "rank": 5, "offsets": "both"}

    # 1. Fit on one machine, in memory.
    alone = rw.MatrixCompletion(**settings).fit(frame, **NAMES)
    print(f"on threads: {alone.status_.reason}, value {alone.history_[-1].value:.6f}")

    # 2. Write the entries as Parquet files, and start a cluster of three processes on this machine.
    folder = Path(tempfile.mkdtemp())
    for k in range(8):
        frame[k::8].to_parquet(folder / f"part-{k}.parquet")
    cluster = LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50)
    with cluster, Client(cluster) as client:
        pids = list(client.run(os.getpid).values())

        # 3. Fit on the cluster, and kill a worker after the second step. The other workers read its shards again.
        def kill_a_worker(record: rw.solvers.Record) -> None:
            if record.step == 2:
                print("a worker is killed")
                os.kill(pids[0], signal.SIGKILL)

        spread = rw.MatrixCompletion(**settings)  # the workers of the current client read the files
        spread.fit(folder, **NAMES, callback=kill_a_worker)
    print(f"on a cluster: {spread.status_.reason}, value {spread.history_[-1].value:.6f}")

    # 4. Compare: both models have the same bits.
    same = all(np.array_equal(getattr(alone, part), getattr(spread, part)) for part in ("theta_", "U_", "V_"))
    print(f"the same bits: {same}")
    assert same

    # 5. Recommend, then draw the objective and the time of each step. The lost worker costs time only.
    print("for user 7:", spread.recommend(7, n=3, exclude_seen=False)[0].tolist())
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
    for model, name, style in ((alone, "threads", "o-"), (spread, "cluster", "x--")):
        steps, seconds = model.history_.column("step"), model.history_.column("wall_seconds")
        axes[0].plot(steps, model.history_.column("value"), style, label=name)
        axes[1].plot(steps, np.diff(seconds, prepend=0), style, label=name)
    for axis, label in zip(axes, ("objective", "seconds of the step"), strict=True):
        axis.axvline(2.5, color="0.6", linestyle=":", label="a worker is killed")
        axis.set(xlabel="step", ylabel=label, xticks=steps)
    axes[0].legend()
    figure.savefig("cluster.png", dpi=80)


if __name__ == "__main__":  # the cluster's processes import this file
    main()
