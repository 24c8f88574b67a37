"""Data: published sets by name, readers of their formats, and generators that know the truth."""

from .download import download, fetch
from .movielens import read_movielens
from .signed import paper_filter, read_signed_network
from .sources import SOURCES, VARIABLE, Source, find, folders, get, load
from .synthetic import Planted, corrupted, counts, ratings, signed_network
from .tables import MixedTable, mixed_table

__all__ = [
    "SOURCES",
    "VARIABLE",
    "MixedTable",
    "Planted",
    "Source",
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
    "read_movielens",
    "read_signed_network",
    "signed_network",
]
