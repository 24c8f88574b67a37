"""What does a first fit compile, and for how long?

New processes with an empty kernel cache; processor seconds, which a busy machine changes less than the clock; the
quickest of some. Each function counts without those that it calls. Bars for the clock on two quiet cores: the default
6 s, EGLRL 2 s, a mixed table 8 s. With RANKWISE_BEFORE set to the `src` of another checkout, the same fits of that one
are the columns `before`.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from .common import Row

BARS = {"default": 6.0, "eglrl": 2.0, "mixed": 8.0}
FIT = """
import json, sys, time
import numpy as np, pandas as pd, scipy.optimize, scipy.sparse as sp, sklearn.base
from numba.core import event
import rankwise as rw

class Seconds(event.Listener):
    def __init__(self):
        self.open, self.found = [], {}
    def on_start(self, started):
        self.open.append([time.process_time(), 0.0])
    def on_end(self, ended):
        begin, inner = self.open.pop()
        seconds = time.process_time() - begin
        if self.open:
            self.open[-1][1] += seconds
        function = ended.data["dispatcher"].py_func
        name = f"{function.__module__ or 'generated'}.{function.__qualname__}"
        n, total = self.found.get(name, (0, 0.0))
        self.found[name] = n + 1, total + seconds - inner

def rows():
    cols = (20 * np.arange(100) + rng.integers(0, 20, (1000, 100))).ravel()
    return sp.csr_array((rng.standard_normal(cols.size), cols, np.arange(0, cols.size + 1, 100)), shape=(1000, 2000))

def table():
    z = rng.standard_normal(300)
    levels = pd.Categorical.from_codes(np.digitize(z, [-1, 0, 1]), list("abcd"), ordered=True)
    columns = {"number": z + rng.standard_normal(300), "word": np.where(z > 0, "yes", "no"), "level": levels}
    columns |= {"count": rng.poisson(np.exp(0.3 * z)), "noise": 3 * rng.standard_normal(300)}
    return pd.DataFrame(columns).mask(rng.random((300, 5)) < 0.2)

FITS = {
    "default": lambda: rw.MatrixCompletion().fit(rows()),
    "eglrl": lambda: rw.MatrixCompletion("square", 10, method="eglrl").fit(rows()),
    "mixed": lambda: rw.LowRankImputer().fit(table()),
}
rng, listener = np.random.default_rng(0), Seconds()
event.register("numba:compile", listener)
clock, processor = time.perf_counter(), time.process_time()
FITS[sys.argv[1]]()
print(json.dumps([time.perf_counter() - clock, time.process_time() - processor, listener.found]))
"""


Found = tuple[float, float, dict[str, tuple[int, float]]]


def cold(fit: str, source: str | None = None) -> Found:
    """Clock and processor seconds of a first fit, and the variants and seconds of each compiled function."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder} | ({"PYTHONPATH": source} if source else {})
        command = [sys.executable, "-c", FIT, fit]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    wall, cpu, found = json.loads(done.stdout)
    return wall, cpu, found


def rows(fit: str, found: Found, before: Found | None, least: float = 0.03) -> Iterator[Row]:
    """A first fit, and its functions that take, or took, at least `least` seconds."""
    (wall, cpu, functions), earlier = found, before[2] if before else {}
    total = {"wall_s": wall, "cpu_s": cpu, "compiling_s": sum(seconds for _, seconds in functions.values())}
    times = {name: round(seconds, 2) for name, seconds in total.items()}
    yield {"fit": fit} | times | ({"before_cpu_s": round(before[1], 2)} if before else {}) | {"bar": BARS[fit]}
    for name in sorted({*functions, *earlier}, key=lambda name: -functions.get(name, (0, 0.0))[1]):
        variants, seconds = functions.get(name, (0, 0.0))
        old = earlier.get(name, (0, 0.0))[1]
        if max(seconds, old) >= least:
            row = {"fit": fit, "function": name, "variants": variants, "cpu_s": round(seconds, 3)}
            yield row | ({"before_cpu_s": round(old, 3)} if before else {})


def run(repeats: int = 3) -> Iterator[Row]:
    """First fits of each kind."""
    source = os.environ.get("RANKWISE_BEFORE")
    for fit in BARS:
        found = min((cold(fit) for _ in range(repeats)), key=lambda one: one[1])
        before = min((cold(fit, source) for _ in range(repeats)), key=lambda one: one[1]) if source else None
        yield from rows(fit, found, before)
