"""What does a fit from disk cost in time and memory, compared with a fit in memory?

20,000 columns, 100 entries per row, square loss, EGLRL (30 power iterations), four steps on two threads; each fit in
its own process. `write`: seconds to write shards from chunks of entries. `peak_MB`: increase of the peak resident
memory by the fit, including mapped shards; the folder has a limit of 500 MB. Targets: 1e8 observations under 1 GB, and
at most twice the time in memory.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.storage import write_shards

from .common import Meter, Row, apart, layered

SIZES = (10_000_000, 100_000_000)
N_COLS, PER_ROW, THREADS = 20_000, 100, 2
LIMIT = "500 MB"


def chunks(n_observed: int, seed: int = 0) -> Iterator[tuple[Any, Any, Any]]:
    """Entries like those of `layered`, a million at a time; nothing of their number is held."""
    rng, n_rows, width = np.random.default_rng(seed), n_observed // PER_ROW, N_COLS // PER_ROW
    right = rng.standard_normal((N_COLS, 5)).astype(np.float32)
    first = np.arange(PER_ROW) * width
    for start in range(0, n_rows, 10_000):
        rows = np.arange(start, min(start + 10_000, n_rows))
        cols = first + rng.integers(0, width, (rows.size, PER_ROW))
        left = rng.standard_normal((rows.size, 5)).astype(np.float32)
        values = np.einsum("ik,ijk->ij", left, right[cols]) + rng.standard_normal(cols.shape, dtype=np.float32)
        yield np.repeat(rows, PER_ROW), cols.ravel(), values.ravel()


def written(n_observed: int, folder: Path) -> tuple[float, float]:
    """Seconds and MB that writing the shards takes."""
    with Meter() as meter:
        write_shards(chunks(n_observed), folder, shape=(n_observed // PER_ROW, N_COLS))
    return meter.seconds, meter.megabytes


def fitted(folder: Path, in_memory: bool, steps: int) -> tuple[float, float, float]:
    """Seconds of the fit, MB, and the value it ends with."""
    rw.solve(rw.Problem(layered(10_000), "square", n_jobs=THREADS), "eglrl", rank=2)  # loads the kernels
    entries: Any = rw.ShardFolder(folder, memory_limit=LIMIT)
    if in_memory:
        pieces = list(entries.pieces())
        starts = np.concatenate([[0], *(np.diff(piece.indptr.astype(np.int64)) for piece in pieces)]).cumsum()
        parts = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("indices", "targets"))
        entries = rw.Observations(starts.astype(np.uint64), *parts, entries.shape)
    with Meter() as meter:
        history = rw.solve(rw.Problem(entries, "square", n_jobs=THREADS), "eglrl", rank=steps).history
    return history[-1].wall_seconds, meter.megabytes, history[-1].value


def run(wanted: tuple[int, ...] = SIZES, steps: int = 4) -> Iterator[Row]:
    """Each size from disk, in memory, and their ratio."""
    for size in wanted:
        room = Path(tempfile.mkdtemp(dir=Path.cwd()))
        try:
            seconds, megabytes = apart(written, size, room / "shards")
            n_bytes = sum(path.stat().st_size for path in (room / "shards").iterdir())
            row: Row = {"kind": "write", "n_observed": size, "seconds": round(seconds, 1), "peak_MB": round(megabytes)}
            yield row | {"disk_MB": round(n_bytes / 1e6)}
            found = {}
            for where in ("disk", "memory"):
                found[where] = apart(fitted, room / "shards", where == "memory", steps)
                seconds, megabytes, value = found[where]
                yield {
                    "kind": f"fit, {where}",
                    "n_observed": size,
                    "seconds": round(seconds, 1),
                    "peak_MB": round(megabytes),
                    "value": value,
                }
            yield {
                "kind": "disk / memory",
                "n_observed": size,
                "ratio": round(found["disk"][0] / found["memory"][0], 2),
                "same_value": found["disk"][2] == found["memory"][2],
            }
        finally:
            shutil.rmtree(room)
