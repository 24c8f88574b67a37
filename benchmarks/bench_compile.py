"""What does a first fit compile, and for how long?

New processes with an empty kernel cache; processor seconds, which a busy machine changes less than the clock. Each
function counts without those that it calls. Bars for the clock on two quiet cores: the default 6 s, EGLRL 2 s, a mixed
table 8 s. `before` are the seconds of the commit before inlined functions were optimized once, by the same program.
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


def cold(fit: str) -> tuple[float, float, dict[str, tuple[int, float]]]:
    """Clock and processor seconds of a first fit, and the variants and seconds of each compiled function."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        done = subprocess.run(
            [sys.executable, "-c", FIT, fit], capture_output=True, text=True, check=True, env=environment
        )
    wall, cpu, found = json.loads(done.stdout)
    return wall, cpu, found


def run(repeats: int = 3, least: float = 0.03) -> Iterator[Row]:
    """The quickest of some first fits of each kind, and its functions that take at least `least` seconds."""
    for fit, bar in BARS.items():
        wall, cpu, found = min((cold(fit) for _ in range(repeats)), key=lambda one: one[1])
        compiling = sum(seconds for _, seconds in found.values())
        yield {
            "fit": fit,
            "wall_s": round(wall, 2),
            "cpu_s": round(cpu, 2),
            "compiling_cpu_s": round(compiling, 2),
            "functions": len(found),
            "bar": bar,
        }
        for name, (variants, seconds) in sorted(found.items(), key=lambda item: -item[1][1]):
            if seconds >= least:
                yield {"fit": fit, "function": name, "variants": variants, "cpu_s": round(seconds, 3)}
