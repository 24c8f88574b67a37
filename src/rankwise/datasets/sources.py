"""Published data sets: address, licence, checksum, format, size, and location on this machine."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import platformdirs

from .._checks import one_of
from .._errors import DataError, SettingError
from ..observations import Observations
from .formats import paper_filter, read_movielens, read_signed_network

VARIABLE = "RANKWISE_DATA"


@dataclass(frozen=True)
class Publisher:
    """A publisher of data sets."""

    name: str
    licence: str  # terms of use, in a sentence
    citation: str  # publication to cite


@dataclass(frozen=True)
class Source:
    """A published data set.

    Attributes
    ----------
    file : str
        Path of the text file below the data folder, and inside the publisher's zip archive.
    address : str
        URL of the download: the text file in gzip, or a zip archive with it.
    sha256 : str
        Checksum of the download, in hexadecimal.
    n_bytes : int
        Size of the download.
    publisher : Publisher
    read : callable (path) -> Observations
        Read the file and apply the filter.
    layout, filter : str
        Format of a line, and entries that `read` leaves out, in words.
    shape, n_observed : tuple of int, int
        Size of the matrix that `read` returns.
    reported : str
        Size stated in the paper.

    Examples
    --------
    >>> import rankwise as rw
    >>> source = rw.datasets.SOURCES["epinions"]
    >>> print(source.n_observed, source.shape)
    752865 (42470, 40700)
    """

    file: str
    address: str
    sha256: str
    n_bytes: int
    publisher: Publisher
    read: Callable[[Path], Observations]
    layout: str
    filter: str
    shape: tuple[int, int]
    n_observed: int
    reported: str

    @property
    def published(self) -> str:
        """File name of the download."""
        return self.address.rpartition("/")[2]

    def target(self, folder: Path) -> Path:
        """Path of the download below the data folder `folder`: beside the text file."""
        return folder / PurePosixPath(self.file).parent / self.published

    def find(self, folder: Path) -> Path | None:
        """Find the data set in a data folder: its file, that file in gzip, the download, or the download at the top.

        For MovieLens 1M, these are in order ``ml-1m/ratings.dat``, ``ml-1m/ratings.dat.gz``, ``ml-1m/ml-1m.zip`` and
        ``ml-1m.zip`` below the data folder `folder`.
        """
        places = (folder / self.file, folder / f"{self.file}.gz", self.target(folder), folder / self.published)
        return next((place for place in places if os.path.isfile(place)), None)

    def load(self, path: Path) -> Observations:
        """Read the entries of a file that `find` returned."""
        return self.read(path / self.file if path.suffix == ".zip" else path)

    def is_sound(self, path: Path) -> bool:
        """Return whether a file is intact: its checksum is right, or it is not the publisher's own and has none."""
        return path.name != self.published or self.matches(path)

    def matches(self, path: Path) -> bool:
        """Return whether the SHA-256 checksum of a file is the publisher's."""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def folders() -> list[Path]:
    """Data folders in search order: the environment variable RANKWISE_DATA if it is set, then the user's cache.

    Downloads go to the first.

    Examples
    --------
    >>> import rankwise as rw
    >>> print(len(rw.datasets.folders()) >= 1)
    True
    """
    named = os.environ.get(VARIABLE)
    return [*([Path(named)] if named else []), platformdirs.user_cache_path("rankwise", appauthor=False) / "data"]


def get(name: str) -> Source:
    """Return the published data set called `name`.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.datasets.get("movielens-100k").shape
    (943, 1682)
    """
    if name not in SOURCES:
        raise SettingError(f"Unknown data set {name!r}: use {one_of(SOURCES)}.")
    return SOURCES[name]


def find(source: Source) -> Path | None:
    """Path of a data set on this machine; None if it has not been downloaded.

    Examples
    --------
    >>> import rankwise as rw
    >>> path = rw.datasets.find(rw.datasets.get("movielens-100k"))
    >>> print(path is None or path.exists())
    True
    """
    return next((path for folder in folders() if (path := source.find(folder)) is not None), None)


def load(name: str) -> Observations:
    """Load a published data set from the data folders (see `folders`).

    `fetch` and the command ``rankwise data fetch`` download it. Files are read plain, in gzip, or inside the
    publisher's zip archive (see `Source.find`).

    Parameters
    ----------
    name : {"epinions", "slashdot", "movielens-100k", "movielens-1m", "movielens-10m"}
        The signed networks are filtered as in the paper (see `paper_filter`); the ratings are in stars, as published.

    Returns
    -------
    Observations
        Labelled by the numbers in the file.

    Examples
    --------
    >>> import rankwise as rw
    >>> if rw.datasets.find(rw.datasets.get("movielens-100k")):  # else: `rankwise data fetch movielens-100k`
    ...     assert rw.datasets.load("movielens-100k").shape == (943, 1682)
    """
    source = get(name)
    path = find(source)
    if path is None:
        raise DataError(
            f"There is no {name} on this machine: run `rankwise data fetch {name}`, or put {source.published} from "
            f"{source.address} into {source.target(folders()[0]).parent} ({VARIABLE} names another folder)."
        )
    return source.load(path)


