"""Predictions at pairs of labels: their positions, unknown rows and columns, and standard deviations."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Array
from .._checks import check_choice
from .._errors import DataError, SettingError

if TYPE_CHECKING:
    from .low_rank import LowRankModel

SCALES = ("response", "link")
UNKNOWN = ("error", "offset")


def check_scale(scale: Any) -> None:
    """Raise SettingError unless `scale` is "response" or "link"."""
    check_choice("scale", scale, SCALES)


def positions(
    model: "LowRankModel", rows: ArrayLike, cols: ArrayLike, unknown: str = "error"
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column numbers of pairs of labels, each of shape (n,).

    With ``unknown="offset"``, -1 stands for labels that are not known, and for rows and columns that have neither
    entries nor features.
    """
    check_choice("unknown", unknown, UNKNOWN)
    row_of, col_of = (
        index.find(labels) if unknown == "error" else index.positions(labels)
        for index, labels in ((model.row_index, rows), (model.col_index, cols))
    )
    if row_of.shape != col_of.shape:
        raise DataError(f"There are {row_of.size} rows but {col_of.size} columns; give one column for each row.")
    if unknown == "error" or model.marginals is None:
        return row_of, col_of
    seen, features = model.marginals.only_seen(row_of, col_of), model.features
    known = (False, False) if features is None else (features.rows is not None, features.cols is not None)
    return (row_of if known[0] else seen[0], col_of if known[1] else seen[1])


def at_known(model: "LowRankModel", rows: Array, cols: Array, rank: int | None) -> NDArray[np.float64]:
    """Predictions on the link scale, without factors where a row or column number is -1; shape (n,)."""
    known, offsets = (rows >= 0) & (cols >= 0), model.baseline or model.offsets
    predictions = np.zeros(rows.size)
    if model.marginals is not None:
        predictions = model.marginals.at(rows, cols)
    elif offsets is not None:
        left, right = (np.append(side.astype(np.float64), 0.0) for side in (offsets.rows, offsets.cols))
        predictions = offsets.constant + left[rows] + right[cols]
    predictions[known] = model.at(rows[known], cols[known], rank)
    return predictions


def marginal_at(model: "LowRankModel", rows: Array, cols: Array, rank: int | None = None) -> NDArray[np.float64]:
    """Predictions on the link scale at row and column numbers, shape (n,), by which commands and the report score.

    Where a number is -1, or the row or column has no training entry, the prediction is that of the other side.
    """
    if model.marginals is not None:
        rows, cols = model.marginals.only_seen(rows, cols)
    return at_known(model, rows, cols, rank)


def deviations(model: "LowRankModel", rows: Array, cols: Array, rank: int | None) -> NDArray[np.float64]:
    """Posterior standard deviations of the predictions on the link scale, shape (n,)."""
    if model.posterior is None:
        raise SettingError('`return_std=True` requires posterior variances, which only method="bayes" estimates.')
    if rank is not None and rank != model.rank:
        raise SettingError(
            f"`return_std=True` is available only at the full rank, {model.rank}, got rank={rank}; leave out `rank`."
        )
    refuse_new(rows, cols, "return_std")
    return np.sqrt(model.posterior.variance_at(rows, cols))


def refuse_new(rows: Array, cols: Array, option: str) -> None:
    """Raise SettingError if a row or column number is -1, for which `option` is not available."""
    if rows.size and min(rows.min(), cols.min()) < 0:
        raise SettingError(
            f"`{option}` is not available for rows or columns that were not seen during fit; remove them from the "
            f"request, or drop `{option}`."
        )
