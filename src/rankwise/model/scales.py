"""Which rows and columns are noisier than others, from the residuals of the entries that were learned from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .intervals import Spread, moments

Array = NDArray[Any]
ROUNDS = 5  # rows given columns and the other way round; products of scales settle in two or three
LEAST = 0.05  # smallest scale of a row or column, relative to the mean


def spread_of(model: Any, rows: Array, cols: Array, targets: Array, weights: Array | None = None) -> Spread:
    """Widths from a model's variances and its residuals at the entries it was learned from; O(rank n_observed).

    A residual is enlarged by what its own entry took off it (the share of the noise that is the variance of its
    prediction). The mean size of a row's residuals, relative to the columns' and the other way round, is its scale,
    pulled towards one as far as chance explains the differences between rows.
    """
    centre, variances = moments(model, rows, cols)
    unit = np.maximum(centre, 1e-6) if model.link == "log" else np.ones(targets.size)
    squares = (targets - centre) ** 2
    noise = _noise_variance(squares / unit, variances / unit)
    left = np.maximum(noise * unit - variances, 0.1 * noise * unit)
    sizes = np.sqrt(squares / left)
    counts = np.ones(targets.size) if weights is None else weights.astype(np.float64)
    row_scales, col_scales = (np.ones(size) for size in model.shape)
    for _ in range(ROUNDS):
        row_scales = _shrunk_means(sizes / col_scales[cols], rows, counts, model.shape[0])
        col_scales = _shrunk_means(sizes / row_scales[rows], cols, counts, model.shape[1])
    return Spread(noise, row_scales, col_scales)


def _noise_variance(squares: Array, variances: Array) -> float:
    """From the median square, which gross outliers do not move; from the mean if half of the residuals are zero."""
    if not squares.size:
        return 1.0
    found = float(np.median(squares)) / 0.4549 or float(np.mean(squares))  # 0.4549: median of a squared normal
    return max(found + float(np.mean(variances)), 1e-30)


def _shrunk_means(sizes: Array, group: Array, counts: Array, n_groups: int) -> NDArray[np.float64]:
    """Mean size of every group over the mean of all, shrunk by the variance components of DerSimonian and Laird."""
    total = np.bincount(group, counts, n_groups)
    filled = int(np.count_nonzero(total))
    overall = float(np.sum(counts * sizes) / max(total.sum(), 1e-300))
    if not overall > 0 or filled < 2:
        return np.ones(n_groups)
    means = np.bincount(group, counts * sizes, n_groups) / np.maximum(total, 1e-300)
    within = float(np.sum(counts * (sizes - means[group]) ** 2) / max(total.sum() - filled, 1.0))
    among = float(np.sum(total * (means - overall) ** 2)) - (filled - 1) * within
    variance = among / float(total.sum() - np.sum(total**2) / total.sum())
    if not variance > 0:
        return np.ones(n_groups)
    trust = np.divide(total, total + within / variance, out=np.zeros(n_groups), where=total > 0)
    found: NDArray[np.float64] = np.maximum(1 + trust * (means / overall - 1), LEAST)
    return found
