"""Encoded features of the rows, or of the columns, of a matrix: numbers with groups that share a ridge."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._arrays import Array
from .._digests import checksum
from .._errors import DataError


@dataclass(frozen=True, eq=False)
class Features:
    """Numbers that are known of every row (or column), whether or not it has entries.

    Parameters
    ----------
    matrix : ndarray or SciPy CSR array of shape (n, n_features)
        Finite numbers in float64; a row of zeros stands for a row of which nothing is known.
    groups : ndarray of shape (n_features,), optional
        Number of each feature's group, from 0; the features of a group share a ridge. By default each is its own.

    Examples
    --------
    >>> import rankwise as rw
    >>> features = rw.Features([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], groups=[0, 0])
    >>> print(features)
    Features(3 rows, 2 features in 1 group)
    """

    matrix: Any
    groups: NDArray[np.int64]

    def __init__(self, matrix: Any, groups: ArrayLike | None = None) -> None:
        values = sp.csr_array(matrix, dtype=np.float64) if sp.issparse(matrix) else np.asarray(matrix, np.float64)
        if values.ndim != 2:
            raise DataError(f"`matrix` of features must have two dimensions, got {values.ndim}.")
        if not np.isfinite(values.data if sp.issparse(values) else values).all():
            raise DataError("`matrix` of features must be finite; `fit(row_features=...)` fills missing values.")
        numbers = np.arange(values.shape[1]) if groups is None else np.asarray(groups, np.int64)
        if numbers.shape != (values.shape[1],) or np.min(numbers, initial=0) < 0:
            raise DataError(f"`groups` must be {values.shape[1]} numbers from 0, one for each feature.")
        object.__setattr__(self, "matrix", values)
        object.__setattr__(self, "groups", numbers)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return int(self.groups.max(initial=-1)) + 1

    @property
    def is_sparse(self) -> bool:
        """Whether the matrix is a SciPy sparse array."""
        return bool(sp.issparse(self.matrix))

    def squares(self, weights: Array) -> NDArray[np.float64]:
        """``sum over rows of weights[i] * matrix[i, p]**2``, shape (n_features,)."""
        squared = self.matrix.multiply(self.matrix) if self.is_sparse else self.matrix**2
        return np.asarray(squared.T @ weights)

    def gram(self, weights: Array) -> NDArray[np.float64]:
        """``matrix.T @ diag(weights) @ matrix``, shape (n_features, n_features)."""
        weighted = self.matrix.multiply(weights[:, None]).tocsr() if self.is_sparse else weights[:, None] * self.matrix
        gram = self.matrix.T @ weighted
        return gram.toarray() if self.is_sparse else np.asarray(gram)

    def by_group(self, values: Array) -> NDArray[np.float64]:
        """Sums of a value of each feature over the features of each group, shape (n_groups,)."""
        return np.bincount(self.groups, values, self.n_groups).astype(np.float64)

    def take(self, rows: Array) -> "Features":
        """Features of the chosen rows, by their numbers; -1 stands for a row of which nothing is known."""
        chosen: Any = self.matrix[np.maximum(rows, 0)] if self.shape[0] else np.zeros((len(rows), self.shape[1]))
        known = (rows >= 0).astype(np.float64)
        masked = sp.csr_array(chosen.multiply(known[:, None])) if sp.issparse(chosen) else chosen * known[:, None]
        return Features(masked, self.groups)

    def checksum(self) -> str:
        """Digest of the matrix and the groups, 32 hexadecimal digits."""
        parts = (self.matrix.indptr, self.matrix.indices, self.matrix.data) if self.is_sparse else (self.matrix,)
        return checksum(*self.shape, *parts, self.groups).hex()

    def __repr__(self) -> str:
        """Show the number of rows, features and groups."""
        groups = f"{self.n_groups} group" + "s" * (self.n_groups != 1)
        return f"Features({self.shape[0]} rows, {self.shape[1]} features in {groups})"
