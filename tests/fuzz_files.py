"""Throws damaged files at the readers of models, shards, checkpoints and kernels: ``python fuzz_files.py MINUTES``.

pytest does not collect this file. With atheris installed, inputs are led by the branches that they reach; without it
they are drawn at random. An input is a recipe: which sound file to take, what to change in it, and whether to put its
checksums right again, so that what lies behind them is reached too. A reader has to answer or to raise a
`RankwiseError`; anything else, more memory than `MEMORY`, or more time than `SECONDS` is a finding. Findings are
printed, and their recipes kept in the folder `fuzz-findings`: ``python tests/fuzz_files.py FILE`` reads one again.
"""

import importlib.util
import io
import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from numba.core.decorators import njit  # compiles also where `plain_kernels` has replaced `numba.njit`
from rich.console import Console

if __name__ == "__main__":
    import plain_kernels  # noqa: F401  an index out of its range is then an error, and no memory of someone else

MEMORY = 400_000  # kilobytes more than before
SECONDS = 20.0  # of the processor, for one file
READERS = ("rankwise.model", "rankwise.storage", "rankwise.solvers", "rankwise.objectives", "rankwise.losses")
atheris: Any = None
if __name__ == "__main__" and importlib.util.find_spec("atheris") is not None:
    import atheris

    with atheris.instrument_imports(include=list(READERS)):
        import rankwise as rw
        from rankwise.model import files
        from rankwise.solvers import checkpoint
        from rankwise.storage import archive, shard_files
else:
    import rankwise as rw
    from rankwise.model import files
    from rankwise.solvers import checkpoint
    from rankwise.storage import archive, shard_files

from rankwise.cli import info  # noqa: E402  after `plain_kernels`
from rankwise.kernels import cache  # noqa: E402
from rankwise.kernels.jit import OPTIONS  # noqa: E402
from rankwise.report.contents import contents_of  # noqa: E402

KERNELS = 300  # kernels that are loaded or compiled at most, since Numba never releases their code
ODD: list[Any] = [None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**31, 2**32, 2**63, 2**64, 10**400, -(10**400)]
ODD += [
    0.0,
    -0.0,
    0.5,
    -1.5,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "x",
    "\x00",
    "é" * 9,
    "Square",
]
ODD += [[], {}, [[]], [0], [None], {"": 0}, {"class": "Kept"}, {"array": "array0"}, {"same": 0}, {"outside": "engine"}]
ODD += ["loss", "identity", "logit", "float64", [1, 2, 3], [1.5] * 8, "<f4", "<f8", "|O"]


class Recipe:
    """Choices, read from bytes; zeros when they are used up."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bytes(self, n: int) -> bytes:
        """The next `n` bytes."""
        self.at += n
        return self.data[self.at - n : self.at].ljust(n, b"\x00")

    def below(self, n: int) -> int:
        """A number below `n`."""
        return int.from_bytes(self.bytes(2 if n < 1 << 15 else 4), "little") % max(n, 1)

    def one_of(self, things: Any) -> Any:
        """One of some things."""
        return things[self.below(len(things))]


def edited(content: bytes, recipe: Recipe) -> bytes:
    """The bytes with up to four changes."""
    found = bytearray(content)
    for _ in range(1 + recipe.below(4)):
        at, kind = recipe.below(len(found) + 1), recipe.below(6)
        if kind == 0:
            found[at : at + 1] = recipe.bytes(1)
        elif kind == 1 and at < len(found):
            found[at] ^= 1 << recipe.below(8)
        elif kind == 2:
            found[at : at + recipe.below(16)] = b""
        elif kind == 3:
            found[at:at] = recipe.bytes(recipe.below(16))
        elif kind == 4:
            found = found[:at]
        else:
            piece = found[at : at + 1 + recipe.below(64)]
            to = recipe.below(len(found) + 1)
            found[to : to + len(piece)] = piece
    return bytes(found)


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree of JSON."""
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    return [(tree, key) for key in keys] + [place for key in keys for place in places(tree[key])]


