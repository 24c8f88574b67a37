"""`rankwise predict`: values of pairs."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..model import load
from .files import ToldToRead, check_output, places, predicted, read, reading, refuse_unknown, shown, writing

BATCH = 1_000_000  # lines predicted and written at once


@dataclass(frozen=True, kw_only=True)
class Settings(ToldToRead):
    """What the command was told."""

    model: Path
    pairs: Path
    output: Path | None
    rank: int | None
    scale: str
    decode: str | None
    unknown: str
    force: bool


def run(settings: Settings) -> None:
    """Read a model and pairs, and write their predictions as CSV."""
    check_output(settings.output, settings.force)
    model = load(settings.model)
    model.coefficients(settings.rank)  # refuses a rank that the model does not have, before anything is written
    table = read(settings.pairs, reading(settings, pairs=True))
    rows, cols = places(table, model)
    if settings.unknown == "error":
        refuse_unknown(table, rows, cols, "Predict them by the offsets alone with --unknown offset.")
    how = {"rank": settings.rank, "scale": settings.scale, "decode": settings.decode}
    probe = np.flatnonzero((rows < 0) | (cols < 0))[:1]  # an unknown pair, if there is one
    predicted(model, rows[probe], cols[probe], **how)  # refuses what does not fit, before anything is written
    with writing(settings.output) as file:
        file.writerow(("row", "column", "prediction"))
        for start in range(0, table.size, BATCH):
            part = slice(start, start + BATCH)
            found = predicted(model, rows[part], cols[part], **how)
            labels = (side.names[side.codes[part]].tolist() for side in (table.rows, table.cols))
            file.writerows(zip(*labels, shown(found), strict=True))
