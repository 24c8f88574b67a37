"""``rankwise compile``: fill the kernel cache ahead of time, by tiny fits."""

import time
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from .. import losses
from .._errors import SettingError
from ..estimators import MatrixCompletion
from ..kernels.cache import cache_folder
from ..losses import Loss
from ..observations import Observations
from .formatting import console
from .terminal import echo

SHAPE = (40, 30)
CANDIDATES = (
    [-1.5, 0.5, 2.5],
    [0.0, 1.0, 2.0],
    [-1.0, 1.0],
    [0.0, 1.0],
)  # targets; the first that suit a loss are used


def run(names: Sequence[str]) -> None:
    """Fit the default method with each loss to a tiny matrix; print the seconds and the folder of the cache."""
    folder = cache_folder()
    if folder is None:
        raise SettingError(
            "Compiled kernels cannot be stored; set NUMBA_CACHE_DIR to a folder that only you can write."
        )
    out, start = console(), time.perf_counter()
    Observations.from_any(csr_array(np.ones(SHAPE)))  # sorted entries have kernels of their own
    for name in names:
        echo(f"Compiling kernels for the {name} loss ...", err=True)
        begin, loss = time.perf_counter(), losses.get(name)
        model = MatrixCompletion(loss, random_state=0).fit(_entries(loss))
        model.predict_entries([0], [0], return_std=True)
        model.recommend(0, 1)
        out.print(f"{name + ':':<21}{time.perf_counter() - begin:5.1f} s")
    out.print(f"{'In all:':<21}{time.perf_counter() - start:5.1f} s\nKernel cache: {folder}")


def _entries(loss: Loss) -> Observations:
    """Return entries of a small matrix of rank one, rounded to targets in the domain of the loss."""
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random(SHAPE) < 0.5)
    signal = (rng.normal(size=SHAPE[0])[:, None] * rng.normal(size=SHAPE[1]))[rows, cols]
    targets = next(some for some in map(np.array, CANDIDATES) if np.all(loss.in_domain(some)))
    levels = np.digitize(signal, np.quantile(signal, np.arange(1, targets.size) / targets.size))
    return Observations.from_coo(rows, cols, targets[levels], SHAPE)
