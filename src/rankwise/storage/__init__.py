"""Files of plain arrays: shard folders, model files, checkpoint state. Reading them runs no code."""

from .shard_folder import StoredEntries, is_shard_folder
from .sharding import write_shards

__all__ = ["StoredEntries", "is_shard_folder", "write_shards"]
