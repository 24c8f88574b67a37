"""`rankwise shards`: from a file that may be larger than memory to a folder that a fit streams."""

from dataclasses import dataclass
from pathlib import Path

import click

from ..engines import ShardFolder
from ..io import shard_file
from .files import ToldToRead, reading
from .tables import console
from .words import plural


@dataclass(frozen=True, kw_only=True)
class Settings(ToldToRead):
    """What the command was told."""

    file: Path
    output: Path
    duplicates: str


def run(settings: Settings) -> None:
    """Write the shards and say what they hold."""
    folder, notes = shard_file(settings.file, settings.output, how=reading(settings), duplicates=settings.duplicates)
    for note in notes:
        click.echo(note, err=True)
    entries, out = ShardFolder(folder), console()
    size = sum(path.stat().st_size for path in folder.glob("shard-*"))
    out.print(f"Entries: {entries.n_observed:,} in {entries.shape[0]:,} rows and {entries.shape[1]:,} columns")
    out.print(f"Stored:  {plural(len(entries.sizes), 'shard')}, {size / 1e6:,.1f} MB, in {folder}")
    out.print(f"Next:    rankwise fit {folder} -o MODEL")