def edited_json(text: bytes, recipe: Recipe) -> bytes:
    """The JSON with up to three of its values changed, dropped, or taken from elsewhere in it."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):  # it was spoilt before
        return edited(text, recipe)
    for _ in range(1 + recipe.below(3)):
        found = places(tree)
        if not found:
            break
        (inside, key), kind = recipe.one_of(found), recipe.below(5)
        if kind == 0:
            del inside[key]
        elif kind == 1:
            other, name = recipe.one_of(found)
            inside[key] = json.loads(json.dumps(other[name]))
        elif kind == 2 and isinstance(inside, dict):
            inside[recipe.one_of(ODD[28:30])] = inside.pop(key)
        elif kind == 3 and recipe.below(8) == 0:
            return json.dumps(tree).encode().replace(b"{", b"[" * 3000 + b"{", 1)
        else:
            inside[key] = deepcopy(recipe.one_of(ODD))
    return json.dumps(tree).encode()


def edited_array(content: bytes, recipe: Recipe) -> bytes:
    """An array in NumPy's format with its numbers, its header or its type changed."""
    kind = recipe.below(5)
    try:
        array = np.load(io.BytesIO(content))
    except Exception:  # it was spoilt before
        kind = 0
    if kind == 0:
        return edited(content, recipe)
    if kind == 1 and array.size and array.dtype.kind in "fiu":
        array = array.copy()
        numbers = [0, 1, 2, 255, 2**31, -1, 0.5, np.nan, np.inf, 1e30]
        with np.errstate(all="ignore"):
            array.flat[recipe.below(array.size)] = np.array(recipe.one_of(numbers)).astype(array.dtype)
    elif kind == 2:
        array = array[: recipe.below(len(array) + 1)] if array.ndim else array.reshape(1)
    elif kind == 3:
        with np.errstate(all="ignore"):
            try:
                array = array.astype(
                    recipe.one_of(["f2", "f4", "f8", ">f8", "i4", "u8", "U3", "S2", "?", "M8[s]", "c8"])
                )
            except (ValueError, TypeError, RuntimeError):
                array = array.reshape(-1)
    else:
        array = recipe.one_of([array.T, array.reshape(-1), array[None], np.concatenate([array.reshape(-1)] * 2)])
    np.save(out := io.BytesIO(), array)
    return out.getvalue()


