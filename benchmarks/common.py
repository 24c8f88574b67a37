"""What the benchmarks share: data, the clock, tables."""

import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.observations import Observations

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]


def scattered(n_observed: int, shape: tuple[int, int], seed: int = 0) -> Observations:
    """Random entries of a rank-5 matrix plus noise, columns of uneven popularity."""
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, shape[0] * shape[1], int(n_observed * 1.02), dtype=np.int64)
    rows, cols = np.divmod(np.unique(cells), shape[1])
    cols = (cols.astype(float) ** 2 / shape[1]).astype(np.int64)  # low columns come more often
    keep = np.r_[True, (np.diff(rows) != 0) | (np.diff(cols) != 0)]
    rows, cols = rows[keep], cols[keep]
    left, right = rng.standard_normal((shape[0], 5)), rng.standard_normal((shape[1], 5))
    values = np.zeros(rows.size, np.float32)
    for k in range(5):
        values += (left[rows, k] * right[cols, k]).astype(np.float32)
    values += rng.standard_normal(rows.size).astype(np.float32)
    return Observations.from_coo(rows, cols, values, shape)


def signed_split(name: str, seed: int = 0) -> tuple[Observations, Observations]:
    """A signed network after the paper's filter, one tenth held out."""
    return rw.selection.split_entries(rw.datasets.load(name), held_out=0.1, random_state=seed)


def machine() -> Row:
    """What ran the benchmark, without naming the host."""
    import numba
    import scipy

    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "numba": numba.__version__}
    cpu = platform.processor() or platform.machine()
    return {"cpu": cpu, "cores": os.cpu_count(), "python": platform.python_version(), **versions}


def table(rows: list[Row]) -> str:
    """Rows as a Markdown table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(row.get(name, "")) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def store(name: str, question: str, rows: Iterable[Row]) -> list[Row]:
    """Write the rows beside the question they answer, each as it comes; return them."""
    found: list[Row] = []
    RESULTS.mkdir(exist_ok=True)
    for row in rows:
        found.append(row)
        content = {"question": question, "machine": machine(), "rows": found}
        (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
    return found
