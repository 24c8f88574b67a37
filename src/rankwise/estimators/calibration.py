"""Intervals of a fitted estimator: from its variances or from two quantile fits, whichever is sharper."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from .._checks import is_number
from .._errors import DataError, RankwiseError, SettingError
from ..losses import Quantile
from ..model import LowRankModel
from ..model.intervals import Calibration, Pair, Spread, check_coverage, pair_of, refuse_signs, spread_of
from ..model.residuals import PlacedEntries, entries_of
from ..observations import Observations
from ..observations.build import rows_of
from ..selection import split_entries
from ..solvers.validation import need_in_memory

WAYS = ("auto", "variances", "quantiles")


def set_aside(observations: Observations, share: Any, seed: int) -> tuple[Observations, Observations | None]:
    """Entries to learn from, and entries to calibrate on if any are asked for."""
    if not is_number(share) or not 0 <= share < 1:
        raise SettingError(f"`calibration` must be a share of the entries from 0 to below 1, got {share!r}.")
    return (
        split_entries(
            need_in_memory(observations, "`calibration`", "give held-out ones to `calibrate`"), float(share), seed
        )
        if share
        else (observations, None)
    )


def calibrated(estimator: Any, held_out: Any, train: Observations | None, coverage: Any, by: str) -> LowRankModel:
    """The estimator's model with intervals that hold on entries like the held-out ones.

    Both ways of getting widths are calibrated on all held-out entries and compared there by their interval score, a
    choice between two that moves a coverage by far less than the entries' number does.
    """
    model: LowRankModel = estimator.model_
    refuse_signs(model.loss, model.link)
    check_coverage(coverage)
    if by not in WAYS:
        raise SettingError(f"`by` must be one of {', '.join(map(repr, WAYS))}, got {by!r}.")
    if train is not None and by == "quantiles":
        need_in_memory(train, 'by="quantiles"', 'use by="variances"')
    train = train if isinstance(train, Observations) else None
    if train is None and by == "quantiles":
        raise SettingError("The quantile fits need the entries of `fit`, which a pickle does not keep; fit again.")
    entries = entries_of(model, held_out)
    refuse_seen(model, entries)
    found: dict[str, Calibration] = {}
    if by != "quantiles":
        found["variances"] = Calibration.on(model, _spread(model, train), *entries[:3])
    if by != "variances" and train is not None:
        pair = _pair(estimator, train, coverage, entries, needed=by == "quantiles")
        if pair is not None:
            found["quantiles"] = Calibration.on(model, pair, *entries[:3])
    scores = {name: each.interval_score(model, entries[:3], coverage) for name, each in found.items()}
    best = min(scores, key=lambda name: scores[name])
    about = {"by": best, "n_entries": found[best].n_entries, "coverage": float(coverage), "interval_scores": scores}
    return replace(model, calibration=found[best], facts=model.facts | {"intervals": about})


def refuse_seen(model: LowRankModel, entries: PlacedEntries) -> None:
    """Say so if some of the entries were learned from; intervals calibrated on them would be too narrow."""
    if model.seen is None:
        return
    keys = rows_of(model.seen.indptr) * model.shape[1] + model.seen.indices
    n = int(np.count_nonzero(np.isin(entries.rows * model.shape[1] + entries.cols, keys)))
    if n:
        raise DataError(
            f"{n} of the {entries.rows.size} held-out entries were given to `fit`; calibrate on entries that were not."
        )


def _spread(model: LowRankModel, train: Observations | None) -> Spread:
    """Scales of rows and columns from the training entries; equal ones if these are gone."""
    if train is not None:
        return spread_of(model, *entries_of(model, train))
    noise = (0.0 if model.targets is None else model.targets.noise_variance) or 1.0
    return Spread(noise, *(np.ones(size) for size in model.shape))


def _pair(estimator: Any, train: Any, coverage: Any, entries: PlacedEntries, needed: bool) -> Pair | None:
    """Two fits with the estimator's settings but the quantile loss; None if these do not go with that loss."""
    ends = (0.5 * (1 - coverage), 0.5 * (1 + coverage))
    whole = {"calibration": 0.0, "checkpoint": None, "checkpoint_every": None, "resume": False}
    whole = {name: value for name, value in whole.items() if name in estimator.get_params()}
    fits = [clone(estimator).set_params(loss=Quantile(q), **whole) for q in ends]
    try:
        for each in fits:
            each._learn(train)  # not `fit`, which takes pairs in some estimators
    except RankwiseError:
        if needed:
            raise
        return None
    return pair_of(fits[0].model_, fits[1].model_, entries.rows, entries.cols)
