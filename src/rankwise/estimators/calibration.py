"""Calibration of prediction intervals, with widths from variances or two quantile fits, and of probabilities."""

from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.base import clone

from .._checks import check_choice, is_number
from .._errors import DataError, RankwiseError, SettingError
from ..losses import Quantile
from ..model import LowRankModel
from ..model.decoding import variances_at
from ..model.intervals import Calibration, Pair, Spread, check_coverage, pair_of, refuse_signs, spread_of
from ..model.odds import OddsCalibration
from ..model.residuals import PlacedEntries, entries_of
from ..observations import AnyEntries, Observations, need_in_memory
from ..selection import split_entries

WIDTHS = ("auto", "variances", "quantiles")


def set_aside(entries: AnyEntries, share: float, seed: int) -> tuple[AnyEntries, Observations | None]:
    """Split `entries` into training entries and a share for calibration; None if the share is zero."""
    if not is_number(share) or not 0 <= share < 1:
        raise SettingError(f"`calibration` must be a number from 0 to below 1, got {share!r}.")
    if share == 0:
        return entries, None
    observations = need_in_memory(entries, "`calibration`", "pass held-out entries to `calibrate`")
    return split_entries(observations, float(share), seed)


def calibrate(
    estimator: Any,
    model: LowRankModel,
    held_out: Any,
    train: AnyEntries | None,
    coverage: float = 0.8,
    by: str = "auto",
) -> tuple[Calibration | OddsCalibration, dict[str, Any]]:
    """Return intervals, or probabilities of signs, calibrated on `held_out`, and facts about them for the model.

    Both kinds of widths are calibrated on all held-out entries and compared there by their interval score; choosing
    between two changes the coverage by much less than the number of entries does.
    """
    check_coverage(coverage)
    check_choice("by", by, WIDTHS)
    if model.ranks_clicks:
        raise SettingError("Scores of clicks rank columns and predict no counts, so there is nothing to calibrate.")
    if model.link == "logit":
        return _of_odds(model, entries_of(model, held_out))
    refuse_signs(model.loss, model.link)
    if train is not None and by == "quantiles":
        need_in_memory(train, 'by="quantiles"', 'use by="variances"')
    train = train if isinstance(train, Observations) else None
    if train is None and by == "quantiles":
        raise SettingError(
            'by="quantiles" needs the training entries, which are not part of a pickle or a file; call `fit` again.'
        )
    entries = entries_of(model, held_out)
    refuse_seen(model, entries)
    candidates: dict[str, Calibration] = {}
    if by != "quantiles":
        candidates["variances"] = Calibration.on(model, _spread(model, train), *entries[:3])
    if train is not None and (by == "quantiles" or (by == "auto" and model.features is None)):  # fits without features
        pair = _quantile_fits(estimator, train, coverage, entries, required=by == "quantiles")
        if pair is not None:
            candidates["quantiles"] = Calibration.on(model, pair, *entries[:3])
    scores = {name: each.interval_score(model, entries[:3], coverage) for name, each in candidates.items()}
    best = min(scores, key=lambda name: scores[name])
    n_entries = candidates[best].n_entries
    facts = {"by": best, "n_entries": n_entries, "coverage": float(coverage), "interval_scores": scores}
    return candidates[best], {"intervals": facts}


def _of_odds(model: LowRankModel, entries: PlacedEntries) -> tuple[OddsCalibration, dict[str, Any]]:
    """Return the map from log-odds to probabilities, and facts about it for the model."""
    refuse_seen(model, entries)
    model.loss.check_targets(entries.targets)  # type: ignore[union-attr]
    x, variances = model.at(*entries[:2]), variances_at(model, *entries[:2], sure=False)
    odds = OddsCalibration.on(x, variances, entries.targets > 0, entries.weights)
    return odds, {"probabilities": asdict(odds)}


def refuse_seen(model: LowRankModel, entries: PlacedEntries) -> None:
    """Raise `DataError` if the model was fitted to some of the entries: intervals would be too narrow."""
    if model.seen is None:
        return
    n = int(model.seen.contains(entries.rows, entries.cols, model.shape[1]).sum())
    if n:
        raise DataError(
            f"{n} of the {entries.rows.size} held-out entries were given to `fit`; calibrate on entries that were not."
        )


def _spread(model: LowRankModel, train: Observations | None) -> Spread:
    """Return noise scales of rows and columns from the training entries; equal ones if these are not available."""
    if train is not None:
        return spread_of(model, *entries_of(model, train))
    noise = (0.0 if model.targets is None else model.targets.noise_variance) or 1.0
    return Spread(noise, *(np.ones(size) for size in model.shape))


def _quantile_fits(
    estimator: Any, train: Observations, coverage: float, entries: PlacedEntries, required: bool
) -> Pair | None:
    """Fit two quantiles with the estimator's parameters; None if these do not allow the quantile loss."""
    fits = [
        clone(estimator).set_params(loss=Quantile(q), calibration=0.0, checkpoint=None)
        for q in (0.5 * (1 - coverage), 0.5 * (1 + coverage))
    ]
    try:
        lower, upper = (each.fit(train).model_ for each in fits)
    except RankwiseError:
        if required:
            raise
        return None
    return pair_of(lower, upper, entries.rows, entries.cols)
