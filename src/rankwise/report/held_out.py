"""Held-out entries matched to a model, their residuals, and the calibration of probabilities."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._errors import DataError, SettingError
from ..losses.base import takes_signs
from ..losses.links import response
from ..model import LowRankModel
from ..model.decoding import respond
from ..model.pairwise import marginal_at
from ..observations import Observations, need_in_memory

MAX_FLOAT = float(np.finfo(np.float64).max)
VISIBLE_CHANGE = 2e-5  # share of a number that shows in its first six digits, even half of it next to MAX_FLOAT
RESIDUAL_UNITS = {"values": "units of the values", "counts": "counts", "signs": "log-odds of the positive class"}


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out entries at the row and column numbers of a model, n of them."""

    rows: Array  # (n,)
    cols: Array  # (n,)
    targets: NDArray[np.float64]  # (n,)
    n_unknown: int = 0  # entries that were left out because the model does not have their row or column
    n_seen: int | None = None  # entries that the model was fitted to; None if it does not store their positions


class Reliability(NamedTuple):
    """Calibration of the probabilities of +1: mean prediction, observed share and number of entries per bin."""

    predicted: Array
    observed: Array
    counts: Array


def kind_of(model: LowRankModel) -> str:
    """Kind of the targets: "clicks", "signs", "counts" or "values"."""
    if model.ranks_clicks:
        return "clicks"
    if model.link == "logit" or takes_signs(model.loss):
        return "signs"
    return "counts" if model.link == "log" else "values"


def match(model: LowRankModel, held_out: Any) -> HeldOut:
    """Entries whose row and column the model has, matched by label if there are labels, else by number.

    Labels that are text match numbers with that text. `held_out` is anything that `Observations.from_any` takes.
    """
    held_out = need_in_memory(Observations.from_any(held_out), "Scoring", "give a sample of them as `Observations`")
    rows = model.row_index.align(held_out.row_index, unknown="skip", cast=True)[held_out.rows]
    cols = model.col_index.align(held_out.col_index, unknown="skip", cast=True)[held_out.cols]
    known = (rows >= 0) & (cols >= 0)
    if not known.any():
        raise DataError(
            f"None of the {known.size} held-out entries has a row and a column of the model; "
            "give entries of the matrix it was learned from, with the rows and columns named as they were there."
        )
    rows, cols, targets = rows[known], cols[known], held_out.targets[known].astype(np.float64)
    if model.loss is not None:
        model.loss.check_targets(targets)
    n_seen = None if model.seen is None else int(model.seen.contains(rows, cols, model.shape[1]).sum())
    return HeldOut(rows, cols, targets, int((~known).sum()), n_seen)


def residuals_of(model: LowRankModel, held: HeldOut) -> Array:
    """Predicted minus observed on the response scale; for signs the margin, link-scale prediction times sign."""
    linked = marginal_at(model, held.rows, held.cols)
    if kind_of(model) == "signs":
        return np.where(held.targets > 0, linked, -linked)
    return response(model.link, linked) - held.targets


def edges_of(numbers: Array) -> NDArray[np.float64]:
    """Edges of a histogram's bins: 5 to 40 by Rice's rule, wide enough for six digits to tell the edges apart."""
    n_bins = int(np.clip(2 * numbers.size ** (1 / 3), 5, 40))
    low, high = float(numbers.min()), float(numbers.max())
    least = 1.0 if low == high else 1e-300
    lacking = max(least, n_bins * VISIBLE_CHANGE * max(-low, high)) - (high - low)
    if lacking > 0:
        low, high = max(low - lacking / 2, -MAX_FLOAT), min(high + lacking / 2, MAX_FLOAT)
    return np.histogram_bin_edges(np.array([low, high]), n_bins)


def residual_words(model: LowRankModel) -> str:
    """Axis label of `residuals_of`, with its unit."""
    if kind_of(model) == "signs":
        unit = ", log-odds" if model.link == "logit" else ""
        return f"margin: prediction × observed sign{unit}"
    return f"predicted − observed, {RESIDUAL_UNITS[kind_of(model)]}"


def reliability_of(model: LowRankModel, held: HeldOut) -> Reliability:
    """Observed share of +1 by predicted probability, in ten bins of equal width without the empty ones."""
    if model.link != "logit":
        raise SettingError("Only models of the logistic loss give probabilities, so only these have a calibration.")
    probabilities = respond(model, marginal_at(model, held.rows, held.cols), held.rows, held.cols, sure=False)
    bins = np.minimum((10 * probabilities).astype(int), 9)
    counts = np.bincount(bins, minlength=10)
    filled = counts > 0
    sums = (np.bincount(bins, weights, 10)[filled] for weights in (probabilities, held.targets > 0))
    predicted, observed = (total / counts[filled] for total in sums)
    return Reliability(predicted, observed, counts[filled])
