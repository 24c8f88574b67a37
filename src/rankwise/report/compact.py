"""A model in few bytes for the HTML report: 16-bit factors of as many rows and columns as fit."""

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..model import LowRankModel
from ..model.ranking import check_risk, ranked_columns
from ..observations.build import rows_of

BUDGET = 3_000_000  # bytes, before base64 adds a third to the numbers
COLUMN_SHARE = 0.4  # of the budget, at most, goes to columns
MOST_COLUMNS = 1 << 16  # so that a column's place takes two bytes
LISTED = 10  # columns that are recommended to a row


def embed(model: LowRankModel, row_names: list[str], col_names: list[str], budget: int = BUDGET) -> dict[str, Any]:
    """Factors, offsets, coefficients of every rank and positions of the training entries, as `recommend.js` reads them.

    If recommendations need standard deviations or neighbours, which are not embedded, the best columns of each row are
    listed with their predictions.

    If not all rows and columns fit into `budget` bytes, those with the most training entries are kept. The rounding
    error of a factor is at most 1/65534 of the largest in its component.
    """
    row_counts, col_counts = seen_counts(model)
    width = 2 * model.longest + 4
    col_sizes = _sizes(col_names, width)
    cols = _fitting(col_counts, col_sizes, int(COLUMN_SHARE * budget))[:MOST_COLUMNS]
    left = budget - int(col_sizes[cols].sum())
    risk = 0.0 if model.posterior is None else check_risk("auto", model.link)
    listed = risk > 0 or model.neighbours is not None
    width += 8 * LISTED if listed else 0
    rows = np.sort(_fitting(row_counts, _sizes(row_names, width) + 4 + 2 * row_counts, left))
    cols = np.sort(cols)
    offsets = model.offsets
    return {
        "rows": [row_names[k] for k in rows],
        "cols": [col_names[k] for k in cols],
        "n_rows": model.shape[0],
        "n_cols": model.shape[1],
        "rank": model.rank,
        "longest": model.longest,
        "U": _quantised(model.U[rows]),
        "V": _quantised(model.V[cols]),
        "path": packed(model.path, "<f4"),
        "constant": 0.0 if offsets is None else float(offsets.constant),
        "row_offsets": packed(np.zeros(rows.size) if offsets is None else offsets.rows[rows], "<f4"),
        "col_offsets": packed(np.zeros(cols.size) if offsets is None else offsets.cols[cols], "<f4"),
        "seen": _seen(model, rows, cols),
        "risk": risk,
        "best": _best(model, rows, cols) if listed else None,
    }


def as_script(contents: object) -> str:
    """JSON that is safe inside a script element: ASCII, without the characters <, > and &."""
    text = json.dumps(contents, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def packed(array: Array, kind: str) -> str:
    """Numbers of an array in row order, converted to the dtype `kind`, as base64 text."""
    return base64.b64encode(np.ascontiguousarray(array, kind).tobytes()).decode()


def seen_counts(model: LowRankModel) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number of training entries of every row and of every column; zeros if their positions are not stored."""
    if model.seen is None:
        return np.zeros(model.shape[0], np.int64), np.zeros(model.shape[1], np.int64)
    starts = model.seen.indptr.astype(np.int64)
    return starts[1:] - starts[:-1], np.bincount(model.seen.indices, minlength=model.shape[1])


def _sizes(names: list[str], width: int) -> NDArray[np.int64]:
    """Bytes on the page of each name, with its comma, and its numbers."""
    return width + np.array([len(as_script(name)) + 1 for name in names], np.int64)


def _fitting(counts: Array, sizes: Array, budget: int) -> Array:
    """Rows (columns) with the most entries, as many as fit into the budget; at least one."""
    order = np.argsort(-counts, kind="stable")
    return order[: max(1, int(np.searchsorted(np.cumsum(sizes[order]), budget, side="right")))]


def _quantised(factor: Array) -> dict[str, Any]:
    """Factor as 16-bit integers, and the step of each component."""
    steps = np.max(np.abs(factor.astype(np.float64)), axis=0, initial=0.0) / 32767
    steps[steps == 0] = 1.0
    return {"steps": steps.tolist(), "numbers": packed(np.rint(factor / steps), "<i2")}


def _seen(model: LowRankModel, rows: Array, cols: Array) -> dict[str, str] | None:
    """Number of training entries of each row among the embedded columns, and their places, concatenated."""
    if model.seen is None:
        return None
    places = np.full(model.shape[1], -1)
    places[cols] = np.arange(cols.size)
    seen = model.seen.take_rows(rows)
    per_entry = places[seen.indices]
    counts = np.bincount(rows_of(seen.indptr)[per_entry >= 0], minlength=rows.size)
    return {"counts": packed(counts, "<u4"), "places": packed(per_entry[per_entry >= 0], "<u2")}


def _best(model: LowRankModel, rows: Array, cols: Array) -> dict[str, str]:
    """Places among the embedded columns of those that `model.recommend` lists for each row, -1 where it has fewer.

    Their predictions on the link scale are in the same order.
    """
    best = ranked_columns(model, rows, LISTED, exclude_seen=model.seen is not None, candidates=cols).columns
    predictions = model.at(np.repeat(rows, LISTED), np.maximum(best, 0).ravel())
    places = np.where(best < 0, -1, np.searchsorted(cols, best))
    return {"places": packed(places, "<i4"), "predictions": packed(predictions, "<f4")}
