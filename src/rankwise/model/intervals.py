"""Intervals that hold: widths from a model, stretched so that they cover held-out entries (split conformal)."""

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import is_number
from .._errors import SettingError
from ..losses.base import takes_signs
from ..losses.links import response
from .factors import predict

Array = NDArray[Any]
KEPT = 10_000  # scores that are kept; more would change a coverage by less than 1 in 10,000
NARROWEST = 0.1  # of the median width: what two quantile fits that meet or cross are taken to be apart


class Bound(NamedTuple):
    """One quantile of every entry: ``U diag(theta) V.T + constant + rows + cols``."""

    theta: Array
    U: Array
    V: Array
    rows: Array
    cols: Array

    @classmethod
    def of(cls, model: Any) -> "Bound":
        """The predictions of a model of the quantile loss."""
        theta = model.theta
        rows, cols = (np.zeros(size) for size in model.shape)
        if model.offsets is not None:
            rows, cols = model.offsets.constant + model.offsets.rows.astype(np.float64), model.offsets.cols
        return cls(theta, model.U[:, : theta.size], model.V[:, : theta.size], rows, cols.astype(np.float64))

    def at(self, rows: Array, cols: Array) -> NDArray[np.float64]:
        """The quantile at pairs of row and column numbers."""
        return predict(self.theta, self.U, self.V, rows, cols) + self.rows[rows] + self.cols[cols]

    def transposed(self) -> "Bound":
        """The same with rows and columns exchanged."""
        return Bound(self.theta, self.V, self.U, self.cols, self.rows)


@dataclass(frozen=True, eq=False)
class Spread:
    """How far targets lie from a model's predictions, up to one factor for all.

    ``row_scales[i] * col_scales[j] * sqrt(noise_variance + variance of the prediction)``; for counts, the noise
    variance is that many times the rate.

    Attributes
    ----------
    noise_variance : float
    row_scales : ndarray of shape (n_rows,)
    col_scales : ndarray of shape (n_cols,)
    """

    noise_variance: float
    row_scales: Array
    col_scales: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns it is for."""
        return self.row_scales.size, self.col_scales.size

    def at(self, model: Any, rows: Array, cols: Array) -> tuple[Array, Array]:
        """Centre and width at pairs of row and column numbers."""
        centre, variances = moments(model, rows, cols)
        unit = np.maximum(centre, 1e-6) if model.link == "log" else 1.0
        width = np.sqrt(self.noise_variance * unit + variances)
        return centre, width * self.row_scales[rows] * self.col_scales[cols]

    def transposed(self) -> "Spread":
        """The same with rows and columns exchanged."""
        return Spread(self.noise_variance, self.col_scales, self.row_scales)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two quantile fits: the middle between them and half their distance.

    Attributes
    ----------
    lower, upper : Bound
    narrowest : float
        Where the fits are closer to each other, or crossed, they are taken to be this far from their middle.
    """

    lower: Bound
    upper: Bound
    narrowest: float

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns it is for."""
        return self.lower.rows.size, self.lower.cols.size

    def at(self, model: Any, rows: Array, cols: Array) -> tuple[Array, Array]:
        """Centre and width at pairs of row and column numbers; the model itself is not asked."""
        low, high = self.lower.at(rows, cols), self.upper.at(rows, cols)
        return 0.5 * (low + high), np.maximum(0.5 * (high - low), self.narrowest)

    def transposed(self) -> "Pair":
        """The same with rows and columns exchanged."""
        return Pair(self.lower.transposed(), self.upper.transposed(), self.narrowest)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Widths, and how often held-out targets fell how far outside them.

    Attributes
    ----------
    widths : Spread or Pair
    scores : ndarray of shape (n_kept,)
        ``(target - centre) / width`` of the held-out entries in rising order; of more than 10,000, evenly spread ranks.
    n_entries : int
        How many held-out entries there were.
    """

    widths: Spread | Pair
    scores: Array
    n_entries: int

    @classmethod
    def on(cls, model: Any, widths: Spread | Pair, rows: Array, cols: Array, targets: Array) -> "Calibration":
        """Scores of entries that the model has not seen."""
        centre, width = widths.at(model, rows, cols)
        scores = np.sort((targets - centre) / width)
        return cls(widths, scores[ranks_kept(scores.size) - 1], scores.size)

    def transposed(self) -> "Calibration":
        """The same with rows and columns exchanged."""
        return replace(self, widths=self.widths.transposed())

    def ends(self, coverage: Any) -> tuple[float, float]:
        """Scores between which a new one falls with at least this chance; each end is missed equally often.

        With n scores, the ``floor((n + 1) (1 - coverage) / 2)``-th and the ``ceil((n + 1) (1 + coverage) / 2)``-th.
        """
        check_coverage(coverage)
        kept, n = ranks_kept(self.n_entries), self.n_entries
        tail = 0.5 * (n + 1) * (1 - coverage)
        low, high = int(np.floor(tail + 1e-9)), int(np.ceil(n + 1 - tail - 1e-9))
        if low < 1:
            need = int(np.ceil(2 / (1 - coverage) - 1e-9)) - 1
            raise SettingError(
                f"coverage={coverage:g} needs at least {need} calibration entries, there are {n}; calibrate with more."
            )
        places = np.searchsorted(kept, low, side="right") - 1, np.searchsorted(kept, high)
        return float(self.scores[places[0]]), float(self.scores[places[1]])

    def interval(self, model: Any, rows: Array, cols: Array, coverage: Any) -> tuple[Array, Array]:
        """Low and high end at pairs of row and column numbers."""
        low, high = self.ends(coverage)
        if self.widths.shape != model.shape:
            raise SettingError(
                f"The intervals were calibrated for {self.widths.shape} rows and columns, but the model has "
                f"{model.shape}; calibrate again."
            )
        centre, width = self.widths.at(model, rows, cols)
        ends = centre + low * width, centre + high * width
        return (np.maximum(ends[0], 0.0), np.maximum(ends[1], 0.0)) if model.link == "log" else ends

    def interval_score(self, model: Any, entries: tuple[Array, Array, Array], coverage: float) -> float:
        """Mean width plus ``2 / (1 - coverage)`` times the distance of targets outside (lower is sharper)."""
        rows, cols, targets = entries
        low, high = self.interval(model, rows, cols, coverage)
        missed = np.maximum(low - targets, 0.0) + np.maximum(targets - high, 0.0)
        return float(np.mean(high - low + 2 / (1 - coverage) * missed))


