"""Download published data sets by pooch: checked by their checksums before they appear under their names."""

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .._errors import DataError, SettingError
from .._files import file_lock
from .sources import VARIABLE, Source, find, folders, get

ReportBytes = Callable[[int, int | None], None]
TIMEOUT = 30.0  # seconds
REPORT_BYTES = 1 << 14  # bytes between two progress reports


def _silent(n_bytes: int, total: int | None) -> None:
    """Report nothing."""


def fetch(name: str, report: ReportBytes = _silent) -> Path:
    """Return the file of a published data set; download it if it is missing or damaged.

    Parameters
    ----------
    name : {"epinions", "slashdot", "movielens-100k", "movielens-1m", "movielens-10m"}
        The publisher's licence is ``SOURCES[name].publisher.licence``.
    report : callable (n_bytes, total), optional
        See `download`.

    Returns
    -------
    Path
        A file that existed before may be unpacked or compressed otherwise than the publisher's.

    Examples
    --------
    >>> import rankwise as rw
    >>> path = rw.datasets.fetch("movielens-100k")  # doctest: +SKIP
    """
    source = get(name)
    path = find(source)
    return path if path is not None and source.is_sound(path) else download(source, folders()[0], report)


def download(source: Source, folder: Path, report: ReportBytes = _silent, timeout: float = TIMEOUT) -> Path:
    """Download a data set from its publisher into a data folder.

    The bytes are written to a temporary file, which is renamed when its checksum is right and deleted otherwise; an
    interrupted download starts again. A process that downloads the same file at the same time is waited for.

    Parameters
    ----------
    source : Source
    folder : Path
        The data folder; created if it does not exist.
    report : callable (n_bytes, total), optional
        Called with the number of bytes received and the size of the file, None if the server does not state it.
    timeout : float, default=30
        Seconds without a byte after which the connection is given up.

    Returns
    -------
    Path
        The publisher's file, as published. An empty lock file, which keeps two downloads apart, stays beside it.

    Examples
    --------
    >>> import rankwise as rw
    >>> source = rw.datasets.get("movielens-100k")
    >>> path = rw.datasets.download(source, rw.datasets.folders()[0])  # doctest: +SKIP
    """
    import pooch

    target = source.target(folder)
    headers = {"User-Agent": "rankwise", "Accept-Encoding": "identity"}  # identity: bytes as published
    with _errors(source, target), _quiet(pooch.get_logger()), ExitStack() as stack:

        def close_at_end(response: Any, **_: Any) -> None:  # pooch leaves responses open
            stack.callback(response.close)

        options: dict[str, Any] = {"headers": headers, "timeout": timeout, "hooks": {"response": close_at_end}}
        downloader = pooch.HTTPDownloader(_Progress(report), REPORT_BYTES, **options)
        target.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(target.with_name(f".{target.name}.lock")):
            pooch.retrieve(source.address, f"sha256:{source.sha256}", target.name, target.parent, downloader=downloader)
    return target


class _Progress:
    """Progress bar as pooch calls it, which passes the number of bytes to a function."""

    def __init__(self, report: ReportBytes) -> None:
        self._total, self._report, self._n_bytes = 0, report, 0

    @property
    def total(self) -> int:
        """Size of the file; 0 if the server does not state it."""
        return self._total

    @total.setter
    def total(self, n_bytes: int) -> None:
        self._total = n_bytes
        self._report(0, n_bytes or None)

    def update(self, n_bytes: int) -> None:
        """Add bytes; pooch rounds them up to whole chunks."""
        self._n_bytes += n_bytes
        if self._n_bytes:
            self._report(min(self._n_bytes, self.total or self._n_bytes), self.total or None)

    def reset(self) -> None:
        """Count from zero."""
        self._n_bytes = 0

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence the lines that pooch prints for each file."""
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _errors(source: Source, target: Path) -> Iterator[None]:
    """Turn errors of the network, the checksum and the file system into one sentence each."""
    from requests import RequestException

    by_hand = f"try again, or get {source.published} by other means and put it at {target}."
    try:
        yield
    except RequestException as error:
        reason = _cause(error) if error.response is None else f"HTTP status {error.response.status_code}"
        raise DataError(f"Cannot fetch {source.address} ({reason}); {by_hand}") from None
    except ValueError:  # raised by pooch for a wrong checksum
        raise DataError(
            f"What {source.address} sent is not the published file: its checksum is wrong, it was deleted; {by_hand}"
        ) from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "make room there" if full else "make it one to write to"
        place = f"the folder {target.parent} ({error.strerror or error})"
        raise SettingError(f"Cannot use {place}; {remedy}, or set {VARIABLE} to another.") from None


def _cause(error: BaseException) -> str:
    """The first error of a chain in words, such as "Connection refused"."""
    while error.__context__ is not None:
        error = error.__context__
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason.splitlines()[0] if reason else type(error).__name__
