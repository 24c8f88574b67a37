"""How much memory does an economic fit take at ten million observations? Bar: 60 bytes each, plus the factors.

Peak resident memory during `fit` less resident memory before it, in a process of its own, compiled code loaded first.
"""

import json
import subprocess
import sys
from collections.abc import Iterator

from .common import Row

CHILD = """
import ctypes, json, sys
import numpy as np
import rankwise as rw
from benchmarks.common import scattered

def resident(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024

loss, kind, rank = sys.argv[1], sys.argv[2], 10
def estimator():
    return rw.MatrixCompletion(loss, rank=rank, refine="economic", n_jobs=2)
data = scattered(10_000_000, (100_000, 20_000))
if loss == "logistic":
    data = rw.Observations(data.indptr, data.indices, np.sign(data.targets), data.shape)
small = scattered(10_000, (500, 400))
small = rw.Observations(small.indptr, small.indices, np.sign(small.targets), small.shape)
estimator().fit(small.to_sparse() if kind == "scipy csr" else small)
given = data.to_sparse() if kind == "scipy csr" else data
n_observed, shape = data.n_observed, data.shape
del data
ctypes.CDLL(None).malloc_trim(0)  # what making the data left behind must not hide what the fit takes
open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
before = resident("VmRSS")
fitted = estimator().fit(given)
extra = resident("VmHWM") - before
factors = 4 * rank * sum(shape)
print(json.dumps({"loss": loss, "input": kind, "n_observed": n_observed, "extra_MB": round(extra / 1e6),
    "factors_MB": round(factors / 1e6), "bytes_per_observation": round((extra - factors) / n_observed, 1)}))
"""


def run() -> Iterator[Row]:
    """Bytes per observation for two losses and two kinds of input."""
    for loss in ("square", "logistic"):
        for kind in ("Observations", "scipy csr"):
            done = subprocess.run([sys.executable, "-c", CHILD, loss, kind], capture_output=True, text=True, check=True)
            yield json.loads(done.stdout)
