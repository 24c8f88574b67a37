"""Entries of SciPy's sparse matrices, whose arrays are checked first, since compiled code of SciPy trusts them."""

from typing import Any

import numpy as np

from .._arrays import Array
from .._errors import DataError
from .build import refuse_huge

DAMAGED = "The {} matrix is damaged: {}; build it again, for example with `scipy.sparse.coo_array`."


def compressed(matrix: Any) -> tuple[Array, Array, Array]:
    """Return `indptr`, `indices` and `data` of a CSR, CSC or BSR matrix; DataError unless they fit together.

    Nearly empty matrices are refused first, because checking them takes long. SciPy allows arrays that are longer than
    `indptr` says; these are cut.
    """
    indptr, indices, data = (np.asarray(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    refuse_huge(matrix.shape[0], matrix.shape[1], data.size)
    height = max(1, data.shape[1]) if matrix.format == "bsr" and data.ndim == 3 else 1
    n_major = matrix.shape[1] if matrix.format == "csc" else matrix.shape[0] // height
    sound = indptr.shape == (n_major + 1,) and indptr.dtype.kind in "iu" and indptr[0] == 0
    if not (sound and np.all(indptr[:-1] <= indptr[1:])):
        reason = f"`indptr` must be {n_major + 1} integers that begin at 0 and never fall"
        raise DataError(DAMAGED.format(matrix.format.upper(), reason))
    n = int(indptr[-1])
    if indices.ndim != 1 or not n <= indices.size == len(data):
        reason = f"`indptr` ends at {n}, but `indices` has {indices.size} elements and `data` has {len(data)}"
        raise DataError(DAMAGED.format(matrix.format.upper(), reason))
    return indptr, indices[:n], data[:n]


def entries_of(matrix: Any) -> tuple[Array, Array, Array]:
    """Return row numbers, column numbers and values of the stored entries; numbers may lie outside the matrix."""
    if matrix.format in ("csr", "csc"):
        indptr, indices, data = compressed(matrix)
        counts: Array = np.diff(indptr.astype(np.int64))
        major = np.repeat(np.arange(indptr.size - 1), counts)
        return (major, indices, data) if matrix.format == "csr" else (indices, major, data)
    if matrix.format == "bsr":
        compressed(matrix)
    elif matrix.format == "lil" and [len(row) for row in matrix.rows] != [len(row) for row in matrix.data]:
        raise DataError(DAMAGED.format("LIL", "`rows` and `data` differ in length"))
    elif matrix.format == "dia":
        _check_diagonals(matrix)
    try:
        coo = matrix.tocoo()
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        raise DataError(DAMAGED.format(matrix.format.upper(), str(error).rstrip("."))) from None
    return coo.coords[0], coo.coords[1], coo.data


def _check_diagonals(matrix: Any) -> None:
    offsets, data = np.asarray(matrix.offsets), np.asarray(matrix.data)
    sound = offsets.dtype.kind in "iu" and data.ndim == 2 and offsets.shape == data.shape[:1]
    if not (sound and np.all((offsets > -(2**31)) & (offsets < 2**31))):  # SciPy converts them to 32 bits
        raise DataError(DAMAGED.format("DIA", "`offsets` must be one 32-bit integer for each line of `data`"))