def _read_filtered(path: Path) -> Observations:
    return paper_filter(*read_signed_network(path))


SNAP = Publisher(
    "Stanford Network Analysis Project (SNAP)",
    "The publisher states no licence for this data set and asks that it be cited.",
    "J. Leskovec, D. Huttenlocher, J. Kleinberg: Signed Networks in Social Media. CHI 2010.",
)
GROUPLENS = Publisher(
    "GroupLens Research, University of Minnesota",
    "For research; no redistribution and no commercial use without permission, no claim of endorsement, to be cited "
    "(the README in the archive has the full terms).",
    "F. M. Harper, J. A. Konstan: The MovieLens Datasets: History and Context. ACM TiiS 5(4), 2015.",
)
EDGES = "lines of `from<TAB>to<TAB>sign`, comments after #"
TAB_RATINGS, COLON_RATINGS = "lines of `user<TAB>item<TAB>rating<TAB>time`", "lines of `user::item::rating::time`"
PAPER_FILTER = (
    "the paper's: rows with fewer than 2 entries go, then columns with fewer than 2 of the rest; one pass each"
)
NO_FILTER = "none: every rating is kept"
_SNAP, _GROUPLENS = "https://snap.stanford.edu/data", "https://files.grouplens.org/datasets/movielens"

# Checksums: those of the SNAP files and of ml-1m.zip are of downloads we hold. Those of ml-100k.zip and ml-10m.zip are
# what public projects pin for them, beside the MD5 sums that GroupLens publishes
# (0e33842e24a9c977be4e0107933c0723 and ce571fd55effeba0271552578f2648bd).
SOURCES = {
    "epinions": Source(
        file="signed/soc-sign-epinions.txt",
        address=f"{_SNAP}/soc-sign-epinions.txt.gz",
        sha256="214513a32f1375695ceab7d7581e463ebe44daa573492de699b0c5d1cf3dde60",
        n_bytes=2_972_840,
        publisher=SNAP,
        read=_read_filtered,
        layout=EDGES,
        filter=PAPER_FILTER,
        shape=(42_470, 40_700),
        n_observed=752_865,
        reported="42,470 x 40,700 with 7.5 x 10^5 observations",
    ),
    "slashdot": Source(
        file="signed/soc-sign-Slashdot090221.txt",
        address=f"{_SNAP}/soc-sign-Slashdot090221.txt.gz",
        sha256="55e69b402f2d40bc40e36c7c1211557a3d61927d5a45817f8d3db2d367080ca7",
        n_bytes=1_902_344,
        publisher=SNAP,
        read=_read_filtered,
        layout=EDGES,
        filter=PAPER_FILTER,
        shape=(30_670, 39_196),
        n_observed=505_986,
        reported="30,670 x 39,196 with 5.0 x 10^5 observations",
    ),
    "movielens-100k": Source(
        file="ml-100k/u.data",
        address=f"{_GROUPLENS}/ml-100k.zip",
        sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        n_bytes=4_924_029,
        publisher=GROUPLENS,
        read=read_movielens,
        layout=TAB_RATINGS,
        filter=NO_FILTER,
        shape=(943, 1_682),
        n_observed=100_000,
        reported="943 x 1,682 with 10^5 ratings",
    ),
    "movielens-1m": Source(
        file="ml-1m/ratings.dat",
        address=f"{_GROUPLENS}/ml-1m.zip",
        sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        n_bytes=5_917_549,
        publisher=GROUPLENS,
        read=read_movielens,
        layout=COLON_RATINGS,
        filter=NO_FILTER,
        shape=(6_040, 3_706),
        n_observed=1_000_209,
        reported="6,040 x 3,449 with 10^6 ratings; no simple filter of the published file gives 3,449 movies",
    ),
    "movielens-10m": Source(
        file="ml-10M100K/ratings.dat",
        address=f"{_GROUPLENS}/ml-10m.zip",
        sha256="813c411ccb6122564edfe752e7f80c4dcc5aa25fa94c93622f6877a7ba252862",
        n_bytes=65_566_137,
        publisher=GROUPLENS,
        read=read_movielens,
        layout=COLON_RATINGS,
        filter=NO_FILTER,
        shape=(69_878, 10_677),
        n_observed=10_000_054,
        reported="69,878 x 10,677 with 10^7 ratings",
    ),
}
