"""Shards that stay on disk: mapped when a verb needs them."""

import mmap
import os
import re
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import SettingError, ShardFileError
from ..losses import Loss
from ..observations import Piece
from ..storage import StoredEntries
from .buffers import Buffers
from .factory import check_targets
from .shard import Shard
from .threads import Threads, usable_cores

Array = NDArray[Any]
STATE = ("predicted", "slopes", "direction", "base")
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class ShardFolder(StoredEntries):
    """Entries on disk, learned from without being held in memory.

    What a fit needs per entry beside the entry itself, 12 to 16 bytes, also goes to the disk, to a file without a name
    that is gone when the process is, however it ends. Results are those of the same entries in memory, bit for bit.

    Parameters
    ----------
    folder : path
        Made by `write_shards` or ``rankwise shards``.
    memory_limit : int or str, optional
        Bytes, or text such as "1 GB", that shards and sums may take at a time, the factors of the model and the
        system's page cache apart. Fewer threads are used if they would take more. Without a limit, shards stay mapped
        once they are, which saves time and leaves it to the system which of their pages it keeps.
    scratch : path, optional
        Folder for the file without a name; by default that of the shards.

    Examples
    --------
    >>> import tempfile
    >>> import rankwise as rw
    >>> made = rw.datasets.ratings(60, 40, rank=2, density=0.5).observations
    >>> in_memory = rw.MatrixCompletion(rank=3, max_iter=2).fit(made)
    >>> with tempfile.TemporaryDirectory() as room:
    ...     chunks = [(made.rows, made.cols, made.targets)]
    ...     folder = rw.ShardFolder(rw.write_shards(chunks, f"{room}/f", shape=made.shape))
    ...     from_disk = rw.MatrixCompletion(rank=3, max_iter=2).fit(folder)
    >>> bool((from_disk.U_ == in_memory.U_).all())
    True
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        memory_limit: int | str | None = None,
        scratch: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(folder)
        self.memory_limit = None if memory_limit is None else as_bytes(memory_limit)
        self.scratch = self.folder if scratch is None else Path(scratch)

    def transposed(self) -> "ShardFolder":
        """The same entries with rows and columns exchanged, in a folder inside this one; written when first needed."""
        found = super().transposed()
        found.memory_limit, found.scratch = self.memory_limit, self.scratch  # type: ignore[attr-defined]
        return found  # type: ignore[return-value]

    def engine(self, loss: Loss, dtype: np.dtype[Any], n_jobs: int | None) -> Threads:
        """Threads over the mapped shards; refuses targets that the loss or the number type cannot take."""
        for piece in self.pieces():
            check_targets(piece.targets, loss, dtype)
        scratch = Scratch(self.scratch, self.sizes, dtype, keep=self.memory_limit is None)
        shards: Any = [StoredShard(self, k, loss, scratch) for k in range(len(self.sizes))]
        return Threads(shards, self._jobs(dtype, n_jobs))

    def _jobs(self, dtype: np.dtype[Any], n_jobs: int | None) -> int:
        """As many threads as are wanted, or as fit under the limit."""
        wanted = min(usable_cores(n_jobs), len(self.sizes))
        if self.memory_limit is None:
            return wanted
        shard = max(self.sizes) * (12 + len(STATE) * dtype.itemsize)
        sums = 8 * self.shape[1]
        for jobs in range(wanted, 0, -1):
            needed = jobs * shard + (jobs + 2 + len(self.sizes).bit_length()) * sums
            if needed <= self.memory_limit:
                return jobs
        raise SettingError(
            f"memory_limit={self.memory_limit:,} bytes is less than the {needed:,} that one shard and its sums take; "
            "give more."
        )


class Scratch:
    """Room on disk for what shards know beside their entries, in a file that has no name."""

    def __init__(self, folder: Path, sizes: list[int], dtype: np.dtype[Any], keep: bool) -> None:
        self.folder, self.dtype, self.sizes, self.keep = folder, dtype, sizes, keep
        page = mmap.ALLOCATIONGRANULARITY
        self._rooms = [size * dtype.itemsize + -size * dtype.itemsize % page for size in sizes]
        self._starts = np.concatenate(([0], np.cumsum(self._rooms))).tolist()
        self._files: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], Array] = {}

    def room(self, name: str, k: int) -> Array:
        """The array of that name of shard k; zeros at first."""
        if (name, k) in self._kept:
            return self._kept[name, k]
        with self._lock:
            if name not in self._files:
                self._files[name] = self._made()
        mapped = mmap.mmap(self._files[name].fileno(), self._rooms[k], offset=self._starts[k])
        found = np.frombuffer(mapped, self.dtype, self.sizes[k])
        if self.keep:
            self._kept[name, k] = found
        return found

    def _made(self) -> Any:
        """A new file with all of its blocks, as a full disk would end the process later on."""
        try:
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed with this object
            weakref.finalize(self, file.close)
            os.posix_fallocate(file.fileno(), 0, self._starts[-1])
        except OSError as error:
            raise ShardFileError(
                f"{self.folder} has no room for {self._starts[-1]:,} bytes of working space ({error.strerror}); make "
                "room, or choose another place with `scratch`."
            ) from None
        return file


class StoredShard:
    """A shard that is mapped when a verb needs it; what it knows beside its entries is in the scratch file."""

    def __init__(self, entries: StoredEntries, k: int, loss: Loss, scratch: Scratch) -> None:
        self.entries, self.k, self.loss, self.scratch = entries, k, loss, scratch
        self.buffers = Buffers()
        self.step, self.shifted = 0, False
        self._piece: Piece | None = None

    def answer(self, verb: str, args: tuple[Any, ...]) -> Any:
        """What this shard says to a verb."""
        piece = self._piece or self.entries.piece(self.k)
        if self.scratch.keep:
            self._piece = piece
        shard = Shard(piece, self.loss, self.scratch.dtype, self._room)
        shard.buffers, shard.step = self.buffers, self.step
        if self.shifted:
            shard.base = self._room("base")
        found = shard.answer(verb, args)
        self.step, self.shifted = shard.step, shard.base is not None
        return found

    def _room(self, name: str) -> Array:
        return self.scratch.room(name, self.k)


def as_bytes(given: int | str) -> int:
    """Bytes as a number or as text: 1000000, "500 MB", "1.5GB"."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)i?b?\s*", str(given).lower())
    try:
        n_bytes = int(float(found[1]) * UNITS[found[2]]) if found else 0
    except ValueError:
        n_bytes = 0
    if isinstance(given, bool) or n_bytes < 1:
        raise SettingError(f'`memory_limit` must be a number of bytes or text such as "1 GB", got {given!r}.')
    return n_bytes
