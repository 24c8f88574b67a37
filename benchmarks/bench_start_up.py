"""How long do the import, the first fit in a new process, the help of the command, and loading text take?

New processes, medians of five, with cached kernels and byte code as in an installed package. Targets: `import rankwise`
at most 0.5 s beyond NumPy, SciPy and scikit-learn; a first fit on 100,000 observations under 1 s, including everything
that it loads, also Numba, but not these three; `rankwise --help` under 0.3 s; ten million lines in 6 s. Loading is from
lines to Observations, including the guess of the format and the numbering of the labels.

First fits with an empty kernel cache, see `bench_compile`: at most 6 s for the default, 2 s for EGLRL, 8 s for a mixed
table. A new environment, with the wheel of this tree: `rankwise demo` prints its table within 25 s of its start, and
compiles its kernels in that time. `cpu_s` are processor seconds, which other work on the machine changes less.
"""

import gzip
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from rankwise.datasets import read_movielens
from rankwise.io import read_file

from .bench_compile import BARS, cold
from .common import Row

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
OTHERS = "import numpy, scipy.sparse, scipy.optimize, sklearn.base"
CLOCKED = """
import time
{before}
start = time.perf_counter()
{code}
print(time.perf_counter() - start)
"""
IMPORT_OTHERS = CLOCKED.format(before="", code=OTHERS)
IMPORT = CLOCKED.format(before=OTHERS, code="import rankwise")
NUMBA = CLOCKED.format(
    before=OTHERS, code="from numba.core.registry import cpu_target; cpu_target.target_context.refresh()"
)
FIT = """
import time
import numpy as np
import scipy.optimize, scipy.sparse as sp, sklearn.base
import rankwise as rw
rng = np.random.default_rng(0)
cols = (20 * np.arange(100) + rng.integers(0, 20, (1000, 100))).ravel()
data = sp.csr_array((rng.standard_normal(cols.size), cols, np.arange(0, cols.size + 1, 100)), shape=(1000, 2000))
start = time.perf_counter()
rw.MatrixCompletion({given}).fit(data)
print(time.perf_counter() - start)
"""


def process(*args: str) -> tuple[float, str]:
    """Seconds of a command, and what it printed."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *args], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return time.perf_counter() - start, done.stdout


def printed(code: str) -> float:
    """The number that a program prints."""
    return float(process("-c", code)[1])


def first_fits(repeats: int = 5) -> Iterator[Row]:
    """Numba alone, the default and EGLRL in new processes, by turns."""
    fits = {"the default": "", "EGLRL, rank 10": "'square', 10, method='eglrl'"}
    codes = {f"first fit, 100,000 observations, {name}": FIT.format(given=given) for name, given in fits.items()}
    codes["Numba alone, loaded as for a first kernel"] = NUMBA
    times: dict[str, list[float]] = {what: [] for what in codes}
    for code in codes.values():
        printed(code)  # compiles, if nothing has
    for _ in range(repeats):
        for what, code in codes.items():
            times[what].append(printed(code))
    for what, found in times.items():
        yield {"what": what, "seconds": round(median(found), 3)} | ({} if "Numba" in what else {"bar": 1.0})


def imports(repeats: int = 5) -> Iterator[Row]:
    """What `import rankwise` adds, and the command line."""
    others, ours = (median(printed(code) for _ in range(repeats)) for code in (IMPORT_OTHERS, IMPORT))
    yield {"what": "NumPy, SciPy, scikit-learn", "seconds": round(others, 3)}
    yield {"what": "import rankwise, beside them", "seconds": round(ours, 3), "bar": 0.5}
    nothing, help_ = (
        median(process(*args)[0] for _ in range(repeats)) for args in (("-c", "pass"), ("-m", "rankwise", "--help"))
    )
    yield {"what": "Python alone", "seconds": round(nothing, 3)}
    yield {"what": "rankwise --help", "seconds": round(help_, 3), "bar": 0.3}


def cold_fits() -> Iterator[Row]:
    """First fits that compile all of their kernels."""
    for fit, bar in BARS.items():
        wall, cpu, _ = cold(fit)
        yield {
            "what": f"first fit, nothing compiled, {fit}",
            "seconds": round(wall, 2),
            "cpu_s": round(cpu, 2),
            "bar": bar,
        }


def new_environment() -> Iterator[Row]:
    """The wheel in an environment of its own, and the demo there."""
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder)
        pip, quiet = ("-I", "-m", "pip"), ("-q", "--disable-pip-version-check")  # -I: without PYTHONPATH
        wheel_options = "--no-deps", "--no-build-isolation", "-w", folder
        subprocess.run([sys.executable, *pip, "wheel", *quiet, *wheel_options, str(ROOT)], check=True)
        (wheel,) = room.glob("*.whl")
        venv.create(room / "env", with_pip=True)
        python = str(room / "env" / "bin" / "python")
        yield {"what": "pip install of the wheel and its dependencies"} | timed(
            python, *pip, "install", *quiet, str(wheel)
        )
        demo = timed(python, "-I", "-m", "rankwise", "demo", NUMBA_CACHE_DIR=str(room / "cache"))
        yield {"what": "rankwise demo in a new environment"} | demo | {"bar": 25.0}


def timed(*command: str, **environment: str) -> Row:
    """Clock and processor seconds of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT | environment)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 2), "cpu_s": round(cpu, 2)}


def lines(n: int) -> bytes:
    """`user::item::rating::time` lines of different pairs, in no order."""
    rng = np.random.default_rng(0)
    users, items = np.divmod(rng.permutation(n), 200)
    stars = rng.integers(1, 6, n)
    pieces = []
    for lo in range(0, n, 1_000_000):
        part = slice(lo, lo + 1_000_000)
        fields = zip(users[part].tolist(), (items[part] * 7 + 1).tolist(), stars[part].tolist(), strict=True)
        pieces.append("".join([f"{user}::{item}::{star}::978300760\n" for user, item, star in fields]).encode())
    return b"".join(pieces)


def loading(n: int) -> Iterator[Row]:
    """Text files to Observations."""
    text = lines(n)
    with tempfile.TemporaryDirectory() as folder:
        kinds: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
            "`::`": (text, read_file),
            "comma": (text.replace(b"::", b","), read_file),
            "tab": (text.replace(b"::", b"\t"), read_file),
            "`::` in gzip": (gzip.compress(text, 1), read_file),
            "`::`, as MovieLens": (text, read_movielens),
        }
        for name, (content, read) in kinds.items():
            path = Path(folder) / ("ratings.gz" if "gzip" in name else "ratings.txt")
            path.write_bytes(content)
            start = time.perf_counter()
            read(path)
            seconds = time.perf_counter() - start
            yield {"what": f"load {n:,} lines, {name}", "seconds": round(seconds, 2), "bar": 6.0}


def run(n: int = 10_000_000, repeats: int = 5) -> Iterator[Row]:
    """Everything a user waits for before a fit."""
    yield from imports(repeats)
    yield from first_fits(repeats)
    yield from cold_fits()
    yield from new_environment()
    list(loading(1_000))  # loads the kernels
    yield from loading(n)
