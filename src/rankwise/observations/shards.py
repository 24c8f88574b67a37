"""Where a matrix is cut into row shards: by the data alone, never by threads or workers."""

import numpy as np
from numpy.typing import NDArray

SMALLEST, LARGEST, WANTED = 1 << 16, 1 << 22, 16


def cut_rows(indptr: NDArray[np.uint64], n_cols: int) -> NDArray[np.int64]:
    """Row numbers at which shards begin, and the number of rows.

    A shard holds about 1/16 of the observations, but at least twice as many as there are columns, so that adding up
    the shards' column sums costs less than making them, and at most four million. Rows stay whole.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,)
        Entry number at which each row begins.
    n_cols : int

    Returns
    -------
    ndarray of shape (n_shards + 1,)
    """
    n_rows, n_observed = indptr.size - 1, int(indptr[-1])
    size = min(max(n_observed // WANTED, SMALLEST, 2 * n_cols), max(LARGEST, 2 * n_cols))
    n_shards = max(1, n_observed // size)
    wanted = np.arange(1, n_shards, dtype=np.uint64) * np.uint64(n_observed) // np.uint64(n_shards)
    inner = np.searchsorted(indptr, wanted, side="left")
    return np.unique(np.concatenate(([0], inner, [n_rows]))).astype(np.int64)
