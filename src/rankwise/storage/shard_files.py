"""Files of a shard folder: arrays as ``.npy`` files, and a JSON manifest with the digest of each of them."""

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from .._arrays import Array
from .._digests import checksum, file_digest
from .._errors import DataError, ShardFileError
from .._files import is_stream
from ..observations.build import check_csr, is_huge
from ..observations.shards import Piece
from .archive import DAMAGE

SHARD_FORMAT, SHARD_VERSION = "rankwise-shards", 1
MANIFEST, SHARD = "manifest.json", "shard-{:06d}-{}.npy"
LABEL_FILES = ("row_labels.npy", "col_labels.npy")
MAX_MANIFEST = 1 << 28  # bytes of a manifest


def write_array(path: Path, array: Array) -> dict[str, str]:
    """Write an array to a new ``.npy`` file, through to the disk; return its digest by the name of the file."""
    with open(path, "xb") as file:
        np.save(file, np.ascontiguousarray(array), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {path.name: file_digest(path)}


def map_array(path: Path, digest: str | None = None) -> Array:
    """Memory-map the array of a ``.npy`` file, after a check of its digest if one is given. Never runs code from it."""
    if is_stream(path):
        raise ShardFileError(f"{path} is a pipe or a device, not an array; write the shards again.")
    try:
        damaged = digest is not None and file_digest(path) != digest
        array = None if damaged else np.asarray(open_memmap(path, mode="r"))
    except FileNotFoundError:
        raise ShardFileError(f"There is no file {path}; write the shards again.") from None
    except DAMAGE as error:
        raise ShardFileError(f"{path} cannot be read ({error}); write the shards again.") from None
    if array is None:
        raise ShardFileError(f"{path} is damaged: its digest is not that of the manifest; write the shards again.")
    return array


def write_shard(folder: Path, number: int, piece: Piece) -> dict[str, str]:
    """Write the arrays of a shard to new files of a folder; return their digests by file name."""
    digests: dict[str, str] = {}
    for name in ("indptr", "indices", "targets", "weights"):
        array = getattr(piece, name)
        if array is not None:
            digests |= write_array(folder / SHARD.format(number, name), array)
    return digests


@dataclass(frozen=True)
class ShardFiles:
    """The files of one shard."""

    folder: Path
    number: int
    start: int  # its first row
    stop: int  # the first row of the next shard
    n_cols: int  # of the whole matrix
    size: int  # number of entries
    digests: dict[str, str]  # digests of its files, by name

    def map(self, check: bool = False) -> Piece:
        """Memory-map the arrays and check their types and lengths; pages that are not used are not read.

        With `check`, everything is read once: digests hold, rows and columns exist and are sorted, numbers are finite.
        """
        arrays: dict[str, Any] = {}
        for name in ("indptr", "indices", "targets", "weights"):
            file = SHARD.format(self.number, name)
            if file in self.digests:
                arrays[name] = map_array(self.folder / file, self.digests[file] if check else None)
        lengths = {"indptr": self.stop - self.start + 1} | dict.fromkeys(("indices", "targets", "weights"), self.size)
        kinds = {"indptr": ("<u8",), "indices": ("<u4",), "targets": ("<f4", "<f8"), "weights": ("<f4", "<f8")}
        sound = {"indptr", "indices", "targets"} <= set(arrays) and all(
            array.shape == (lengths[name],) and array.dtype.str in kinds[name] for name, array in arrays.items()
        )
        piece = Piece(self.start, self.n_cols, **({"weights": None} | arrays)) if sound else None
        if piece is None or (check and not _is_sound(piece)):
            path = self.folder / SHARD.format(self.number, "*")
            raise ShardFileError(f"{path} are damaged, or of another folder; write the shards again.")
        return piece


def _is_sound(piece: Piece) -> bool:
    """Return whether kernels can rely on the entries: sorted, in range, finite, of positive weight."""
    try:
        check_csr(piece.indptr, piece.indices, (piece.stop - piece.start, piece.n_cols))
    except DataError:
        return False
    weights = piece.weights
    sound = bool(np.isfinite(piece.targets).all())
    return sound and (weights is None or bool((np.isfinite(weights) & (weights > 0)).all()))


@dataclass(frozen=True)
class Manifest:
    """Description of a shard folder; written last, so that a folder with a manifest is complete."""

    shape: list[int]
    cuts: list[int]  # first row of every shard, and the number of rows
    sizes: list[int]  # number of entries of every shard
    weighted: bool
    total_weight: float  # sum of the weights; the number of entries if there are none
    heaviest: float  # largest weight
    files: dict[str, str]  # digest of every file, by name

    @property
    def content(self) -> dict[str, object]:
        """The manifest as it is written, without its digest."""
        return {"format": SHARD_FORMAT, "version": SHARD_VERSION, **asdict(self)}

    @property
    def digest(self) -> str:
        """Digest of the manifest, and so of every file of the folder."""
        return _digest(self.content)

    def write(self, folder: Path) -> None:
        """Write the manifest with a digest of its own."""
        with (folder / MANIFEST).open("x") as file:
            json.dump(self.content | {"digest": self.digest}, file)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read and check the manifest of a folder."""
        path = folder / MANIFEST
        if not path.is_file():
            raise ShardFileError(
                f"{folder} is not a folder of shards; write one with `rankwise shards FILE -o FOLDER`."
            )
        if path.stat().st_size > MAX_MANIFEST:
            raise ShardFileError(f"{path} is larger than {MAX_MANIFEST:,} bytes, so it is not a manifest of shards.")
        version, manifest = 0, None
        try:
            content = json.loads(path.read_bytes())
            version = int(content["version"]) if content["format"] == SHARD_FORMAT else 0
            if version == SHARD_VERSION and content.pop("digest") == _digest(content):
                manifest = cls(**{field.name: content[field.name] for field in fields(cls)})
            sound = manifest is not None and manifest._is_sound()
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            sound = False
        if version > SHARD_VERSION:
            raise ShardFileError(
                f"{folder} has format {version}; this version of rankwise reads up to {SHARD_VERSION}. Update rankwise."
            )
        if manifest is None or not sound:
            raise ShardFileError(f"{path} is damaged, or was not written by rankwise; write the shards again.")
        return manifest

    def _is_sound(self) -> bool:
        cuts, sizes, shape = self.cuts, self.sizes, self.shape
        sound = all(type(k) is int and 0 <= k < 2**63 for k in (*cuts, *sizes, *shape))
        sound = sound and len(shape) == 2 and len(cuts) == len(sizes) + 1 and len(sizes) > 0 and min(sizes) > 0
        sound = sound and cuts[0] == 0 and cuts[-1] == shape[0] and cuts == sorted(set(cuts)) and max(shape) < 2**32
        sound = sound and not is_huge(shape[0], shape[1], sum(sizes))
        numbers = self.total_weight, self.heaviest
        sound = sound and all(type(x) in (int, float) and 0 < float(x) < float("inf") for x in numbers)
        return sound and type(self.weighted) is bool and all(type(x) is str for x in self.files.values())

    def shards(self, folder: Path) -> list[ShardFiles]:
        """Return the files of every shard."""
        names = ("indptr", "indices", "targets", *(["weights"] if self.weighted else []))
        shards = []
        for k, size in enumerate(self.sizes):
            files = [SHARD.format(k, name) for name in names]
            digests = {file: self.files[file] for file in files if file in self.files}
            shards.append(ShardFiles(folder, k, self.cuts[k], self.cuts[k + 1], self.shape[1], size, digests))
        return shards


def _digest(content: dict[str, object]) -> str:
    return checksum(json.dumps(content, sort_keys=True)).hex()
