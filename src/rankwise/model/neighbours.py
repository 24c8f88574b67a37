"""Parts of a model whose scores depend on which columns a row has: neighbours of columns, and encoded rows."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import all_finite
from .._errors import SettingError
from ..kernels import pattern
from ..observations.build import check_csr
from .ranking import Ranked, Seen, check_count

if TYPE_CHECKING:
    from .low_rank import LowRankModel


class Neighbours(NamedTuple):
    """Weights between columns: the score of column j for a row is the sum of ``W[s, j]`` over the row's columns s.

    W is sparse, in CSR form by source column s.

    Attributes
    ----------
    indptr : ndarray of int64, shape (n_cols + 1,)
    indices : ndarray of int32, shape (n_weights,)
    weights : ndarray of float32, shape (n_weights,)
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, matrix: Any, n_sources: int | None = None) -> "Neighbours":
        """Neighbours from a sparse or dense matrix W, with the `n_sources` largest weights of each scored column.

        The diagonal is left out: a row's own columns are not recommended to it.
        """
        columns = sp.csc_array(matrix, dtype=np.float32)
        columns.sum_duplicates()
        target = np.repeat(np.arange(columns.shape[1], dtype=np.int32), np.diff(columns.indptr))
        kept = (columns.indices != target) & (columns.data != 0)
        if n_sources is not None:
            sizes = np.where(kept, np.abs(columns.data), 0.0)
            for first, last in pairwise(columns.indptr):
                kept[first:last] &= _are_largest(sizes[first:last], n_sources)
        indptr = np.concatenate(([0], np.cumsum(kept)))[columns.indptr]
        by_source = sp.csc_array((columns.data[kept], columns.indices[kept], indptr), columns.shape).tocsr()
        by_source.sort_indices()
        return cls(by_source.indptr.astype(np.int64), by_source.indices.astype(np.int32), by_source.data)

    @property
    def matrix(self) -> Any:
        """W as a SciPy CSR array, shape (n_cols, n_cols)."""
        n_cols = self.indptr.size - 1
        return sp.csr_array((self.weights, self.indices, self.indptr), shape=(n_cols, n_cols))

    def scores(self, patterns: Seen) -> NDArray[np.float32]:
        """Scores of all columns for the rows with these patterns, shape (n_rows, n_cols)."""
        return dense_product(patterns.to_sparse(self.indptr.size - 1), self.matrix)

    def at(self, seen: Seen, rows: Array, cols: Array) -> NDArray[np.float64]:
        """Scores at pairs of rows and columns, shape (n,)."""
        distinct, place = np.unique(rows, return_inverse=True)
        scores = seen.take_rows(distinct).to_sparse(self.indptr.size - 1) @ self.matrix
        chosen = scores.tocsr()[place, cols]  # sparse if there are no pairs
        return np.asarray(chosen.toarray() if sp.issparse(chosen) else chosen, np.float64).ravel()

    def is_sound(self, n_cols: int) -> bool:
        """Return whether arrays from a file are the neighbours of `n_cols` columns."""
        check_csr(self.indptr.astype(np.uint64), self.indices.astype(np.uint32), (n_cols, n_cols))
        return self.weights.shape == self.indices.shape and all_finite(self.weights)


def dense_product(rows: Any, matrix: Any) -> NDArray[np.float32]:
    """Product of a sparse matrix of float32 with a sparse or a dense one, as an array of shape (n_rows, n_cols)."""
    if not sp.issparse(matrix):
        return np.asarray(rows @ matrix)
    left, right = sp.csr_array(rows), sp.csr_array(matrix)
    out = np.zeros((left.shape[0], right.shape[1]), np.float32)
    pattern.add_lines(*((part.indptr.astype(np.int64), part.indices, part.data) for part in (left, right)), out)
    return out


def _are_largest(sizes: Array, n: int) -> NDArray[np.bool_]:
    """Return a mask of the n largest numbers, the first ones of equal numbers."""
    if sizes.size <= n:
        return np.ones(sizes.size, np.bool_)
    least = np.partition(sizes, -n)[-n]
    largest: NDArray[np.bool_] = sizes > least
    largest[np.flatnonzero(sizes == least)[: n - np.count_nonzero(largest)]] = True
    return largest


