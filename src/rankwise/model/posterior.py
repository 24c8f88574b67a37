"""Mean-field Gaussian posterior over factors and offsets."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..kernels import pattern


@dataclass(frozen=True, eq=False)
class Posterior:
    """Independent normal posterior distributions of all factors and offsets.

    Attributes
    ----------
    row_means, row_variances : ndarray of shape (n_rows, rank + 1)
        Factors, then the offset.
    col_means, col_variances : ndarray of shape (n_cols, rank + 1)
    noise_variance : float
        Variance of an observation given its prediction; zero where the loss has no noise variance.
    """

    row_means: Array
    row_variances: Array
    col_means: Array
    col_variances: Array
    noise_variance: float = 0.0

    def transposed(self) -> "Posterior":
        """Posterior of the transposed matrix."""
        sides = self.col_means, self.col_variances, self.row_means, self.row_variances
        return Posterior(*sides, self.noise_variance)

    def spread(self, axis: str) -> NDArray[np.float64]:
        """Variance of each row (``axis="rows"``) or column of the low-rank part due to its own factors, summed."""
        pairs = (self.row_variances, self.col_means), (self.col_variances, self.row_means)
        variances, others = pairs[axis == "columns"]
        return np.asarray(variances[:, :-1] @ np.sum(others[:, :-1].astype(np.float64) ** 2, axis=0))

    def variance_at(self, rows: Array, cols: Array) -> NDArray[np.float64]:
        """Variance of the prediction at pairs of row and column numbers; O(rank) a pair."""
        out = np.empty(rows.size)
        sides = self.row_means, self.row_variances, self.col_means, self.col_variances
        pairs = (np.ascontiguousarray(side, np.uint64) for side in (rows, cols))
        pattern.variance_pairs(*pairs, *(np.ascontiguousarray(side) for side in sides), out)
        return out
