"""Published data sets by name, readers of their formats, and synthetic data with a known truth."""

from .download import download, fetch
from .mixed import MixedTable, mixed_table
from .movielens import read_movielens
from .signed import paper_filter, read_signed_network
from .sources import SOURCES, VARIABLE, Source, find, folders, get, load
from .synthetic import Planted, corrupted, counts, ratings, signed_network

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
