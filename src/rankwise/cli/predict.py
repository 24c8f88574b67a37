"""``rankwise predict``: predictions for pairs of rows and columns."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .._arrays import Array
from .._errors import SettingError
from ..io import Reading
from ..model import LowRankModel, load
from .files import (
    check_known,
    check_output,
    csv_numbers,
    csv_writer,
    entry_positions,
    predictions_at,
    read,
)
from .formatting import plural
from .terminal import echo

PREDICTED_PAIRS = 1_000_000  # pairs predicted and written at once


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Reading):
    """Arguments of the command, those of the reader among them."""

    pairs: bool = True
    model: Path
    file: Path  # of pairs
    output: Path | None
    rank: int | None
    scale: str
    decode: str | None
    unknown: str
    coverage: float | None
    force: bool


def run(options: PredictOptions) -> None:
    """Read a model and pairs, and write the predictions as CSV."""
    check_output(options.output, options.force, options.model, options.file)
    if options.coverage is not None and (options.rank, options.decode, options.scale) != (None, None, "response"):
        raise SettingError(
            "--coverage requires the model's own rank and the response scale; leave out --rank, --scale and --decode."
        )
    model = load(options.model)
    model.coefficients(options.rank)  # raises for a rank that the model does not have, before anything is written
    table = read(options.file, options)
    rows, cols = entry_positions(table, model)
    if options.unknown == "error":
        check_known(table, rows, cols, "Predict them from the means of known rows and columns with --unknown offset.")
    unknown = np.flatnonzero((rows < 0) | (cols < 0))
    if options.coverage is not None and unknown.size:
        echo(f"{plural(unknown.size, 'pair')} of unknown rows or columns: predicted without intervals.", err=True)
    _predicted(
        model, rows[unknown[:1]], cols[unknown[:1]], options
    )  # raises for unsupported options before anything is written
    with csv_writer(options.output) as file:
        file.writerow(("row", "column", "prediction", *(("low", "high") if options.coverage is not None else ())))
        for start in range(0, table.size, PREDICTED_PAIRS):
            part = slice(start, start + PREDICTED_PAIRS)
            numbers = _predicted(model, rows[part], cols[part], options)
            labels = (side.names[side.codes[part]].tolist() for side in (table.rows, table.cols))
            file.writerows(zip(*labels, *map(csv_numbers, numbers), strict=True))


def _predicted(model: LowRankModel, rows: Array, cols: Array, options: PredictOptions) -> list[Array]:
    """Return predictions at row and column numbers, and the ends of their intervals; NaN ends where one is -1."""
    how = {"scale": options.scale} if options.decode is None else {"scale": "link", "decode": options.decode}
    predictions = predictions_at(model, rows, cols, options.unknown, rank=options.rank, **how)
    if options.coverage is None:
        return [predictions]
    known = (rows >= 0) & (cols >= 0)
    numbered = replace(model, row_labels=None, col_labels=None)
    intervals = np.full((2, rows.size), np.nan)
    intervals[:, known] = numbered.predict_interval(rows[known], cols[known], coverage=options.coverage)
    return [predictions, *intervals]
