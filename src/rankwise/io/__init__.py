"""Read people's files of entries: delimited text, Parquet and Matrix Market, into memory or into a folder of shards."""

from .dialect import Reading
from .entry_table import EntryTable, read_file, read_table, shard_file
from .label_column import LabelColumn

__all__ = ["EntryTable", "LabelColumn", "Reading", "read_file", "read_table", "shard_file"]
