"""From a person's file to a folder of shards, in a stream."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._errors import DataError
from ..storage import write_shards
from .binary import parquet_chunks
from .lines import Beyond, Chunk, as_whole, stream_text
from .styles import Reading
from .tables import kind_of
from .text import AnyPath


def shard_file(
    path: AnyPath, folder: AnyPath, *, how: Reading | None = None, duplicates: str = "error"
) -> tuple[Path, tuple[str, ...]]:
    r"""Write the entries of a file to a folder of shards that `ShardFolder` reads; the file is never held in memory.

    Parameters
    ----------
    path : path
        Text in any usual style, as `read_file` takes it; a Parquet file, or a folder of these.
    folder : path
        Must not exist.
    how : Reading, optional
        What is not said is guessed.
    duplicates : {"error", "mean", "last"}, default="error"

    Returns
    -------
    folder : Path
    notes : tuple of str
        What was guessed, and what was left out.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import rankwise as rw
    >>> with tempfile.TemporaryDirectory() as room:
    ...     _ = Path(room, "trust.csv").write_text("from,to,sign\nann,bob,1\nbob,ann,-1\n")
    ...     shards, notes = rw.io.shard_file(f"{room}/trust.csv", f"{room}/shards")
    ...     print(rw.ShardFolder(shards).row_labels)
    ['ann' 'bob']
    """
    how, where = how or Reading(), os.fspath(path)
    notes: list[str] = []
    *quick, surest = _ways(where, how, notes)
    for chunks, as_names in quick:
        with suppress(Beyond):
            return write_shards(chunks, folder, duplicates=duplicates, as_names=as_names), tuple(notes)
    chunks, as_names = surest
    return write_shards(chunks, folder, duplicates=duplicates, as_names=as_names), tuple(notes)


def _ways(where: str, how: Reading, notes: list[str]) -> Iterator[tuple[Iterator[Chunk], Callable[[Any], Any] | None]]:
    """Ways to read the file, quickest first, and what its labels mean."""
    if Path(where).is_dir():
        files = sorted(Path(where).glob("*.parquet"))
        if not files:
            raise DataError(f"{where} is a folder without any .parquet file; name a file, or a folder that has some.")
        yield (chunk for file in files for chunk in parquet_chunks(str(file), how, notes)), None
        return
    kind = kind_of(where)
    if kind == "parquet":
        yield parquet_chunks(where, how, notes), None
    elif kind == "text":
        yield from ((chunks, as_whole) for chunks in stream_text(where, how, notes))
    else:
        raise DataError(
            f"{where} is {kind}, which cannot be read in a stream; give CSV or Parquet, or fit it directly."
        )
