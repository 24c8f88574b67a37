"""Published data sets by name, readers of their formats, and synthetic data with known truth."""

from .download import download, fetch
from .formats import paper_filter, read_movielens, read_signed_network
from .mixed import MixedTable, mixed_table
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
