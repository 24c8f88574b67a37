"""Prediction intervals by split conformal prediction: widths from a model, scaled to cover held-out entries."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import is_number
from .._errors import SettingError
from ..losses.base import takes_signs
from ..losses.links import response
from .factors import predict
from .odds import OddsCalibration

if TYPE_CHECKING:
    from .low_rank import LowRankModel

KEPT = 10_000  # scores that are stored; more would change a coverage by less than 1 in 10,000
NARROWEST = 0.1  # least half-width from two quantile fits, relative to the median one; they may meet or cross
SCALE_ROUNDS = 3  # alternations between row and column scales, whose products then have settled
MIN_SCALE = 0.05  # least scale of a row or column, relative to the mean


class Bound(NamedTuple):
    """One quantile of every entry: ``U diag(theta) V.T + rows[:, None] + cols``; `rows` includes the constant."""

    theta: Array
    U: Array
    V: Array
    rows: Array
    cols: Array

    @classmethod
    def of(cls, model: "LowRankModel") -> "Bound":
        """Predictions of a model that was fitted with the quantile loss."""
        theta = model.theta
        rows, cols = (np.zeros(size) for size in model.shape)
        if model.offsets is not None:
            rows, cols = model.offsets.constant + model.offsets.rows.astype(np.float64), model.offsets.cols
        return cls(theta, model.U[:, : theta.size], model.V[:, : theta.size], rows, cols.astype(np.float64))

    def at(self, rows: Array, cols: Array) -> NDArray[np.float64]:
        """Quantile at pairs of row and column numbers, shape (n,)."""
        return predict(self.theta, self.U, self.V, rows, cols) + self.rows[rows] + self.cols[cols]

    def transposed(self) -> "Bound":
        """Quantile of the transpose: rows and columns exchanged."""
        return Bound(self.theta, self.V, self.U, self.cols, self.rows)


@dataclass(frozen=True, eq=False)
class Spread:
    """Width of an interval from the model's variances, up to a common factor.

    ``row_scales[i] * col_scales[j] * sqrt(noise_variance + posterior variance)``; under the Poisson loss, the noise
    variance is `noise_variance` times the expected count.
    """

    noise_variance: float
    row_scales: Array  # (n_rows,)
    col_scales: Array  # (n_cols,)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.row_scales.size, self.col_scales.size

    def at(self, model: "LowRankModel", rows: Array, cols: Array) -> tuple[Array, Array]:
        """Centers and widths at pairs of row and column numbers, each of shape (n,), on the response scale."""
        center, variances = moments(model, rows, cols)
        unit = np.maximum(center, 1e-6) if model.link == "log" else 1.0
        width = np.sqrt(self.noise_variance * unit + variances)
        return center, width * self.row_scales[rows] * self.col_scales[cols]

    def transposed(self) -> "Spread":
        """Widths of the transpose: rows and columns exchanged."""
        return Spread(self.noise_variance, self.col_scales, self.row_scales)


@dataclass(frozen=True, eq=False)
class Pair:
    """Center and width of an interval from two quantile fits: their mean and half their distance."""

    lower: Bound
    upper: Bound
    narrowest: float  # least width, where the fits are close to each other or cross

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.lower.rows.size, self.lower.cols.size

    def at(self, model: "LowRankModel", rows: Array, cols: Array) -> tuple[Array, Array]:
        """Centers and widths at pairs of row and column numbers, each of shape (n,); `model` is not used."""
        low, high = self.lower.at(rows, cols), self.upper.at(rows, cols)
        return 0.5 * (low + high), np.maximum(0.5 * (high - low), self.narrowest)

    def transposed(self) -> "Pair":
        """Widths of the transpose: rows and columns exchanged."""
        return Pair(self.lower.transposed(), self.upper.transposed(), self.narrowest)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Widths, and the scores of held-out entries relative to them.

    Attributes
    ----------
    widths : Spread or Pair
    scores : ndarray of shape (min(n_entries, 10_000),)
        ``(target - center) / width`` of the held-out entries in rising order; of more, evenly spaced ranks.
    n_entries : int
        Number of held-out entries.
    """

    widths: Spread | Pair
    scores: Array
    n_entries: int

    @classmethod
    def on(
        cls, model: "LowRankModel", widths: Spread | Pair, rows: Array, cols: Array, targets: Array
    ) -> "Calibration":
        """Calibrate on entries that the model was not fitted to, at row and column numbers."""
        center, width = widths.at(model, rows, cols)
        scores = np.sort((targets - center) / width)
        return cls(widths, scores[ranks_kept(scores.size) - 1], scores.size)

    def transposed(self) -> "Calibration":
        """Calibration of the transposed model."""
        return replace(self, widths=self.widths.transposed())

    def ends(self, coverage: Any) -> tuple[float, float]:
        """Scores between which a new one falls with at least this probability; each end is missed equally often.

        With n scores, the ``floor((n + 1) (1 - coverage) / 2)``-th and the ``ceil((n + 1) (1 + coverage) / 2)``-th.
        """
        check_coverage(coverage)
        stored_ranks, n = ranks_kept(self.n_entries), self.n_entries
        tail = 0.5 * (n + 1) * (1 - coverage)
        low, high = int(np.floor(tail + 1e-9)), int(np.ceil(n + 1 - tail - 1e-9))
        if low < 1:
            need = int(np.ceil(2 / (1 - coverage) - 1e-9)) - 1
            raise SettingError(
                f"coverage={coverage:g} needs at least {need} calibration entries, there are {n}; calibrate with more."
            )
        places = np.searchsorted(stored_ranks, low, side="right") - 1, np.searchsorted(stored_ranks, high)
        return float(self.scores[places[0]]), float(self.scores[places[1]])

    def interval(self, model: "LowRankModel", rows: Array, cols: Array, coverage: Any) -> tuple[Array, Array]:
        """Low and high ends at pairs of row and column numbers, each of shape (n,), on the response scale."""
        low, high = self.ends(coverage)
        if self.widths.shape != model.shape:
            raise SettingError(
                f"The intervals were calibrated for {self.widths.shape} rows and columns, but the model has "
                f"{model.shape}; calibrate again."
            )
        center, width = self.widths.at(model, rows, cols)
        ends = center + low * width, center + high * width
        return (np.maximum(ends[0], 0.0), np.maximum(ends[1], 0.0)) if model.link == "log" else ends

    def interval_score(self, model: "LowRankModel", entries: tuple[Array, Array, Array], coverage: float) -> float:
        """Mean width plus ``2 / (1 - coverage)`` times the distance of targets outside; lower is better."""
        rows, cols, targets = entries
        low, high = self.interval(model, rows, cols, coverage)
        missed = np.maximum(low - targets, 0.0) + np.maximum(targets - high, 0.0)
        return float(np.mean(high - low + 2 / (1 - coverage) * missed))


