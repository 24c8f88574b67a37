"""`LowRankModel`: what a solver returns."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._checks import is_whole
from .._errors import DataError, SettingError
from ..engines import Offsets
from ..kernels import pattern
from ..losses import Loss
from ..losses.links import response
from .learned import Learned
from .posterior import Posterior

SCALES = ("link", "response")


class Seen(NamedTuple):
    """Which entries a model was learned from, row by row; not their values."""

    indptr: NDArray[np.uint64]
    indices: NDArray[np.uint32]

    def transposed(self, n_cols: int) -> "Seen":
        """The same entries with rows and columns exchanged."""
        ones, shape = np.ones(self.indices.size, bool), (self.indptr.size - 1, n_cols)
        turned = sp.csr_array((ones, self.indices.astype(np.int64), self.indptr.astype(np.int64)), shape).T.tocsr()
        return Seen(turned.indptr.astype(np.uint64), turned.indices.astype(np.uint32))


@dataclass(frozen=True, eq=False)
class LowRankModel:
    """``X = sum_k theta[k] * outer(U[:, k], V[:, k])``, and offsets if any, at every rank up to its own.

    Attributes
    ----------
    path : ndarray of shape (longest, longest)
        Row k - 1 holds the coefficients of the rank-k model, zeros beyond.
    U, V : ndarray of shape (n_rows, longest) and (n_cols, longest)
        Unit columns; those of the rows of a model made by `fold_in` are not.
    row_labels, col_labels : ndarray or None
        Names of the rows and columns; None means their numbers.
    link : {"identity", "logit", "log"}
        What `scale="response"` undoes.
    chosen : int, optional
        The rank that is used unless another is asked for; by default the longest on the path. A solver whose steps
        may raise the value chooses its best.
    only_by : str, optional
        Name of the solver, if it keeps no path: then only the full rank can be asked for.
    offsets : Offsets, optional
        Added to every prediction, at every rank.
    posterior : Posterior, optional
        How sure the model is of its full-rank predictions, if it was learned with `refine="bayes"`.
    loss : Loss, optional
        What it was learned with.
    seen : Seen, optional
        Which entries it was learned from.
    facts : dict
        How it was learned, in plain values for reports: method, settings, seconds, history.
    learned : Learned, optional
        Both sides as the last sweep left them, if it was learned by sweeps.
    scale : float, default=1
        What an entry's loss counts for against the spread of the factors: one over the noise, where there is any.
    """

    path: NDArray[np.float64]
    U: NDArray[Any]
    V: NDArray[Any]
    row_labels: NDArray[Any] | None = None
    col_labels: NDArray[Any] | None = None
    link: str = "identity"
    chosen: int | None = None
    only_by: str | None = None
    offsets: Offsets | None = None
    posterior: Posterior | None = None
    loss: Loss | None = None
    seen: Seen | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    learned: Learned | None = None
    scale: float = 1.0

    @property
    def rank(self) -> int:
        """The rank that is used unless another is asked for."""
        return self.longest if self.chosen is None else self.chosen

    @property
    def longest(self) -> int:
        """The largest rank on the path."""
        return int(self.path.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self.U.shape[0], self.V.shape[0]

    @property
    def theta(self) -> NDArray[np.float64]:
        """Coefficients at the model's rank."""
        return self.coefficients(None)

    def coefficients(self, rank: int | None) -> NDArray[np.float64]:
        """Coefficients of the rank-`rank` model, shape (rank,); None means the model's rank."""
        rank = self._checked(rank)
        return self.path[rank - 1, :rank] if rank else np.zeros(0)

    def predict_entries(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        *,
        rank: int | None = None,
        scale: str = "link",
        return_std: bool = False,
    ) -> Any:
        """Predictions at pairs of rows and columns, by label if there are labels, else by number.

        Parameters
        ----------
        rows, cols : array-like of shape (n,)
        rank : int, optional
            Any rank of the path, 0 to `self.longest`; no refit, the same as having stopped there.
        scale : {"link", "response"}, default="link"
            "response" gives probabilities of +1 under the logistic loss and rates under Poisson.
        return_std : bool, default=False
            Also give the standard deviation of each prediction, on the link scale and without the noise of a single
            observation; for models learned with `refine="bayes"`, at their full rank.

        Returns
        -------
        ndarray of shape (n,), or two of them
        """
        if scale not in SCALES:
            raise SettingError(f"`scale` must be 'link' or 'response', got {scale!r}.")
        row_of = find(rows, self.row_labels, self.shape[0], "row")
        col_of = find(cols, self.col_labels, self.shape[1], "column")
        if row_of.shape != col_of.shape:
            raise DataError(f"There are {row_of.size} rows but {col_of.size} columns; give one column for each row.")
        linked = self.at(row_of, col_of, rank)
        found = linked if scale == "link" else response(self.link, linked)
        return (found, self._deviations(row_of, col_of, rank)) if return_std else found

    def _deviations(self, rows: NDArray[Any], cols: NDArray[Any], rank: int | None) -> NDArray[np.float64]:
        if self.posterior is None:
            raise SettingError('Only models of refine="bayes" know how sure they are; leave out `return_std`.')
        if rank is not None and rank != self.rank:
            raise SettingError(f"Standard deviations are known at the full rank, {self.rank}, only; leave out `rank`.")
        return np.sqrt(self.posterior.variance_at(rows, cols))

    def at(self, rows: NDArray[Any], cols: NDArray[Any], rank: int | None = None) -> NDArray[np.float64]:
        """Predictions at checked row and column numbers."""
        found = predict(self.coefficients(rank), self.U, self.V, rows, cols)
        return found if self.offsets is None else found + self.offsets.at(rows, cols)

    def to_dense(self, rank: int | None = None) -> NDArray[np.float64]:
        """The whole matrix; for small ones."""
        theta = self.coefficients(rank)
        found = np.asarray((self.U[:, : theta.size] * theta) @ self.V[:, : theta.size].T, dtype=np.float64)
        return found if self.offsets is None else found + self.offsets.to_dense()

    def row_factors(self, rank: int | None = None) -> NDArray[np.float64]:
        """Coordinates of the rows, ``U * theta``: times ``V.T`` they are the predictions, offsets left out."""
        theta = self.coefficients(rank)
        return np.asarray(self.U[:, : theta.size] * theta, np.float64)

    def col_factors(self, rank: int | None = None) -> NDArray[np.float64]:
        """Coordinates of the columns, ``V * theta``: times ``U.T`` they are the predictions, offsets left out."""
        theta = self.coefficients(rank)
        return np.asarray(self.V[:, : theta.size] * theta, np.float64)

    def transposed(self) -> "LowRankModel":
        """The same model with rows and columns exchanged."""
        offsets, posterior = self.offsets, self.posterior
        return replace(
            self,
            U=self.V,
            V=self.U,
            row_labels=self.col_labels,
            col_labels=self.row_labels,
            offsets=None if offsets is None else Offsets(offsets.constant, offsets.cols, offsets.rows),
            posterior=None if posterior is None else posterior.transposed(),
            seen=None if self.seen is None else self.seen.transposed(self.shape[1]),
            learned=None if self.learned is None else self.learned.transposed(),
        )

    def fold_in(
        self, new: Any, *, axis: str = "rows", loss: str | Loss | None = None, n_jobs: int | None = None
    ) -> "LowRankModel":
        """A model of rows (or columns) that came after the fit, the other side being as it is; no refit.

        Each new row is solved for as the rows of the fit were: the same small convex problem, with the same ridge or
        the same learned precisions and noise. A model of a pursuit has no ridge of its own: there, new rows are thought
        to be spread as the fitted ones are, and the noise is what the fit left. A row without any entry gets the
        offsets of the columns, and what is thought of a row before its entries are seen.

        Parameters
        ----------
        new : SciPy sparse matrix, array with NaN at unknown entries, or Observations
            New rows with the model's columns, matched by label if both have labels, else by number. With
            ``axis="columns"``, new columns with the model's rows.
        axis : {"rows", "columns"}, default="rows"
        loss : str or Loss, optional
            By default the model's own; needed for a model from a file that was learned with a loss of your own making.
        n_jobs : int, optional
            Threads; None means all usable cores. Results do not depend on it.

        Returns
        -------
        LowRankModel
            Of the new rows alone, with the same columns, path and offsets; predictions at any rank of the path, and
            their deviations, are had as from this one.
        """
        from .fold_in import fold_in

        return fold_in(self, new, axis=axis, loss=loss, n_jobs=n_jobs)

    def _checked(self, rank: int | None) -> int:
        if rank is None:
            return self.rank
        if not is_whole(rank) or not 0 <= rank <= self.longest:
            raise SettingError(f"`rank` must be an integer from 0 to {self.longest}, got {rank!r}.")
        if self.only_by is not None and rank != self.longest:
            raise SettingError(f"{self.only_by} keeps no path, so rank={rank} is not known; fit again at that rank.")
        return int(rank)

    def __repr__(self) -> str:
        """Sizes, at a glance."""
        return f"LowRankModel({self.shape[0]} x {self.shape[1]}, rank {self.rank})"


