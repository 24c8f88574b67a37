"""`LowRankModel`: what a solver returns."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import is_whole
from .._errors import DataError, SettingError
from ..engines import Offsets
from ..losses import Loss
from ..losses.links import response
from .decoding import decode as decoded
from .decoding import targets_of
from .factors import predict
from .intervals import Calibration, refuse_signs
from .posterior import Posterior
from .residuals import Residuals, entries_of, most_unlikely
from .targets import Targets

SCALES = ("link", "response")


class Seen(NamedTuple):
    """Which entries a model was learned from, row by row; not their values."""

    indptr: NDArray[np.uint64]
    indices: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class LowRankModel:
    """``X = sum_k theta[k] * outer(U[:, k], V[:, k])``, and offsets if any, at every rank up to its own.

    Attributes
    ----------
    path : ndarray of shape (longest, longest)
        Row k - 1 holds the coefficients of the rank-k model, zeros beyond.
    U, V : ndarray of shape (n_rows, longest) and (n_cols, longest)
        Unit columns.
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
    targets : Targets, optional
        Scale and grid of the entries it was learned from, for `decode`.
    calibration : Calibration, optional
        What `predict_interval` needs.
    facts : dict
        How it was learned, in plain values for reports: method, settings, seconds, history.
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
    targets: Targets | None = None
    calibration: Calibration | None = None
    facts: dict[str, Any] = field(default_factory=dict)

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
        decode: str | None = None,
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
        decode : {"clip", "round", "mean", "median", "class", "probability"}, optional
            Predictions in the targets' own units, matched to a metric (docs/predictions.md): kept within the scale of
            the training targets; moved to the nearest value of their grid; the mean (least squared error) or the median
            (least absolute error) of the predictive distribution; the most likely value; the probability of +1.

        Returns
        -------
        ndarray of shape (n,), or two of them
        """
        if scale not in SCALES:
            raise SettingError(f"`scale` must be 'link' or 'response', got {scale!r}.")
        if decode is not None and scale != "link":
            raise SettingError("`decode` already gives the targets' own units; leave out `scale`.")
        row_of, col_of = self.numbers(rows, cols)
        linked = self.at(row_of, col_of, rank)
        if decode is not None:
            found = decoded(self, linked, decode, row_of, col_of, sure=rank not in (None, self.rank))
        else:
            found = linked if scale == "link" else response(self.link, linked)
        return (found, self._deviations(row_of, col_of, rank)) if return_std else found

    def predict_interval(
        self, rows: ArrayLike, cols: ArrayLike, *, coverage: float = 0.8, clip: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ends between which a new observation falls with the given chance, at pairs of rows and columns.

        The chance is over entries drawn like those the model was calibrated on, not for each row by itself. An
        observation is below the low end as often as it is above the high one, and ends of a larger coverage lie outside
        those of a smaller one. Needs a calibrated model; see `MatrixCompletion.calibrate`.

        Parameters
        ----------
        rows, cols : array-like of shape (n,)
        coverage : float, default=0.8
            Above 0 and below 1.
        clip : bool, default=False
            Whether to keep the ends within the scale of the training targets, such as 1 to 5 stars.

        Returns
        -------
        low, high : ndarray of shape (n,)
            In the targets' units; ``low <= high``.
        """
        row_of, col_of = self.numbers(rows, cols)
        if self.calibration is None:
            refuse_signs(self.loss, self.link)
            raise SettingError(
                "This model has no calibrated intervals: fit with calibration=0.1, or call the estimator's `calibrate` "
                "with entries that `fit` has not seen."
            )
        low, high = self.calibration.interval(self, row_of, col_of, coverage)
        if clip:
            scale = targets_of(self)
            low, high = (end.clip(scale.low, scale.high) for end in (low, high))
        return low, high

    def residuals(self, X: Any, n: int = 20) -> Residuals:
        """The `n` entries of X that the model finds most unlikely: those of the largest loss, the largest first.

        Parameters
        ----------
        X : SciPy sparse matrix, array with NaN at unknown entries, or Observations
        n : int, default=20
        """
        return most_unlikely(self, entries_of(self, X), n)

    def numbers(self, rows: ArrayLike, cols: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column numbers of pairs of labels, checked."""
        row_of = find(rows, self.row_labels, self.shape[0], "row")
        col_of = find(cols, self.col_labels, self.shape[1], "column")
        if row_of.shape != col_of.shape:
            raise DataError(f"There are {row_of.size} rows but {col_of.size} columns; give one column for each row.")
        return row_of, col_of

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


def find(wanted: ArrayLike, labels: NDArray[Any] | None, size: int, which: str) -> NDArray[np.int64]:
    """Numbers of the wanted rows or columns."""
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
            f"only {which}s that were given to `fit` can be predicted."
        )
    return order[place]
