"""Held-out entries beside a model's predictions: which it knows, and how far off they are."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._errors import DataError, SettingError
from ..losses.base import takes_signs
from ..losses.links import response
from ..model import LowRankModel
from ..observations import Observations
from ..observations.build import rows_of
from ..observations.labels import lookup
from ..solvers.validation import need_in_memory

Array = NDArray[Any]
MOST = float(np.finfo(np.float64).max)
APART = 2e-5  # share of a number that shows in its first six digits, even half of it next to MOST
UNITS = {"values": "units of the values", "counts": "counts", "signs": "log-odds of +1"}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Entries that a model can predict.

    Attributes
    ----------
    rows, cols : ndarray of int, shape (n,)
        The model's own numbers.
    targets : ndarray of float64, shape (n,)
    n_unknown : int
        Entries left out, because the model knows no such row or column.
    n_seen : int or None
        Entries that the model was learned from; None if it does not say which these were.
    """

    rows: Array
    cols: Array
    targets: NDArray[np.float64]
    n_unknown: int = 0
    n_seen: int | None = None


class Reliability(NamedTuple):
    """Probabilities of +1 in ten bins: the mean predicted, the share that came true, the number of entries."""

    predicted: Array
    observed: Array
    counts: Array


def kind_of(model: LowRankModel) -> str:
    """What the targets are: "signs", "counts" or "values"."""
    if model.link == "logit" or takes_signs(model.loss):
        return "signs"
    return "counts" if model.link == "log" else "values"


def match(model: LowRankModel, held_out: Any) -> HeldOut:
    """The entries whose row and column the model knows, by label if there are labels, else by number.

    `held_out` is anything that `Observations.from_any` takes, in memory.
    """
    held_out = need_in_memory(Observations.from_any(held_out), "Scoring", "give a sample of them as `Observations`")
    sizes = tuple(zip(model.shape, held_out.shape, strict=True))
    rows = _known(model.row_labels, held_out.row_labels, sizes[0], "row")[held_out.rows]
    cols = _known(model.col_labels, held_out.col_labels, sizes[1], "column")[held_out.cols]
    known = (rows >= 0) & (cols >= 0)
    if not known.any():
        raise DataError(
            f"None of the {known.size} held-out entries has a row and a column that the model knows; "
            "give entries of the matrix it was learned from, with the rows and columns named as they were there."
        )
    rows, cols, targets = rows[known], cols[known], held_out.targets[known].astype(np.float64)
    if model.loss is not None:
        model.loss.check_targets(targets)
    return HeldOut(rows, cols, targets, int((~known).sum()), _count_seen(model, rows, cols))


def residuals_of(model: LowRankModel, held: HeldOut) -> Array:
    """Predicted less observed, on the targets' scale; for signs the margin, prediction times sign."""
    linked = model.at(held.rows, held.cols)
    return linked * held.targets if kind_of(model) == "signs" else response(model.link, linked) - held.targets


def edges_of(numbers: Array) -> NDArray[np.float64]:
    """Edges of a histogram's bins: 5 to 40 by Rice's rule, wide enough for six digits to tell the edges apart."""
    n_bins = int(np.clip(2 * numbers.size ** (1 / 3), 5, 40))
    low, high = float(numbers.min()), float(numbers.max())
    least = 1.0 if low == high else 1e-300
    lacking = max(least, n_bins * APART * max(-low, high)) - (high - low)
    if lacking > 0:
        low, high = max(low - lacking / 2, -MOST), min(high + lacking / 2, MOST)
    return np.histogram_bin_edges(np.array([low, high]), n_bins)


def residual_words(model: LowRankModel) -> str:
    """What `residuals_of` gives, with its units."""
    if kind_of(model) == "signs":
        unit = ", log-odds" if model.link == "logit" else ""
        return f"margin: prediction × observed sign{unit}"
    return f"predicted − observed, {UNITS[kind_of(model)]}"


def reliability_of(model: LowRankModel, held: HeldOut) -> Reliability:
    """How often +1 came true where it was given a chance; ten bins of equal width, empty ones left out."""
    if model.link != "logit":
        raise SettingError("Only models of the logistic loss give probabilities, so only these have a calibration.")
    chances = response(model.link, model.at(held.rows, held.cols))
    bins = np.minimum((10 * chances).astype(int), 9)
    counts = np.bincount(bins, minlength=10)
    there = counts > 0
    sums = (np.bincount(bins, weights, 10)[there] for weights in (chances, held.targets > 0))
    predicted, observed = (total / counts[there] for total in sums)
    return Reliability(predicted, observed, counts[there])


def _known(own: Array | None, given: Array | None, sizes: tuple[int, int], which: str) -> NDArray[np.int64]:
    """The model's number of each given row or column; -1 where it has none of that name."""
    names, wanted = (np.arange(n) if side is None else side for side, n in zip((own, given), sizes, strict=True))
    if (names.dtype.kind in "iuf") != (wanted.dtype.kind in "iuf"):  # one file had a word among its numbers
        names, wanted = names.astype(str), wanted.astype(str)
    return lookup(wanted, names, names.size, which)


def _count_seen(model: LowRankModel, rows: Array, cols: Array) -> int | None:
    if model.seen is None:
        return None
    keys = rows_of(model.seen.indptr) * model.shape[1] + model.seen.indices
    wanted = rows * model.shape[1] + cols
    place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return int(np.count_nonzero(keys[place] == wanted))