def moments(model: Any, rows: Array, cols: Array) -> tuple[Array, Array]:
    """Mean and variance of the prediction in the targets' units; no variance without a posterior."""
    linked = model.at(rows, cols)
    variances = np.zeros(rows.size) if model.posterior is None else model.posterior.variance_at(rows, cols)
    if model.link == "log":
        rates = np.minimum(response("log", linked), 1e150)
        return rates, rates**2 * np.minimum(variances, 1.0)
    return linked, variances


def refuse_signs(loss: Any, link: str) -> None:
    """Say that signs have no interval."""
    if takes_signs(loss) or link == "logit":
        raise SettingError(
            "Signs have no interval; `predict_entries` with decode='probability' says how sure they are."
        )


def check_coverage(coverage: Any) -> None:
    """Raise unless `coverage` is a share that intervals can have."""
    if not is_number(coverage) or not 0 < coverage < 1:
        raise SettingError(f"`coverage` must be above 0 and below 1, got {coverage!r}.")


def pair_of(lower: Any, upper: Any, rows: Array, cols: Array) -> Pair:
    """Widths from two models of the quantile loss; their usual distance is looked up at the given entries."""
    bounds = Bound.of(lower), Bound.of(upper)
    apart = 0.5 * float(np.median(np.abs(bounds[1].at(rows, cols) - bounds[0].at(rows, cols))))
    return Pair(*bounds, narrowest=max(NARROWEST * apart, 1e-100))


def ranks_kept(n: int) -> NDArray[np.int64]:
    """Ranks, from 1 to n, of the scores that are kept."""
    return np.arange(1, n + 1) if n <= KEPT else np.linspace(1, n, KEPT).round().astype(np.int64)


def to_arrays(calibration: Calibration) -> dict[str, Array]:
    """A calibration as named arrays, for the model's file."""
    arrays: dict[str, Array] = {"scores": calibration.scores, "n_entries": np.array(calibration.n_entries)}
    for field in fields(calibration.widths):
        part = getattr(calibration.widths, field.name)
        if isinstance(part, Bound):
            arrays |= {f"{field.name}_{name}": array for name, array in part._asdict().items()}
        else:
            arrays[field.name] = np.asarray(part)
    return arrays


def from_arrays(arrays: dict[str, Array], shape: tuple[int, int]) -> Calibration:
    """What `to_arrays` wrote; ValueError or KeyError if the parts do not fit together."""
    if not all(part.dtype.kind in "fi" and np.isfinite(part).all() for part in arrays.values()):
        raise ValueError("not finite")
    widths: Spread | Pair
    if "narrowest" in arrays:
        lower, upper = (Bound(*(arrays[f"{side}_{name}"] for name in Bound._fields)) for side in ("lower", "upper"))
        widths = Pair(lower, upper, float(arrays["narrowest"]))
        sound = widths.narrowest > 0 and all(_fits(bound, widths.shape) for bound in (widths.lower, widths.upper))
    else:
        widths = Spread(float(arrays["noise_variance"]), arrays["row_scales"], arrays["col_scales"])
        scales = widths.row_scales, widths.col_scales
        sound = widths.noise_variance > 0 and all(scale.ndim == 1 and np.all(scale > 0) for scale in scales)
    sound = sound and all(
        own <= size for own, size in zip(widths.shape, shape, strict=True)
    )  # rows may have come later
    found = Calibration(widths, arrays["scores"], int(arrays["n_entries"]))
    if not sound or found.scores.shape != (min(found.n_entries, KEPT),) or np.any(np.diff(found.scores) < 0):
        raise ValueError("parts do not fit")
    return found


def _fits(bound: Bound, shape: tuple[int, int]) -> bool:
    n = bound.theta.size
    return (
        bound.theta.shape == (n,)
        and (bound.U.shape, bound.V.shape) == ((shape[0], n), (shape[1], n))
        and (bound.rows.shape, bound.cols.shape) == ((shape[0],), (shape[1],))
    )
