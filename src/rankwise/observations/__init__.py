"""The observed matrix: which entries are known, and what they are."""

from .entries import Entries
from .frames import is_frame
from .observed import Observations
from .pairs import as_pairs
from .shard_files import map_shard, write_shard
from .sharding import write_shards
from .shards import Piece, TargetFacts, cut_rows, target_facts
from .stored import StoredEntries, is_shard_folder

__all__ = [
    "Entries",
    "Observations",
    "Piece",
    "StoredEntries",
    "TargetFacts",
    "as_pairs",
    "cut_rows",
    "is_frame",
    "is_shard_folder",
    "map_shard",
    "target_facts",
    "write_shard",
    "write_shards",
]
