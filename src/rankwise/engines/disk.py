"""Engine over shards on disk: each is memory-mapped when an operation needs it."""

import mmap
import os
import re
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._arrays import Array
from .._errors import SettingError, ShardFileError
from ..losses import Loss
from ..observations import Piece
from ..storage import StoredEntries
from .base import Buffers
from .factory import check_targets
from .operations import AnyOperation
from .shard import Shard
from .threads import Threads, usable_cores

STATE = ("predicted", "slopes", "direction", "base")  # arrays of a shard that an operation may change
SIZE_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


class ShardFolder(StoredEntries):
    """Observed entries in a folder of shards, fitted without loading them into memory.

    The arrays that a fit needs per entry beside the entry itself, 12 to 16 bytes, are also stored on disk, in temporary
    files that disappear with the process. Results equal those of the same entries in memory, bit for bit.

    Parameters
    ----------
    folder : path
        Written by `write_shards` or ``rankwise shards``.
    memory_limit : int or str, optional
        Bytes, or text such as "1 GB", that mapped shards and sums may take at a time, apart from the factors of the
        model and the system's page cache. Fewer threads are used if more would exceed it. Without a limit, shards stay
        mapped, which saves time and leaves it to the system which of their pages it keeps.
    scratch : path, optional
        Folder for the temporary files; by default the folder of the shards.

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
        """Return the entries with rows and columns exchanged, from a subfolder that is written when first needed."""
        entries = ShardFolder(self.write_transposed(), memory_limit=self.memory_limit, scratch=self.scratch)
        entries.row_labels, entries.col_labels = self.col_labels, self.row_labels
        return entries

    def engine(self, loss: Loss, dtype: np.dtype[Any], n_jobs: int | None) -> Threads:
        """Return an engine over the mapped shards; raise if the loss or the dtype cannot represent a target."""
        for piece in self.pieces():
            check_targets(piece.targets, loss, dtype)
        scratch = ScratchFiles(self.scratch, self.sizes, dtype, keep=self.memory_limit is None)
        return Threads([StoredShard(self, k, loss, scratch) for k in range(len(self.sizes))], self._jobs(dtype, n_jobs))

    def _jobs(self, dtype: np.dtype[Any], n_jobs: int | None) -> int:
        """Return how many of the requested threads fit under the memory limit."""
        most = min(usable_cores(n_jobs), len(self.sizes))
        if self.memory_limit is None:
            return most
        shard = max(self.sizes) * (12 + len(STATE) * dtype.itemsize)
        sums = 8 * self.shape[1]
        for jobs in range(most, 0, -1):
            needed = jobs * shard + (jobs + 2 + len(self.sizes).bit_length()) * sums
            if needed <= self.memory_limit:
                return jobs
        raise SettingError(
            f"`memory_limit` must be at least {needed:,} bytes, which one shard and its sums take, "
            f"got {self.memory_limit:,}."
        )


class ScratchFiles:
    """Temporary files for the arrays of shards that operations change.

    Parameters
    ----------
    folder : Path
    sizes : list of int
        Number of entries of every shard.
    dtype : dtype
    keep : bool
        Whether arrays stay mapped once they are.
    """

    def __init__(self, folder: Path, sizes: list[int], dtype: np.dtype[Any], keep: bool) -> None:
        self.folder, self.dtype, self.sizes, self.keep = folder, dtype, sizes, keep
        self._owner = os.getpid()
        page = mmap.ALLOCATIONGRANULARITY
        self._lengths = [size * dtype.itemsize + -size * dtype.itemsize % page for size in sizes]
        self._starts = np.concatenate(([0], np.cumsum(self._lengths))).tolist()
        self._files: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._mapped: dict[tuple[str, int], Array] = {}

    def array(self, name: str, k: int) -> Array:
        """Return the array `name` of shard k, mapped; zeros at first."""
        if self._owner != os.getpid():
            raise SettingError(
                "A problem with entries on disk must be used by the process that made it, because a forked process "
                "would change the same temporary files; make another `Problem` in this process."
            )
        if (name, k) in self._mapped:
            return self._mapped[name, k]
        with self._lock:
            if name not in self._files:
                self._files[name] = self._new_file()
        mapped = mmap.mmap(self._files[name].fileno(), self._lengths[k], offset=self._starts[k])
        array = np.frombuffer(mapped, self.dtype, self.sizes[k])
        if self.keep:
            self._mapped[name, k] = array
        return array

    def _new_file(self) -> Any:
        try:
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed with this object
            weakref.finalize(self, file.close)
            allocate(file, self._starts[-1])
        except OSError as error:
            raise ShardFileError(
                f"{self.folder} has no room for {self._starts[-1]:,} bytes of temporary files ({error.strerror}); free "
                "some space, or choose another folder with `scratch`."
            ) from None
        return file


def allocate(file: BinaryIO, size: int) -> None:
    """Extend an empty file to `size` bytes of zeros, with all of its blocks.

    A file with holes would find a full disk while it is written through a memory map, which kills the process.
    """
    try:
        reserve = os.posix_fallocate
    except AttributeError:  # macOS, Windows
        for start in range(0, size, 1 << 20):
            file.write(bytes(min(1 << 20, size - start)))
        file.flush()
    else:
        reserve(file.fileno(), 0, size)


class StoredShard:
    """A shard that is mapped for each operation; its changing arrays are in scratch files.

    Parameters
    ----------
    entries : StoredEntries
    k : int
        Number of the shard.
    loss : Loss
    scratch : ScratchFiles
    """

    def __init__(self, entries: StoredEntries, k: int, loss: Loss, scratch: ScratchFiles) -> None:
        self.entries, self.k, self.loss, self.scratch = entries, k, loss, scratch
        self.buffers = Buffers()
        self.step, self.shifted, self.n_blocks = 0, False, 1
        self._piece: Piece | None = None

    def run(self, operation: AnyOperation, args: tuple[Any, ...]) -> Any:
        """Return the result of an operation on this shard."""
        piece = self._piece or self.entries.piece(self.k)
        if self.scratch.keep:
            self._piece = piece
        shard = Shard(piece, self.loss, self.scratch.dtype, self._array)
        shard.buffers, shard.step = self.buffers, self.step
        if self.shifted:
            shard.base = self._array("base")
        result = shard.run(operation, args)
        self.step, self.shifted = shard.step, shard.base is not None
        return result

    def parts(self, operation: AnyOperation) -> Sequence["StoredShard"]:
        """Return the shard alone: one thread maps it, and takes its blocks in turn."""
        return (self,)

    def _array(self, name: str) -> Array:
        return self.scratch.array(name, self.k)


def as_bytes(size: int | str) -> int:
    """Return a size in bytes, given as a number or as text: 1000000, "500 MB", "1.5GB"."""
    match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?)i?b?\s*", str(size).lower())
    try:
        n_bytes = int(float(match[1]) * SIZE_UNITS[match[2]]) if match else 0
    except ValueError:
        n_bytes = 0
    if isinstance(size, bool) or n_bytes < 1:
        raise SettingError(f'`memory_limit` must be a number of bytes or text such as "1 GB", got {size!r}.')
    return n_bytes