def edited_zip(content: bytes, recipe: Recipe) -> bytes:
    """A zip of arrays with some of them changed, left out or given another's name, and a checksum that holds."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = "manifest.npy" if "manifest.npy" in parts else "about.npy"  # of a model, or of a checkpoint
    for _ in range(1 + recipe.below(3)):
        name, kind = recipe.one_of(sorted(parts)), recipe.below(8)
        if name == header or kind < 3:
            about = np.frombuffer(edited_json(np.load(io.BytesIO(parts[header])).tobytes(), recipe), np.uint8)
            np.save(out := io.BytesIO(), about)
            parts[header] = out.getvalue()
        elif kind == 3:
            del parts[name]
        elif kind == 4:
            parts[name] = parts[recipe.one_of(sorted(parts))]
        else:
            parts[name] = edited_array(parts[name], recipe)
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return resealed(file.getvalue())


def resealed(content: bytes) -> bytes:
    """The same zip with a checksum that holds."""
    (file := io.BytesIO()).write(content)
    if len(content) > 2:
        archive.seal(file)
    return file.getvalue()


def damaged_zip(content: bytes, recipe: Recipe) -> bytes:
    """A model or a checkpoint, changed."""
    kind = recipe.below(4)
    if kind == 0:
        return edited(content, recipe)
    if kind == 1:
        return resealed(edited(content[: -archive.LENGTH], recipe))
    return edited_zip(content, recipe)


def resigned(folder: Path, path: Path) -> None:
    """Let the digests of a folder of shards hold again after a change of `path`."""
    manifest = folder / shard_files.MANIFEST
    with suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        content = json.loads(manifest.read_bytes())
        if path != manifest:
            content["files"][path.name] = shard_files.file_digest(path)
        content.pop("digest", None)
        manifest.write_text(json.dumps(content | {"digest": shard_files._digest(content)}))


class Target:
    """The sound files, and what reads a damaged one."""

    def __init__(self, room: Path) -> None:
        self.room = room
        self.models = _models(room)
        self.folders = _folders(room)
        self.fits = [_Fit(room / f"fit{k}", *made) for k, made in enumerate(_fits())]
        self.kernel_cache = _Kernels(room / "kernels")
        self.readers: list[Callable[[Recipe], None]] = [self.model, self.shard, self.checkpoint, self.kernel_cache.read]

    def __call__(self, data: bytes) -> None:
        """Read one damaged file; lets every error out but ours."""
        recipe = Recipe(data)
        with suppress(rw.RankwiseError), np.errstate(all="ignore"):
            recipe.one_of(self.readers)(recipe)

    def model(self, recipe: Recipe) -> None:
        """Load a model, and use it."""
        path = self.room / "damaged.rankwise"
        path.write_bytes(damaged_zip(recipe.one_of(self.models), recipe))
        model = files.load(path)
        repr(model), model._repr_html_()
        if 0 in model.shape or max(model.shape) > 1000:
            return
        info.describe(model), info.to_json(info.to_dict(model)), info._show_history(model, Console(file=io.StringIO()))
        contents_of(model, None, [])
        model.at(np.arange(1), np.arange(1))
        model.to_dense()
        model.transposed()

    def shard(self, recipe: Recipe) -> None:
        """Read a folder of shards of which one file is damaged."""
        folder = recipe.one_of(self.folders)
        path = recipe.one_of(sorted(folder.iterdir()))
        manifest = folder / shard_files.MANIFEST
        sound, signed = path.read_bytes(), manifest.read_bytes()
        damage = {".json": edited_json, ".npy": edited_array}[path.suffix]
        path.write_bytes(edited(sound, recipe) if recipe.below(4) == 0 else damage(sound, recipe))
        if recipe.below(4):
            resigned(folder, path)
        try:
            entries = rw.ShardFolder(folder)
            for piece in entries.pieces():
                assert np.isfinite(piece.targets).all() and int(piece.indptr[-1]) == piece.indices.size
                assert piece.indices.size == 0 or int(piece.indices.max()) < piece.n_cols
            repr(entries), entries.row_weights(), entries.sample(5), entries.target_facts()
        finally:
            manifest.write_bytes(signed)
            path.write_bytes(sound)

    def checkpoint(self, recipe: Recipe) -> None:
        """Go on from a checkpoint."""
        recipe.one_of(self.fits).read(recipe)


class _Fit:
    """A small fit and its last checkpoint."""

    def __init__(self, folder: Path, problem: Any, solver: Any) -> None:
        self.problem, self.solver = problem, solver
        rw.solve(problem, solver, rank=2, max_iter=2, checkpoint=rw.Checkpoint(folder, every=1))
        first, self.path = sorted(folder.glob("*.checkpoint"))
        first.unlink()
        self.sound = self.path.read_bytes()
        self.keeper = checkpoint.open_folder(rw.Checkpoint(folder, resume=True))
        self.keeper.fit = json.loads(_about(self.sound))["fit"]

    def read(self, recipe: Recipe) -> None:
        """Put a damaged checkpoint into the folder and go on from it."""
        self.path.write_bytes(damaged_zip(self.sound, recipe))
        self.keeper.restored(self.problem, self.solver)


class _Kernels:
    """A kernel and its entries in a cache, for two signatures."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.left = folder, KERNELS
        self.run(1), self.run(1.0)
        self.sound = {path: path.read_bytes() for path in sorted(folder.iterdir())}

    def run(self, x: Any) -> bool:
        """Run a kernel that is not in memory; return whether the cache held it."""

        def line(x: Any) -> Any:
            return 2 * x + 1

        kernel = njit(**OPTIONS)(line)
        kernel._cache = _Entries(self.folder)
        assert kernel(x) == 2 * x + 1 and type(kernel(x)) is type(x)
        return bool(kernel.stats.cache_hits)

    def read(self, recipe: Recipe) -> None:
        """Use an entry that is damaged, or that belongs to the other signature."""
        path, other = self.sound if recipe.below(2) else reversed(self.sound)
        damaged = self.sound[other] if recipe.below(20) == 0 else edited(self.sound[path], recipe)
        path.write_bytes(damaged)
        try:
            content = cache._unsealed(path)
            assert content is None or damaged in self.sound.values()
            if recipe.below(20) == 0 and self.left > 0:
                self.left -= 2
                held = [self.run(1), self.run(1.0)]
                assert sum(held) == (2 if damaged == self.sound[path] else 1)
                assert self.run(1) and self.run(1.0)
        finally:
            path.write_bytes(self.sound[path])