class Encoder(NamedTuple):
    """Row factors as a linear function of a row's entries: ``U diag(theta) = R diag(columns) V diag(components)``.

    Attributes
    ----------
    columns : ndarray of float64, shape (n_cols,)
    components : ndarray of float64, shape (longest,)
    """

    columns: NDArray[np.float64]
    components: NDArray[np.float64]

    def factors(self, entries: Any, V: Array) -> NDArray[np.float64]:
        """Factors ``U * theta`` of rows whose entries are a sparse matrix, shape (n_rows, longest)."""
        weighted = sp.csr_array(entries) @ sp.diags_array(self.columns)
        used = np.unique(weighted.indices)
        return np.asarray(weighted[:, used] @ V[used].astype(np.float64)) * self.components

    def is_sound(self, n_cols: int, longest: int) -> bool:
        """Return whether arrays from a file have the model's sizes and are finite."""
        shapes = self.columns.shape == (n_cols,) and self.components.shape == (longest,)
        return shapes and all_finite(self.columns) and all_finite(self.components)


def explain(model: "LowRankModel", row: Any, column: Any, n: int) -> Ranked:
    """See `LowRankModel.explain`."""
    if model.encoder is None and not _is_swept(model):
        raise SettingError("`explain` is available for models of clicks, fitted by ImplicitFactorization.")
    if model.seen is None:
        raise SettingError("This model was saved without its entries, which `explain` needs.")
    i, j = model.row_index.find([row]), model.col_index.find([column])[0]
    seen = model.seen.take_rows(i)
    own, counts = seen.indices.astype(np.int64), np.ones(seen.indices.size) if seen.counts is None else seen.counts
    if model.encoder is None:
        added = _swept(model, own, counts.astype(np.float64), j)
    else:
        added = counts * _encoded(model, model.encoder, own, j)
    own, added = own[own != j], added[own != j]
    if model.neighbours is not None:
        added += model.neighbours.matrix[own][:, [j]].toarray().ravel()
    best = np.argsort(-added, kind="stable")[: check_count(n)]
    labels = own[best] if model.col_labels is None else model.col_labels[own[best]]
    return labels, added[best]


def _encoded(model: "LowRankModel", encoder: Encoder, own: Array, j: int) -> Array:
    """Return the shares of single clicks in the low-rank score of column j, for factors linear in the entries."""
    theta = model.theta
    components = encoder.components[: theta.size] * model.V[j, : theta.size]
    return np.asarray(encoder.columns[own] * (model.V[own, : theta.size].astype(np.float64) @ components))


def _is_swept(model: "LowRankModel") -> bool:
    """Whether the model is of clicks by weighted sweeps; a model of other targets knows their range."""
    parts = model.learned is not None and model.cells is not None and model.loss is not None
    return parts and model.loss.quadratic and model.offsets is None and model.targets is None  # type: ignore[union-attr]


def _swept(model: "LowRankModel", own: Array, counts: Array, j: int) -> Array:
    """Return the shares of a row's own columns in the score of column j by weighted least squares (Hu et al., 2008).

    The row's factors are ``A**-1`` times the sum of its columns' factors f, each times its count, so that column s
    adds ``counts[s] * f_j A**-1 f_s``.
    """
    assert model.learned is not None and model.cells is not None
    learned, cells = model.learned, model.cells.for_new_rows(counts.sum(keepdims=True))
    F = learned.cols.means.astype(np.float64)
    quadratic, _ = cells.row_quadratic(cells.col_moments(F, learned.cols.variances, False, 0.0), F.shape[1], 1.0)
    power = max(counts.sum() + cells.row_totals[0], 1.0) ** learned.count_power
    A = cells.rows[0] * quadratic + np.diag(power * learned.rows.precisions) + (F[own].T * counts) @ F[own]
    return np.asarray(counts * (F[own] @ np.linalg.solve(A, F[j])))
