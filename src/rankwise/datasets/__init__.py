"""Data: published sets by name, readers of their formats, and generators that know the truth."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .._errors import DataError, SettingError
from ..observations import Observations
from .movielens import read_movielens
from .signed import paper_filter, read_signed_network
from .synthetic import Planted, ratings, signed_network

VARIABLE = "RANKWISE_DATA"


@dataclass(frozen=True)
class Source:
    """A published data set: its file, compressed or not, how to read it, and where it comes from."""

    file: str
    read: Callable[[Path], Observations]
    page: str


def _read_filtered(path: Path) -> Observations:
    return paper_filter(*read_signed_network(path))


_SNAP, _GROUPLENS = "https://snap.stanford.edu/data", "https://grouplens.org/datasets/movielens"
SOURCES = {
    "epinions": Source("signed/soc-sign-epinions.txt", _read_filtered, f"{_SNAP}/soc-sign-epinions.html"),
    "slashdot": Source("signed/soc-sign-Slashdot090221.txt", _read_filtered, f"{_SNAP}/soc-sign-Slashdot090221.html"),
    "movielens-100k": Source("ml-100k/u.data", read_movielens, f"{_GROUPLENS}/100k/"),
    "movielens-1m": Source("ml-1m/ratings.dat", read_movielens, f"{_GROUPLENS}/1m/"),
}


def load(name: str) -> Observations:
    """A published data set, from its file in the folder that the environment variable RANKWISE_DATA names.

    Parameters
    ----------
    name : {"epinions", "slashdot", "movielens-100k", "movielens-1m"}
        The signed networks come with the paper's filter (see `paper_filter`), the ratings in stars as published.

    Returns
    -------
    Observations
        Labelled by the numbers in the file.
    """
    if name not in SOURCES:
        raise SettingError(f"Unknown data set {name!r}: use one of {', '.join(SOURCES)}.")
    source, folder = SOURCES[name], os.environ.get(VARIABLE)
    for file in (source.file, f"{source.file}.gz"):
        if folder and (path := Path(folder, file)).is_file():
            return source.read(path)
    where = f"the folder {folder}" if folder else f"a folder and set the environment variable {VARIABLE} to it"
    raise DataError(f'To load "{name}", put {source.file} (or .gz of it) from {source.page} into {where}.')


__all__ = [
    "Planted",
    "load",
    "paper_filter",
    "ratings",
    "read_movielens",
    "read_signed_network",
    "signed_network",
]