class _Entries(cache.KernelCache):
    """The cache of a kernel in a folder of this run."""

    def __init__(self, folder: Path) -> None:
        super().__init__("line")
        self.folder = folder

    def _path(self, sig: Any, codegen: Any) -> Path:
        return self.folder / f"{self.name}-{sig[0]}"


def _about(content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return np.load(io.BytesIO(archive.read("about.npy"))).tobytes()


def _models(room: Path) -> list[bytes]:
    names = np.array(["ann", "bob", "eve", "joe", "sue"])
    X = np.random.default_rng(0).integers(1, 6, (12, 6)).astype(float)
    X[1, 2] = X[3, 0] = np.nan
    found = [rw.MatrixCompletion(rank=2, max_iter=3, calibration=0.2).fit(X)]
    found += [rw.MatrixCompletion(rank=2, method="eglrl", loss="square").fit(X)]
    for k, model in enumerate(found):
        model.save(room / f"{k}.rankwise")
    seen = rw.Observations.from_labels(np.repeat(names, 2), np.tile([3, 9], 5), np.arange(10.0))
    rw.MatrixCompletion(rank=1, max_iter=2).fit(seen).save(room / "2.rankwise")
    return [(room / f"{k}.rankwise").read_bytes() for k in range(3)]


def _folders(room: Path) -> list[Path]:
    rows, cols = (part.ravel() for part in np.mgrid[:4, :3])
    plain = rw.write_shards([(rows, cols, rows * 0.25)], room / "plain", shape=(4, 3))
    names = np.array(["ann", "bob", "eve", "joe"])[rows]
    return [plain, rw.write_shards([(names, cols, rows * 0.1, cols + 1.0)], room / "named")]


def _fits() -> list[tuple[Any, Any]]:
    seen = rw.Observations.from_coo([0, 1, 2, 2], [0, 1, 1, 0], [1.0, 2.0, -1.0, 0.5])
    return [(rw.Problem(seen, "square"), rw.solvers.get(name)) for name in ("eglrl", "bayes", "ais-impute")]


class Findings:
    """Runs a target, counts, and keeps what it finds, one of each kind."""

    def __init__(self, target: Target, minutes: float) -> None:
        self.target, self.minutes = target, minutes
        self.kinds: dict[str, int] = {}
        self.runs, self.begun = 0, time.monotonic()
        self.before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __call__(self, data: bytes) -> None:
        """One run; the last one ends the process, as atheris does not come back."""
        started, self.runs = time.process_time(), self.runs + 1
        try:
            self.target(data)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [frame for frame in frames if "rankwise" in frame.filename and "fuzz_files" not in frame.filename]
            where = f"{Path((ours or frames)[-1].filename).name}:{(ours or frames)[-1].lineno}"
            self.keep(f"{type(error).__name__} at {where}", data, traceback.format_exc())
        if time.process_time() - started > SECONDS:
            self.keep("slow", data, f"{time.process_time() - started:.1f} s")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - self.before
        if grown > MEMORY:
            self.before += grown
            self.keep("memory", data, f"{grown} kB more")
        if time.monotonic() - self.begun > 60 * self.minutes:
            print(f"{self.runs} runs, {len(self.kinds)} kinds of findings: {self.kinds}", flush=True)
            os._exit(1 if self.kinds else 0)

    def keep(self, kind: str, data: bytes, said: str) -> None:
        """Count a finding; print and keep the first of its kind."""
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if self.kinds[kind] == 1:
            folder = Path("fuzz-findings")
            folder.mkdir(exist_ok=True)
            (folder / f"{len(self.kinds):03d}.recipe").write_bytes(data)
            print(f"--- {kind}, after {self.runs} runs\n{said}", flush=True)


def main(what: str) -> None:
    """Fuzz for so many minutes, or read one recipe again."""
    with tempfile.TemporaryDirectory() as room:
        target = Target(Path(room))
        if Path(what).is_file():
            target(Path(what).read_bytes())
            return
        run, rng = Findings(target, float(what)), random.Random(0)
        if atheris is not None:
            corpus = Path(room) / "corpus"
            corpus.mkdir()
            for k in range(300):
                (corpus / str(k)).write_bytes(rng.randbytes(64))
            atheris.Setup([sys.argv[0], str(corpus), "-rss_limit_mb=0", "-timeout=120", "-max_len=128"], run)
            atheris.Fuzz()
        while True:
            run(rng.randbytes(64))


if __name__ == "__main__":
    main(sys.argv[1])
