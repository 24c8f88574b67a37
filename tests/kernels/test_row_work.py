"""The row solver's scratch: compiled code finds every array where plain Python does, and no two overlap."""

import numpy as np
import pytest

from rankwise.kernels.jit import jit
from rankwise.kernels.row_work import PLACES, Scratch, Work, workspace

ENDS = {1: ("0", "-1"), 2: ("0, 0", "-1, -1")}  # first and last place, by dimensions
LINES = "\n".join(
    f"    work.{name}[{end}] = {k}.0" for k, name in enumerate(PLACES, 1) for end in ENDS[len(PLACES[name].shape)]
)
SPACE = {"workspace": workspace, "__name__": __name__}
exec(f"def number_the_ends(scratch):\n    work = workspace(scratch)\n{LINES}", SPACE)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_compiled_code_finds_every_array_where_plain_python_does(kind):
    plain, compiled = Scratch.zero(16, np.dtype(kind)), Scratch.zero(16, np.dtype(kind))
    SPACE["number_the_ends"](plain)
    jit(SPACE["number_the_ends"])(compiled)
    for one, other in zip(plain[:2], compiled[:2], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("width", [8, 16, 72])
def test_arrays_fill_the_scratch_without_overlap(width):
    scratch = Scratch.zero(width, np.dtype(np.float32))
    work = workspace(scratch)
    assert set(Work._fields) == set(PLACES)
    parts = [part for name, part in work._asdict().items() if name != "tile"]  # the tile is eight of the others
    for part in parts:
        part += 1.0
    assert max(part.max() for part in parts if part is not work.diagonal) == 1.0 and (work.diagonal == 2.0).all()
    assert (scratch.numbers == 1.0).all() and work.tile.sum() == work.tile.size
