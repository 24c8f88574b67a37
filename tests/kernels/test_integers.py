"""Integer labels are read as Python reads them, and only if they are written as programs print them."""

import numpy as np
import pyarrow as pa
import pytest

from rankwise.kernels.integers import read_integers

PLAIN = ["0", "7", "-7", "10", "-100", "9" * 18, "-" + "9" * 18]
OTHER = [
    "",
    "-",
    "00",
    "007",
    "-0",
    "-01",
    "+7",
    " 7",
    "7 ",
    "7.0",
    "1e3",
    "1_0",
    "0x1F",
    "a",
    "7a",
    "1" * 19,
    "\u0661",
]


def read(texts):
    _, ends, text = pa.array(texts).buffers()
    numbers = np.empty(len(texts), np.int64)
    return read_integers(np.frombuffer(text, np.uint8), np.frombuffer(ends, np.int32), numbers), numbers.tolist()


def test_integers_are_those_of_python():
    assert read(PLAIN) == (True, [int(text) for text in PLAIN])


@pytest.mark.parametrize("text", OTHER, ids=repr)
def test_text_that_is_not_printed_so_is_no_integer(text):
    for texts in ([text], ["12", text], [text, "12"]):
        assert not read(texts)[0]
