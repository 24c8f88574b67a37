"""``rankwise compile``: fill the kernel cache ahead of time, by tiny fits."""

import logging
import time
from collections.abc import Sequence

import joblib
import numpy as np
from scipy.sparse import csr_array

from .. import losses
from .._errors import SettingError
from ..engines import usable_cores
from ..estimators import MatrixCompletion
from ..kernels.cache import cache_folder
from ..losses import Loss
from ..observations import Observations
from .formatting import console
from .terminal import echo

SHAPE = (40, 30)
WORTH_TWO = 4  # losses, about 1 s each, from which a second process, which takes 1.5 s to start, saves time
CANDIDATES = (
    [-1.5, 0.5, 2.5],
    [0.0, 1.0, 2.0],
    [-1.0, 1.0],
    [0.0, 1.0],
)  # targets; the first that suit a loss are used


def run(names: Sequence[str]) -> None:
    """Fit the default method with each loss to a tiny matrix; print the seconds and the folder of the cache.

    Most kernels serve all losses, and are compiled with the first one; of the others, two processes compile what is
    left, since Numba's compiler has one lock per process.
    """
    folder = cache_folder()
    if folder is None:
        raise SettingError(
            "Compiled kernels cannot be stored; set NUMBA_CACHE_DIR to a folder that only you can write."
        )
    out, start = console(), time.perf_counter()
    first, *others = names
    echo(f"Compiling kernels for the {first} loss ...", err=True)
    out.print(_line(first, _compile(first)))
    if others:
        echo(f"Compiling kernels for {', '.join(others)} ...", err=True)
        n_jobs = min(2, usable_cores()) if len(others) >= WORTH_TWO else 1
        all_seconds = joblib.Parallel(n_jobs, return_as="generator")(map(joblib.delayed(_compile), others))
        for name, seconds in zip(others, all_seconds, strict=True):
            out.print(_line(name, seconds))
    out.print(_line("In all", time.perf_counter() - start) + f"\nKernel cache: {folder}")


def _line(name: str, seconds: float) -> str:
    return f"{name + ':':<21}{seconds:5.1f} s"


def _compile(name: str) -> float:
    """Compile the kernels that a loss needs and the cache does not hold; return the seconds."""
    start, loss, log = time.perf_counter(), losses.get(name), logging.getLogger("rankwise")
    log.addFilter(_not_compiling)
    try:
        Observations.from_any(csr_array(np.ones(SHAPE)))  # sorted entries have kernels of their own
        model = MatrixCompletion(loss, random_state=0).fit(_entries(loss))
        model.predict_entries([0], [0], return_std=True)
        model.recommend(0, 1)
    finally:
        log.removeFilter(_not_compiling)
    return time.perf_counter() - start


def _not_compiling(record: logging.LogRecord) -> bool:
    """Return whether a log record is other than that kernels are compiled, which this command says itself."""
    return record.__dict__.get("phase") != "compiling"


def _entries(loss: Loss) -> Observations:
    """Return entries of a small matrix of rank one, rounded to targets in the domain of the loss."""
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random(SHAPE) < 0.5)
    signal = (rng.normal(size=SHAPE[0])[:, None] * rng.normal(size=SHAPE[1]))[rows, cols]
    targets = next(some for some in map(np.array, CANDIDATES) if np.all(loss.in_domain(some)))
    levels = np.digitize(signal, np.quantile(signal, np.arange(1, targets.size) / targets.size))
    return Observations.from_coo(rows, cols, targets[levels], SHAPE)