def moments(model: "LowRankModel", rows: Array, cols: Array) -> tuple[Array, Array]:
    """Mean and posterior variance of predictions on the response scale, each of shape (n,); 0 without a posterior."""
    linked = model.at(rows, cols)
    variances = np.zeros(rows.size) if model.posterior is None else model.posterior.variance_at(rows, cols)
    if model.link == "log":
        rates = np.minimum(response("log", linked), 1e150)
        return rates, rates**2 * np.minimum(variances, 1.0)
    return linked, variances


def refuse_signs(loss: Any, link: str) -> None:
    """Raise SettingError if the targets are signs, which have no interval."""
    if link == "logit":
        raise SettingError(
            "Signs have no interval; `predict_entries` with decode='probability' says how sure they are."
        )
    if takes_signs(loss):
        raise SettingError('Signs have no interval, and this loss has no probabilities either; use loss="logistic".')


def check_coverage(coverage: Any) -> None:
    """Raise SettingError unless ``0 < coverage < 1``."""
    if not is_number(coverage) or not 0 < coverage < 1:
        raise SettingError(f"`coverage` must be above 0 and below 1, got {coverage!r}.")


def pair_of(lower: "LowRankModel", upper: "LowRankModel", rows: Array, cols: Array) -> Pair:
    """Widths from two models of the quantile loss; their median distance is computed at the given entries."""
    bounds = Bound.of(lower), Bound.of(upper)
    apart = 0.5 * float(np.median(np.abs(bounds[1].at(rows, cols) - bounds[0].at(rows, cols))))
    return Pair(*bounds, narrowest=max(NARROWEST * apart, 1e-100))


