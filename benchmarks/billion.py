"""A billion entries from disk, once: `python -m benchmarks.billion FOLDER` (32 GB of disk on the way, 20 in the end).

20,000 columns, 100 entries in each row, square loss, EGLRL to rank 5, under a limit of memory, with a checkpoint after
each step: stop it and start it again, and it goes on. Writes what it took to results/billion.json.
"""

import json
import sys
import time
from pathlib import Path

import rankwise as rw
from rankwise.storage import write_shards

from .bench_disk import N_COLS, PER_ROW, THREADS, chunks
from .common import RESULTS, Meter, layered

SIZE = 1_000_000_000
LIMIT, RANK = "1 GB", 5


def main(folder: Path, size: int = SIZE) -> None:
    """Write the shards unless they are there, fit, say what it took."""
    noted = folder / "noted.json"
    shards = folder / "shards"
    if not shards.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with Meter() as meter:
            write_shards(chunks(size), shards, shape=(size // PER_ROW, N_COLS))
        noted.write_text(json.dumps({"write_s": round(meter.seconds), "write_peak_MB": round(meter.megabytes)}))
    rw.solve(rw.Problem(layered(10_000), "square", n_jobs=THREADS), "eglrl", rank=2)  # loads the kernels
    entries = rw.ShardFolder(shards, memory_limit=LIMIT)
    start = time.perf_counter()
    with Meter() as meter:
        problem = rw.Problem(entries, "square", n_jobs=THREADS)
        checked = time.perf_counter() - start
        options = {"checkpoint": rw.Checkpoint(folder / "checkpoints", resume=True)}
        result = rw.solve(problem, "eglrl", rank=RANK, callback=lambda record: print(record, flush=True), **options)
    row = json.loads(noted.read_text()) | {
        "n_observed": entries.n_observed,
        "rows": entries.shape[0],
        "disk_MB": round(sum(path.stat().st_size for path in entries.paths) / 1e6),
        "check_s": round(checked),
        "fit_s": round(result.history[-1].wall_seconds),
        "peak_MB": round(meter.megabytes),
        "values": [record.value for record in result.history],
    }
    (RESULTS / "billion.json").write_text(json.dumps(row, indent=1) + "\n")
    print(row)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
