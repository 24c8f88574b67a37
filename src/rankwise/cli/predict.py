"""``rankwise predict``: predictions for pairs of rows and columns."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..model import load
from .files import (
    ReadOptions,
    check_known,
    check_output,
    csv_numbers,
    csv_writer,
    entry_positions,
    predictions_at,
    read,
)

PREDICTED_PAIRS = 1_000_000  # pairs predicted and written at once


@dataclass(frozen=True, kw_only=True)
class PredictOptions(ReadOptions):
    """Arguments of the command."""

    model: Path
    pairs: Path
    output: Path | None
    rank: int | None
    scale: str
    decode: str | None
    unknown: str
    force: bool


def run(options: PredictOptions) -> None:
    """Read a model and pairs, and write the predictions as CSV."""
    check_output(options.output, options.force, options.model, options.pairs)
    model = load(options.model)
    model.coefficients(options.rank)  # raises for a rank that the model does not have, before anything is written
    table = read(options.pairs, options.reading(pairs=True))
    rows, cols = entry_positions(table, model)
    if options.unknown == "error":
        check_known(table, rows, cols, "Predict them from the offsets alone with --unknown offset.")
    how: dict[str, Any] = {"rank": options.rank}
    how |= {"scale": options.scale} if options.decode is None else {"scale": "link", "decode": options.decode}
    probe = np.flatnonzero((rows < 0) | (cols < 0))[:1]
    predictions_at(model, rows[probe], cols[probe], **how)  # raises for unsupported options before anything is written
    with csv_writer(options.output) as file:
        file.writerow(("row", "column", "prediction"))
        for start in range(0, table.size, PREDICTED_PAIRS):
            part = slice(start, start + PREDICTED_PAIRS)
            predictions = predictions_at(model, rows[part], cols[part], **how)
            labels = (side.names[side.codes[part]].tolist() for side in (table.rows, table.cols))
            file.writerows(zip(*labels, csv_numbers(predictions), strict=True))