def spread_of(model: "LowRankModel", rows: Array, cols: Array, targets: Array, weights: Array | None = None) -> Spread:
    """Widths from a model's posterior variances and its residuals at the training entries; O(rank n_observed).

    A residual is divided by ``sqrt(1 - variance / noise)``, because the fit to its own entry made it smaller.
    """
    center, variances = moments(model, rows, cols)
    unit = np.maximum(center, 1e-6) if model.link == "log" else np.ones(targets.size)
    squares = (targets - center) ** 2
    noise = _noise_variance(squares / unit, variances / unit)
    left = np.maximum(noise * unit - variances, 0.1 * noise * unit)
    counts = np.ones(targets.size) if weights is None else weights.astype(np.float64)
    return Spread(noise, *residual_scales(np.sqrt(squares / left), (rows, cols), counts, model.shape))


def residual_scales(
    sizes: Array, numbers: tuple[Array, Array], counts: Array, shape: tuple[int, int]
) -> tuple[Array, Array]:
    """Scales of the noise of rows and columns from the sizes of residuals, shape (n_rows,) and (n_cols,).

    The scale of a row is the mean size of its residuals relative to the columns' scales, and vice versa, shrunk towards
    one as far as sampling explains the differences between rows.
    """
    (rows, cols), (row_scales, col_scales) = numbers, (np.ones(size) for size in shape)
    for _ in range(SCALE_ROUNDS):
        row_scales = _shrunk_means(sizes / col_scales[cols], rows, counts, shape[0])
        col_scales = _shrunk_means(sizes / row_scales[rows], cols, counts, shape[1])
    return row_scales, col_scales


def _noise_variance(squares: Array, variances: Array) -> float:
    """Noise variance from the median square, robust to outliers; from the mean if half of the residuals are zero."""
    if not squares.size:
        return 1.0
    residual = float(np.median(squares)) / 0.4549 or float(np.mean(squares))  # 0.4549: median of a squared normal
    return max(residual + float(np.mean(variances)), 1e-30)


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
    scales: NDArray[np.float64] = np.maximum(1 + trust * (means / overall - 1), MIN_SCALE)
    return scales


def ranks_kept(n: int) -> NDArray[np.int64]:
    """Ranks, from 1 to n, of the scores that are stored."""
    return np.arange(1, n + 1) if n <= KEPT else np.linspace(1, n, KEPT).round().astype(np.int64)


def to_arrays(calibration: Calibration | OddsCalibration) -> dict[str, Array]:
    """Arrays by name, for the model's file."""
    if isinstance(calibration, OddsCalibration):
        return calibration.to_arrays()
    arrays: dict[str, Array] = {"scores": calibration.scores, "n_entries": np.array(calibration.n_entries)}
    for field in fields(calibration.widths):
        part = getattr(calibration.widths, field.name)
        if isinstance(part, Bound):
            arrays |= {f"{field.name}_{name}": array for name, array in part._asdict().items()}
        else:
            arrays[field.name] = np.asarray(part)
    return arrays


def from_arrays(arrays: dict[str, Array], shape: tuple[int, int]) -> Calibration | OddsCalibration:
    """Calibration from the arrays of `to_arrays`; ValueError or KeyError if they are inconsistent."""
    if not all(part.dtype.kind in "fi" and np.isfinite(part).all() for part in arrays.values()):
        raise ValueError("not finite")
    if "slope" in arrays:
        return OddsCalibration.from_arrays(arrays)
    widths: Spread | Pair
    if "narrowest" in arrays:
        lower, upper = (Bound(*(arrays[f"{side}_{name}"] for name in Bound._fields)) for side in ("lower", "upper"))
        widths = Pair(lower, upper, float(arrays["narrowest"]))
        sound = widths.narrowest > 0 and all(_fits(bound, widths.shape) for bound in (widths.lower, widths.upper))
    else:
        widths = Spread(float(arrays["noise_variance"]), arrays["row_scales"], arrays["col_scales"])
        scales = widths.row_scales, widths.col_scales
        sound = widths.noise_variance > 0 and all(scale.ndim == 1 and np.all(scale > 0) for scale in scales)
    sound = sound and all(own <= size for own, size in zip(widths.shape, shape, strict=True))  # rows may be newer
    calibration = Calibration(widths, arrays["scores"], int(arrays["n_entries"]))
    scores = calibration.scores
    if not sound or scores.shape != (min(calibration.n_entries, KEPT),) or np.any(np.diff(scores) < 0):
        raise ValueError("inconsistent calibration")
    return calibration


def _fits(bound: Bound, shape: tuple[int, int]) -> bool:
    n = bound.theta.size
    return (
        bound.theta.shape == (n,)
        and (bound.U.shape, bound.V.shape) == ((shape[0], n), (shape[1], n))
        and (bound.rows.shape, bound.cols.shape) == ((shape[0],), (shape[1],))
    )
