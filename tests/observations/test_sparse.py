"""Sparse matrices of SciPy: every format has the same entries, and damaged ones are refused before compiled code."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from rankwise import DataError, Observations

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])


def sound(form):
    return sp.coo_array(DENSE).asformat(form)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_has_the_same_entries(form):
    seen = Observations.from_sparse(sound(form), duplicates="last")  # the option leaves out the way of sorted CSR
    stored = seen.targets != 0  # SciPy's blocks have zeros
    assert np.array_equal(seen.rows[stored], [0, 0, 1]) and np.array_equal(seen.cols[stored], [0, 2, 1])
    assert np.array_equal(seen.targets[stored], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("options", [{}, {"duplicates": "mean"}], ids=["sorted", "any order"])
def test_unused_room_at_the_end_of_the_arrays_is_ignored(form, options):
    matrix = sound(form)
    matrix.indices, matrix.data = np.append(matrix.indices, [7, 7]), np.append(matrix.data, [9.0, 9.0])
    assert np.array_equal(Observations.from_sparse(matrix, **options).to_sparse().toarray(), DENSE)


DAMAGE = {
    "csr, beyond the data": ("csr", "indptr", [0, 2, 10**6]),
    "csr, falls": ("csr", "indptr", [0, 10**6, 3]),
    "csr, negative": ("csr", "indptr", [0, -(10**6), 3]),
    "csr, starts later": ("csr", "indptr", [1, 2, 3]),
    "csr, too short": ("csr", "indptr", [0, 3]),
    "csr, fractions": ("csr", "indptr", [0.0, 2.0, 3.0]),
    "csr, column outside": ("csr", "indices", [0, 10**6, 1]),
    "csr, negative column": ("csr", "indices", [0, -(10**6), 1]),
    "csr, few values": ("csr", "data", [1.0]),
    "csc, beyond the data": ("csc", "indptr", [0, 1, 2, 10**6]),
    "csc, row outside": ("csc", "indices", [0, 10**6, 0]),
    "bsr, beyond the data": ("bsr", "indptr", [0, 2, 10**6]),
    "bsr, few blocks": ("bsr", "data", np.ones((1, 1, 1))),
    "coo, column outside": ("coo", "coords", (np.array([0, 0, 1]), np.array([0, 10**6, 1]))),
    "coo, few values": ("coo", "data", [1.0]),
    "dia, few offsets": ("dia", "offsets", [0]),
    "dia, an offset of 33 bits": ("dia", "offsets", [2**32, 0, 1]),
    "lil, more values than columns": ("lil", "data", np.array([[1.0] * 10**5, [3.0]], object)),
    "lil, column outside": ("lil", "rows", np.array([[0, 10**6], [1]], object)),
}


def refused(name):
    form, part, content = DAMAGE[name]
    matrix = sound(form)
    setattr(matrix, part, content if isinstance(content, tuple) else np.asarray(content))
    for options in ({}, {"duplicates": "mean"}):
        with pytest.raises(DataError) as caught:
            Observations.from_sparse(matrix, **options)
        assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_damaged_matrices_are_refused():
    """In a process of its own, because compiled code would write outside of the arrays."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr  # the last line names the case


if __name__ == "__main__":
    for name in DAMAGE:
        print(name, flush=True)
        refused(name)
