"""Labels of text stay apart, and one long label does not fill the memory."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rankwise import DataError, Observations
from rankwise.io import Reading, read_table
from rankwise.observations.labels import MAX_LABEL

FRAMES = [pd.DataFrame, pl.DataFrame, pa.table]


def observed(labels):
    """Ways to give row labels to `Observations`."""
    columns = {"u": labels, "i": list(range(len(labels))), "r": [1.0] * len(labels)}
    yield lambda: Observations.from_labels(labels, columns["i"], columns["r"])
    yield lambda: Observations.from_labels(np.array(labels, object), columns["i"], columns["r"])
    yield lambda: Observations.from_coo(columns["i"], columns["i"], columns["r"], labels=(labels, None))
    for frame in FRAMES:
        yield lambda frame=frame: Observations.from_frame(frame(columns), row="u", col="i", value="r")


@pytest.mark.parametrize(
    ("label", "words"),
    [("a\0", "ends in a zero character"), ("x" * 50_000, f"more than {MAX_LABEL} characters")],
    ids=["zero", "long"],
)
def test_labels_that_arrays_of_text_cannot_hold_are_refused(label, words):
    for build in observed(["a", label]):
        with pytest.raises(DataError, match=f"row label '.*{words}"):
            build()
    with pytest.raises(DataError, match=f"row label b'.*{words}"):
        Observations.from_labels([b"a", label.encode()], [0, 1], [1.0, 2.0])


def test_a_long_label_is_refused_before_all_take_its_space():
    labels = [*map(str, range(20_000)), "x" * 10**8]  # an array of these would take 8 TB
    with pytest.raises(DataError, match="characters"):
        Observations.from_labels(labels, np.arange(20_001), np.ones(20_001))


def test_labels_up_to_the_limit_are_kept():
    for build in observed(["a", "\0a", "x" * MAX_LABEL]):
        assert build().row_labels.tolist() in (["\0a", "a", "x" * MAX_LABEL], ["a", "\0a", "x" * MAX_LABEL])


def test_a_zero_at_the_end_of_a_label_in_a_file_is_a_bad_line(tmp_path):
    plain = "".join(f"user {k},x,1\n" for k in range(10_000))  # beyond what the dialect is guessed from
    (tmp_path / "r.csv").write_text(plain + "user 7\0,y,1\n")
    with pytest.raises(DataError, match="line 10001: a label ends in a zero character"):
        read_table(tmp_path / "r.csv")
    table = read_table(tmp_path / "r.csv", Reading(skip_bad_lines=True))
    assert table.size == 10_000


def test_levels_of_a_dictionary_that_do_not_occur_are_no_rows():
    users = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2], pa.int8()), ["zoe", "nobody", "ann"])
    table = pa.table({"u": users, "i": [1, 2, 2], "r": [1.0, 2.0, 3.0]})
    for part in (table, pa.concat_tables([table.slice(0, 1), table.slice(1)])):
        found = Observations.from_frame(part, row="u", col="i", value="r")
        assert found.row_labels.tolist() == ["ann", "zoe"] and found.shape == (2, 2)
