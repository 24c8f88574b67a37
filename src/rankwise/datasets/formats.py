"""File formats of published data sets: MovieLens ratings (GroupLens) and signed networks (SNAP)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import Array
from .._errors import DataError
from ..io import LabelColumn, Reading, read_table
from ..io.files import AnyPath, opened
from ..io.text import BadLineError
from ..observations import Observations

MIN_ENTRIES = 2  # entries that a row or a column has after `paper_filter`


def read_movielens(path: AnyPath) -> Observations:
    r"""Read MovieLens ratings in stars, users by items, labelled by their numbers in the file.

    Reads the format of MovieLens 100K (``u.data``, tabs) and that of 1M and 10M (``ratings.dat``, ``::``), plain,
    compressed, or inside a zip archive (``ml-1m.zip/ml-1m/ratings.dat``). Times are ignored. Ten million ratings take
    about three seconds.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import rankwise as rw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "ratings.dat")
    ...     _ = path.write_text("1::1193::5::978300760\n2::661::3::978302109\n")
    ...     seen = rw.datasets.read_movielens(path)
    >>> print(seen.row_labels, seen.col_labels, seen.targets)
    [1 2] [ 661 1193] [5. 3.]
    """
    with opened(path) as stream:
        colons = b"::" in stream.readline(1000)
    separator, shown = ("::", "::") if colons else ("\t", "<TAB>")
    line = shown.join(("user", "item", "rating", "time"))
    return Observations.from_labels(*_read_published(path, separator, f"`{line}`", np.isfinite))


def read_signed_network(path: AnyPath) -> tuple[Array, Array, Array]:
    r"""Read the edges of a signed network: tab-separated lines ``from to sign`` below comments that begin with ``#``.

    Reads plain text, compressed text, or a file inside a zip archive (``edges.zip/edges.txt``). The 841,372 edges of
    Epinions take 0.2 s.

    Returns
    -------
    rows, cols : ndarray of int64, shape (n_edges,)
        Node numbers of the file: the nodes that judge, and those that are judged.
    values : ndarray of float32, shape (n_edges,)
        -1 or +1.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import rankwise as rw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "network.txt")
    ...     _ = path.write_text("# FromNodeId\tToNodeId\tSign\n0\t1\t-1\n1\t2\t1\n")
    ...     rw.datasets.read_signed_network(path)
    (array([0, 1]), array([1, 2]), array([-1.,  1.], dtype=float32))
    """
    words = "`from<TAB>to<TAB>sign` with a sign of -1 or 1"
    return _read_published(path, "\t", words, lambda signs: np.abs(signs) == 1)


def paper_filter(rows: ArrayLike, cols: ArrayLike, values: ArrayLike) -> Observations:
    """Remove rows and columns with few entries from a signed network, as in the paper (Section 5.1).

    One pass removes rows with fewer than two entries, then one pass removes columns with fewer than two of the
    remaining entries. A row that the second pass empties remains a row. Self loops remain.

    Parameters
    ----------
    rows, cols : array-like of int, shape (n_edges,)
    values : array-like of float, shape (n_edges,)

    Returns
    -------
    Observations
        Labelled by node number.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> rows, cols = np.divmod(np.arange(36), 6)
    >>> rows, cols = np.append(rows, 6), np.append(cols, 0)  # a seventh row, with one entry
    >>> seen = rw.datasets.paper_filter(rows, cols, np.ones(37))
    >>> print(seen.shape)
    (6, 6)
    """
    row_of, col_of, signs = (np.asarray(part) for part in (rows, cols, values))
    if not row_of.shape == col_of.shape == signs.shape or row_of.ndim != 1:
        raise DataError(
            "`rows`, `cols` and `values` must be one-dimensional and of one length, got shapes "
            f"{row_of.shape}, {col_of.shape} and {signs.shape}."
        )
    row_labels, row_codes, mask = _frequent(row_of)
    col_of, signs = col_of[mask], signs[mask]
    col_labels, col_codes, mask = _frequent(col_of)
    shape, labels = (row_labels.size, col_labels.size), (row_labels, col_labels)
    return Observations.from_coo(row_codes[mask], col_codes, signs[mask], shape, labels=labels)


def _frequent(nodes: Array) -> tuple[Array, Array, Array]:
    """Nodes that occur at least twice, the index among them of each of their occurrences, the mask of occurrences."""
    labels, codes, counts = np.unique(nodes, return_inverse=True, return_counts=True)
    frequent = counts >= MIN_ENTRIES
    mask = frequent[codes]
    return labels[frequent], (np.cumsum(frequent) - 1)[codes[mask]], mask


def _read_published(
    path: AnyPath, separator: str, words: str, fits: Callable[[Array], Array]
) -> tuple[Array, Array, Array]:
    """Read lines that begin with two integers and a number: rows, columns and values, each of shape (n,).

    `words` describes a line in errors, and `fits` returns a mask of the values that the format may have.
    """
    try:
        table = read_table(path, Reading(row=1, col=2, value=3, separator=separator, header=False))
    except BadLineError as error:
        raise DataError(f"{error.place}: a line must be {words}, got {error.text!r}.") from None
    (rows, row_wrong), (cols, col_wrong) = _integers(table.rows), _integers(table.cols)
    values = np.asarray(table.values)
    wrong = np.flatnonzero(row_wrong | col_wrong | ~fits(values))
    if wrong.size:
        line, text = table.locate(int(wrong[0]))
        raise DataError(f"{table.path}, {line}: a line must be {words}, got {text!r}.")
    return rows, cols, values


def _integers(column: LabelColumn) -> tuple[Array, Array]:
    """Labels as int64, and a mask of those that are not integers; both of shape (n,)."""
    if column.names.dtype.kind == "i":
        return column.labels, np.zeros(column.codes.size, bool)
    numbers = [_integer(name) for name in column.names.tolist()]
    wrong = np.array([number is None for number in numbers])
    return np.array([number or 0 for number in numbers], np.int64)[column.codes], wrong[column.codes]


def _integer(text: str) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if abs(number) < 2**63 and "_" not in text else None
