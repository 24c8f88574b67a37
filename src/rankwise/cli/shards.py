"""``rankwise shards``: divide a file that may be larger than memory into a folder of shards."""

from dataclasses import dataclass
from pathlib import Path

from ..engines import ShardFolder
from ..io import Reading, shard_file
from .formatting import console, plural
from .terminal import echo


@dataclass(frozen=True, kw_only=True)
class ShardOptions(Reading):
    """Arguments of the command, those of the reader among them."""

    file: Path
    output: Path
    duplicates: str


def run(options: ShardOptions) -> None:
    """Write the shards, and print their size."""
    folder, notes = shard_file(options.file, options.output, how=options, duplicates=options.duplicates)
    for note in notes:
        echo(note, err=True)
    entries, out = ShardFolder(folder), console()
    size = sum(path.stat().st_size for path in folder.glob("shard-*"))
    out.print(f"Entries: {entries.n_observed:,} in {entries.shape[0]:,} rows and {entries.shape[1]:,} columns")
    out.print(f"Stored:  {plural(len(entries.sizes), 'shard')}, {size / 1e6:,.1f} MB, in {folder}")
    out.print(f"Next:    rankwise fit {folder} -o MODEL")
