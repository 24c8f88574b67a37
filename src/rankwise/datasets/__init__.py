"""Data: published sets by name, readers of their formats, and generators that know the truth."""

from .download import download, fetch
from .mixed import MixedTable, mixed_table
from .movielens import read_movielens
from .sides import Side
from .signed import paper_filter, read_signed_network
from .sources import SOURCES, VARIABLE, Source, find, folders, get, load
from .streams import shard_file
from .styles import Reading
from .synthetic import Planted, corrupted, counts, ratings, signed_network
from .tables import Table, read_file, read_table

__all__ = [
    "SOURCES",
    "VARIABLE",
    "MixedTable",
    "Planted",
    "Reading",
    "Side",
    "Source",
    "Table",
    "corrupted",
    "counts",
    "download",
    "fetch",
    "find",
    "folders",
    "get",
    "load",
    "mixed_table",
    "paper_filter",
    "ratings",
    "read_file",
    "read_movielens",
    "read_signed_network",
    "read_table",
    "shard_file",
    "signed_network",
]
