"""Fetch a published file: resumed where it was cut, checked before it appears under its name."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from filelock import FileLock

from .._errors import DataError, SettingError
from .sources import VARIABLE, Source, find, folders, get

Report = Callable[[int, int | None], None]
TIMEOUT = 30.0  # seconds without a single byte
CHUNK = 1 << 14


def _silent(n_bytes: int, total: int | None) -> None:
    """Report nothing."""


def fetch(name: str, report: Report = _silent) -> Path:
    """Make sure that a published data set is on this machine: download it if it is missing or damaged.

    Parameters
    ----------
    name : {"epinions", "slashdot", "movielens-100k", "movielens-1m", "movielens-10m"}
        The publisher's licence is ``SOURCES[name].publisher.licence``.
    report : callable (n_bytes, total), optional
        See `download`.

    Returns
    -------
    Path
        Its file. One that was there already may be unpacked or packed otherwise than the publisher's.

    Examples
    --------
    >>> import rankwise as rw
    >>> path = rw.datasets.fetch("movielens-100k")  # doctest: +SKIP
    """
    source = get(name)
    there = find(source)
    return there if there is not None and source.is_sound(there) else download(source, folders()[0], report)


def download(source: Source, folder: Path, report: Report = _silent, timeout: float = TIMEOUT) -> Path:
    """Download a data set from its publisher into a data folder.

    Bytes go to a file whose name ends in .part; a later call goes on from there if the server can. The file gets its
    name when its checksum is right. A part left by another version of the file, found out by the checksum, is dropped
    and everything is fetched anew, once. Where another call is at work on the same file, this one waits for it.

    Parameters
    ----------
    source : Source
    folder : Path
        The data folder, made if it is not there.
    report : callable (n_bytes, total), optional
        Called with the bytes so far and the bytes in all, None if the server does not say.
    timeout : float, default=30
        Seconds without a byte after which the connection counts as lost.

    Returns
    -------
    Path
        The publisher's file, as published.

    Examples
    --------
    >>> import rankwise as rw
    >>> source = rw.datasets.get("movielens-100k")
    >>> path = rw.datasets.download(source, rw.datasets.folders()[0])  # doctest: +SKIP
    """
    target = source.target(folder)
    with _writing(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            if not (target.is_file() and source.matches(target)):  # it does if it was waited for
                _complete(source, target, report, timeout)
    return target


def _complete(source: Source, target: Path, report: Report, timeout: float) -> None:
    """Bring the part of `target` to the published bytes, and give it its name."""
    part = part_of(target)
    resumed = part.is_file()
    if not resumed or not source.matches(part):  # it does if the last call ended just before the renaming
        _extend(source, target, report, timeout)
    if resumed and not source.matches(part):
        part.unlink()
        _extend(source, target, report, timeout)
    if not source.matches(part):
        part.unlink()
        raise DataError(_mismatch(source, target))
    os.replace(part, target)


def part_of(target: Path) -> Path:
    """Where the bytes of an unfinished download are."""
    return target.with_name(f"{target.name}.part")


def _extend(source: Source, target: Path, report: Report, timeout: float) -> None:
    """Bring the part of `target` to its full length, from where it ends if the server can."""
    part = part_of(target)
    n_bytes = part.stat().st_size if part.exists() else 0
    with _network(source, target):
        response = _answer(source.address, n_bytes, timeout)
    goes_on = response.status == 206
    with response, part.open("r+b" if goes_on else "wb") as file:
        n_bytes = file.seek(n_bytes if goes_on else 0)
        total = None if response.length is None else n_bytes + response.length
        report(n_bytes, total)
        for chunk in _chunks(response, source, target):
            file.write(chunk)
            n_bytes += len(chunk)
            report(n_bytes, total)
    if total is not None and n_bytes < total:
        raise DataError(_lost(source, target, f"the connection ended after {n_bytes:,} of {total:,} bytes"))


def _answer(address: str, start: int, timeout: float) -> HTTPResponse:
    """The server's answer to a request for the bytes from `start` on; a whole file if it cannot give just those."""
    if start:
        try:
            response = _ask(address, timeout, {"Range": f"bytes={start}-"})
        except HTTPError as error:
            error.close()
            if error.code != 416:  # 416: the file has no such bytes, so the part is not of this file
                raise
        else:
            if response.status != 206 or response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
                return response
            response.close()
    return _ask(address, timeout, {})


def _ask(address: str, timeout: float, headers: dict[str, str]) -> HTTPResponse:
    response: HTTPResponse = urlopen(Request(address, headers={"User-Agent": "rankwise"} | headers), timeout=timeout)
    return response


def _chunks(response: HTTPResponse, source: Source, target: Path) -> Iterator[bytes]:
    """The body, piece by piece."""
    while True:
        with _network(source, target):
            chunk = response.read(CHUNK)
        if not chunk:
            return
        yield chunk


@contextmanager
def _network(source: Source, target: Path) -> Iterator[None]:
    """Turn what a missing network, a lost connection or a refusal raises into one sentence."""
    try:
        yield
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
        cause = getattr(error, "reason", error)
        reason = f"HTTP status {error.code}" if isinstance(error, HTTPError) else getattr(cause, "strerror", None)
        raise DataError(_lost(source, target, reason or str(cause) or type(cause).__name__)) from None


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn what a full disk or a locked folder raises into one sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "make room there" if full else "make it one to write to"
        raise SettingError(
            f"Cannot use the folder {folder} ({error.strerror or error}); {remedy}, or set {VARIABLE} to another."
        ) from None


def _lost(source: Source, target: Path, reason: str) -> str:
    return (
        f"Cannot fetch {source.address} ({reason}); try again, which goes on from what has come, "
        f"or get {source.published} by other means and put it at {target}."
    )


def _mismatch(source: Source, target: Path) -> str:
    return (
        f"What {source.address} sent is not the published file: its checksum is wrong, and it was deleted; "
        f"try again, or get {source.published} by other means and put it at {target}."
    )
