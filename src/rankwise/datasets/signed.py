"""Signed networks in the format of the Stanford Network Analysis Project (SNAP)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import DataError
from ..io.text import AnyPath, Layout, read_entries
from ..observations import Observations

Array = NDArray[Any]
SNAP = Layout("\t", (0, 1, 2), "#", "`from<TAB>to<TAB>sign` with a sign of -1 or 1", lambda signs: np.abs(signs) == 1)
LEAST = 2  # entries that a row or a column of the paper's cut has


def read_signed_network(path: AnyPath) -> tuple[Array, Array, Array]:
    r"""Edges of a signed network: a tab-separated line ``from to sign`` each, comments after ``#``.

    Takes plain text, gzip (a name that ends in .gz), or a file inside a zip archive (``edges.zip/edges.txt``); 0.2 s
    for the 841,372 edges of Epinions.

    Returns
    -------
    rows, cols : ndarray of int64, shape (n_edges,)
        Node numbers of the file: who judges, and who is judged.
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
    return read_entries(path, SNAP)


def paper_filter(rows: ArrayLike, cols: ArrayLike, values: ArrayLike) -> Observations:
    """The paper's cut of a signed network (Section 5.1): rows and columns with few entries are left out.

    Rows with fewer than two entries go first, then columns with fewer than two of the entries that are left; one pass
    each. A row emptied by the second pass still counts as a row. Self loops stay.

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
    row_of, col_of, value_of = (np.asarray(given) for given in (rows, cols, values))
    if not row_of.shape == col_of.shape == value_of.shape or row_of.ndim != 1:
        raise DataError(f"Edges need one row, column and value each, got {row_of.shape, col_of.shape, value_of.shape}.")
    row_labels, row_of, kept = _frequent(row_of)
    col_of, value_of = col_of[kept], value_of[kept]
    col_labels, col_of, kept = _frequent(col_of)
    shape, labels = (row_labels.size, col_labels.size), (row_labels, col_labels)
    return Observations.from_coo(row_of[kept], col_of, value_of[kept], shape, labels=labels)


def _frequent(nodes: Array) -> tuple[Array, Array, Array]:
    """Nodes that occur at least twice, the number of each occurrence among them, and which occurrences stay."""
    labels, place, counts = np.unique(nodes, return_inverse=True, return_counts=True)
    frequent = counts >= LEAST
    kept = frequent[place]
    return labels[frequent], (np.cumsum(frequent) - 1)[place[kept]], kept