def predict(theta: NDArray[Any], U: NDArray[Any], V: NDArray[Any], rows: Any, cols: Any) -> NDArray[np.float64]:
    """Entries of ``U diag(theta) V.T``; columns beyond theta's are not used, and do not change a bit."""
    out = np.zeros(rows.size)
    rows, cols = (np.ascontiguousarray(side, np.uint64) for side in (rows, cols))
    U, V = (np.ascontiguousarray(side) for side in (U, V))
    pattern.low_rank_pairs(rows, cols, np.ascontiguousarray(theta), U, V, out)
    return out


def find(
    wanted: ArrayLike, labels: NDArray[Any] | None, size: int, which: str, cure: str | None = None
) -> NDArray[np.int64]:
    """Numbers of the wanted rows or columns; `cure` says what to do with labels that are unknown."""
    given = np.atleast_1d(np.asarray(wanted))
    if given.ndim != 1:
        raise DataError(f"The {which}s must be one-dimensional, got shape {given.shape}.")
    if labels is None:
        if given.size and given.dtype.kind not in "iu":
            raise DataError(f"The {which}s of this model are numbered, so integers are needed, got {given.dtype}.")
        wrong = (given < 0) | (given >= size) if given.size else np.zeros(0, bool)
        if wrong.any():
            raise DataError(f"The {which} {given[wrong][0]} is outside the model, which has {size} {which}s.")
        return given.astype(np.int64)
    if {labels.dtype.kind, given.dtype.kind} == {"i", "u"}:  # NumPy would compare them as floats
        labels, given = labels.astype(object), given.astype(object)
    order = np.argsort(labels, kind="stable")
    try:
        place = np.minimum(np.searchsorted(labels, given, sorter=order), size - 1)
        unknown = labels[order[place]] != given
    except TypeError:
        raise DataError(f"The {which} labels of this model are {labels.dtype}, got {given.dtype}.") from None
    if np.any(unknown):
        found = given if np.ndim(unknown) == 0 else given[unknown]
        first = found[0].item() if isinstance(found[0], np.generic) else found[0]
        raise DataError(
            f"{found.size} {which} labels are unknown to the model (first: {first!r}); "
            + (cure or f"only {which}s that were given to `fit` can be predicted")
            + "."
        )
    return order[place]
