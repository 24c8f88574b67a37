"""LIBMF and cmfrec behind one door: settings to try, and predictions of held-out entries (extra `bench`)."""

import contextlib
import importlib.util
import io
import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from rankwise.observations import Observations


def libmf_grid(signs: bool) -> list[dict[str, Any]]:
    """Settings that did well in a wider search: logistic for signs, squared for ratings."""
    if signs:
        return [{"fun": 5, "k": 40, "nr_iters": 30, "ridge": ridge} for ridge in (0.01, 0.02, 0.05, 0.1)]
    return [{"fun": 0, "k": 32, "nr_iters": 40, "ridge": ridge} for ridge in (0.04, 0.08, 0.12, 0.16)]


def libmf_predict(train: Observations, held_out: Observations, settings: dict[str, Any]) -> np.ndarray:
    """Fit LIBMF; its wrapper's own `predict` is wrong, so factors are multiplied here. NaN: a row never seen."""
    with contextlib.redirect_stdout(io.StringIO()):
        from libmf.mf import MF

        options = {name: value for name, value in settings.items() if name != "ridge"}
        ridges = dict.fromkeys(("lambda_p2", "lambda_q2"), settings["ridge"]) | {"lambda_p1": 0.0, "lambda_q1": 0.0}
        engine = MF(**options, **ridges, nr_threads=2, nr_bins=20, quiet=True)
        engine.fit(np.column_stack((train.rows, train.cols, train.targets)).astype(np.float32))
    P, Q = (np.asarray(side).reshape(-1, engine.model.k) for side in (engine.p_factors(), engine.q_factors()))
    seen = (held_out.rows < P.shape[0]) & (held_out.cols < Q.shape[0])
    found = np.full(held_out.n_observed, np.nan)
    found[seen] = np.einsum("ij,ij->i", P[held_out.rows[seen]], Q[held_out.cols[seen]])
    return np.where(np.isnan(found), engine.model.b, found)


def cmfrec_grid(signs: bool) -> list[dict[str, Any]]:
    """Ridge and rank of its alternating least squares."""
    return [{"k": k, "lambda_": ridge} for k in (10, 30) for ridge in ((2.0, 5.0) if signs else (10.0, 20.0))]


def cmfrec_predict(train: Observations, held_out: Observations, settings: dict[str, Any]) -> np.ndarray:
    """Fit cmfrec with row and column offsets."""
    import pandas as pd
    from cmfrec import CMF

    frame = pd.DataFrame({"UserId": train.rows, "ItemId": train.cols, "Rating": train.targets.astype(float)})
    model = CMF(**settings, niter=15, nthreads=2, verbose=False)
    model.fit(frame)
    found = np.asarray(model.predict(held_out.rows, held_out.cols), float)
    return np.where(np.isnan(found), float(train.targets.mean()), found)


def timed(name: str, *args: Any, limit: float = 120.0, tries: int = 3) -> tuple[np.ndarray, float]:
    """Predictions of a peer and its seconds, from a process of its own: LIBMF was seen to hang beside our threads."""
    context = multiprocessing.get_context("spawn")
    for _ in range(tries):
        here, there = context.Pipe()
        child = context.Process(target=_answer, args=(there, name, args), daemon=True)
        child.start()
        if here.poll(limit):
            found: tuple[np.ndarray, float] = here.recv()
            child.join()
            return found
        child.kill()
        child.join()
    raise RuntimeError(f"{name} gave no answer within {limit:g} s, {tries} times.")


def _answer(pipe: Any, name: str, args: tuple[Any, ...]) -> None:
    start = time.perf_counter()
    found = PEERS[name][1](*args)
    pipe.send((found, time.perf_counter() - start))


PEERS = {"libmf": (libmf_grid, libmf_predict), "cmfrec": (cmfrec_grid, cmfrec_predict)}


def installed() -> Iterator[str]:
    """Peers that can be imported here."""
    yield from (name for name in PEERS if importlib.util.find_spec(name))
