"""Read entries from files: delimited text, Parquet and Matrix Market, in memory or as a stream of shards."""

from .sides import Side
from .streams import shard_file
from .styles import Reading
from .tables import Table, read_file, read_table

__all__ = ["Reading", "Side", "Table", "read_file", "read_table", "shard_file"]
