"""Is `NMF` as good as scikit-learn's on complete data in its time, and better than others if half of the entries miss?

Complete: the value after default fits of `rw.NMF` (200 sweeps at most, tol 1e-4), the best value of scikit-learn's NMF
from five starts (its own "nndsvda" and four random ones, default settings), and processor seconds of one thread, of our
fit and of scikit-learn's fit from its own start. Faces: 400 x 4096 grey levels; news: 2246 x 10473 counts of words.

Missing: half of the pixels of the faces at random. Root mean squared error at the missing ones of `rw.NMF`, of cmfrec's
non-negative model, and of scikit-learn's NMF with missing pixels at the mean of their column. The rank (10, 40) and the
ridge of each are chosen on a tenth of the known pixels.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.io import loadmat
from sklearn.decomposition import NMF as SklearnNMF
from threadpoolctl import threadpool_limits

import rankwise as rw
from rankwise import DataError

from .common import Row

RANKS = (10, 40)
N_STARTS = 5
RIDGES = (0.01, 0.1, 1.0)
BETA = {"square": "frobenius", "kullback-leibler": "kullback-leibler"}


def path_of(name: str) -> Path:
    """A file of the data folder."""
    path = Path(os.environ.get("RANKWISE_DATA", "")) / name
    if not path.exists():
        raise DataError(f"{path} is not there; set RANKWISE_DATA to the folder of the data sets.")
    return path


def faces() -> np.ndarray:
    """Olivetti faces, a row for each, from 0 to 1; darkest pixels slightly above zero."""
    return np.asarray(loadmat(path_of("images/olivettifaces.mat"))["faces"], np.float32).T / 255 + 1e-3


def news() -> sp.csr_array:
    """Counts of words in articles of the Associated Press."""
    return sp.csr_array(sp.load_npz(path_of("counts/AssociatedPress.npz"))).astype(np.float32)


def value(loss: str, X: Any, R: np.ndarray) -> float:
    """Sum of the losses."""
    X, R = (X.toarray() if sp.issparse(X) else X).astype(float), np.maximum(R, 1e-7).astype(float)
    if loss == "square":
        return 0.5 * float(np.sum((X - R) ** 2))
    return float(np.sum(R - X) + np.sum(X[X > 0] * np.log(X[X > 0] / R[X > 0])))


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    """Result and processor seconds."""
    start = time.process_time()
    return fit(), time.process_time() - start


def complete(name: str, X: Any, ranks: tuple[int, ...] = RANKS) -> Iterator[Row]:
    """One row per loss and rank."""
    for loss in BETA:
        rw.NMF(2, loss=loss, max_iter=2, n_jobs=1).fit(X[:50])  # compile
        for rank in ranks:
            ours = rw.NMF(rank, loss=loss, n_jobs=1)
            _, seconds = timed(lambda ours=ours, X=X: ours.fit(X))
            peers = [timed(lambda k=k, a=(X, loss, rank): peer(*a, k)) for k in range(N_STARTS)]
            best = min(value(loss, X, product) for product, _ in peers)
            mine = value(loss, X, ours.transform(X) @ ours.components_)
            yield {
                "data": name,
                "loss": loss,
                "rank": rank,
                "value": round(mine, 1),
                "best_of_sklearn": round(best, 1),
                "excess_percent": round(100 * (mine / best - 1), 2),
                "sweeps": ours.n_iter_,
                "cpu_seconds": round(seconds, 2),
                "sklearn_cpu_seconds": round(peers[0][1], 2),
            }


def peer(X: Any, loss: str, rank: int, start: int) -> np.ndarray:
    """Product of scikit-learn's factors."""
    settings = {"beta_loss": BETA[loss], "solver": "cd" if loss == "square" else "mu"}
    model = SklearnNMF(rank, init="random" if start else "nndsvda", random_state=start, **settings)
    return model.fit_transform(X) @ model.components_


def missing() -> Iterator[Row]:
    """One row per library."""
    X, rng = faces().astype(np.float64), np.random.default_rng(0)
    hidden = rng.random(X.shape) < 0.5
    inner = ~hidden & (rng.random(X.shape) < 0.1)
    fits = {"rankwise": ours_with_gaps, "cmfrec": cmfrec_with_gaps, "scikit-learn, means": sklearn_with_means}
    for name, fit in fits.items():
        cases = [(rank, ridge) for rank in RANKS for ridge in (RIDGES if fit is not sklearn_with_means else (0.0,))]
        scores = [rmse(fit(np.where(hidden | inner, np.nan, X), *case), X, inner) for case in cases]
        best = cases[int(np.argmin(scores))]
        product, seconds = timed(lambda fit=fit, best=best: fit(np.where(hidden, np.nan, X), *best))
        yield {
            "library": name,
            "rank": best[0],
            "ridge": best[1],
            "rmse": round(rmse(product, X, hidden), 5),
            "cpu_seconds": round(seconds, 2),
        }


def rmse(R: np.ndarray, X: np.ndarray, at: np.ndarray) -> float:
    """Root mean squared error at some entries."""
    return float(np.sqrt(np.mean((R - X)[at] ** 2)))


def ours_with_gaps(X: np.ndarray, rank: int, ridge: float) -> np.ndarray:
    """Product of our factors."""
    model = rw.NMF(rank, ridge=ridge, n_jobs=1, max_iter=30)
    return model.fit_transform(X) @ model.components_


def cmfrec_with_gaps(X: np.ndarray, rank: int, ridge: float) -> np.ndarray:
    """Product of cmfrec's non-negative factors, without offsets."""
    from cmfrec import CMF

    settings = {"nonneg": True, "user_bias": False, "item_bias": False, "center": False, "verbose": False}
    model = CMF(k=rank, lambda_=ridge, niter=30, nthreads=1, use_float=True, **settings)
    rows, cols = np.nonzero(~np.isnan(X))
    model.fit(sp.coo_matrix((X[rows, cols].astype(np.float32), (rows, cols)), shape=X.shape))
    return np.asarray(model.A_) @ np.asarray(model.B_).T


def sklearn_with_means(X: np.ndarray, rank: int, ridge: float) -> np.ndarray:
    """Product of scikit-learn's factors of the matrix whose gaps are the means of their columns."""
    return peer(np.where(np.isnan(X), np.nanmean(X, axis=0), X), "square", rank, 0)


def run() -> Iterator[Row]:
    """All rows."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from complete("news", news())
        yield from missing()
        yield from complete("faces", faces())
