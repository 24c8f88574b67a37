"""Reading people's files: whatever the style, the same entries; what is guessed is told; bad lines are named."""

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from contextlib import suppress
from itertools import permutations

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise import DataError, SettingError, ShardFolder
from rankwise.datasets import read_movielens
from rankwise.io import Reading, read_file, read_table, shard_file
from rankwise.io.text import Irregular, TextFile
from rankwise.observations.labels import EncodedLabels, numbered, numbered_parts

ENTRIES = [
    ("ann", "dune", 4.5),
    ("bob", "dune", 3.0),
    ("ann", "alien", 1.0),
    ("cy", "brazil", -2.25),
    ("bob", "x", 0.0),
]
NUMBERED = [("1", "20", 4.5), ("2", "20", 3.0), ("1", "7", 1.0), ("33", "9", -2.25), ("2", "1", 0.0)]
SEPARATORS = {"commas": ",", "tabs": "\t", "semicolons": ";", "bars": "|", "'::'": "::", "blanks": " "}


def write(folder, text, name="some.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def lines(entries, separator=",", header=()):
    rows = [header] * bool(header) + [(row, col, f"{value:g}") for row, col, value in entries]
    return "".join(separator.join(row) + "\n" for row in rows)


def held(observations):
    """The entries as a dictionary, labels as text."""
    rows, cols = observations.row_labels[observations.rows], observations.col_labels[observations.cols]
    return {(str(row), str(col)): value for row, col, value in zip(rows, cols, observations.targets, strict=True)}


@pytest.mark.parametrize("entries", [ENTRIES, NUMBERED], ids=["text", "numbers"])
@pytest.mark.parametrize("header", [(), ("user", "item", "rating"), ("a", "b", "c")], ids=["bare", "known", "unknown"])
@pytest.mark.parametrize("separator", SEPARATORS.values(), ids=SEPARATORS)
def test_every_style_gives_the_same_entries(tmp_path, separator, header, entries):
    table = read_table(write(tmp_path, lines(entries, separator, header)))
    assert held(table.observations()) == {(row, col): value for row, col, value in entries}
    words = next(words for words, text in SEPARATORS.items() if text == separator)
    assert f"separated by {words}, {'a' if header else 'no'} header" in table.notes[0]
    assert all(repr(name) in table.notes[0] for name in header)


def test_labels_are_numbers_only_if_all_are_written_as_such(tmp_path):
    assert read_file(write(tmp_path, lines(NUMBERED))).row_labels.tolist() == [1, 2, 33]
    assert read_file(write(tmp_path, "7,1,1\n007,1,2\n")).row_labels.tolist() == ["007", "7"]
    late = "".join(f"{k},1,1\n" for k in range(20_000)) + "last,1,1\n"  # beyond what the style is guessed from
    observations = read_file(write(tmp_path, late))
    assert observations.shape == (20_001, 1) and observations.row_labels.dtype.kind == "U"


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_packed_files_hold_what_the_plain_ones_do(tmp_path, ending, pack):
    (path := tmp_path / f"r.csv.{ending}").write_bytes(pack(lines(ENTRIES).encode()))
    assert held(read_file(path)) == {(row, col): value for row, col, value in ENTRIES}


def test_the_fast_and_the_general_reader_agree(tmp_path):
    rng = np.random.default_rng(3)
    seen = rng.random((40, 30)) < 0.3
    rows, cols = np.nonzero(seen)
    values = np.round(rng.normal(0, 30, rows.size), 3)
    text = "".join(f"{r},{c},{v}\n" for r, c, v in zip(rows, cols, values, strict=True))
    fast = read_file(write(tmp_path, text, "fast.csv"))
    slow = read_file(write(tmp_path, "".join(f'"{r}",{c},{v}\n' for r, c, v in zip(rows, cols, values, strict=True))))
    np.testing.assert_array_equal(fast.to_sparse().toarray(), slow.to_sparse().toarray())
    np.testing.assert_array_equal(fast.row_labels, slow.row_labels)
    np.testing.assert_array_equal(fast.targets, values[np.lexsort((cols, rows))].astype(np.float32))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.tuples(st.text(max_size=6), st.text(max_size=6)), st.floats(-1e6, 1e6), min_size=1))
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, entries):
    clean = {}
    for pair, value in entries.items():
        names = tuple("".join(c for c in name if c.isprintable()).strip() or "empty" for name in pair)
        clean[names] = np.float32(value)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("who", "what", "rating", "when"))
    writer.writerows((row, col, repr(float(value)), "today, 9:30") for (row, col), value in clean.items())
    path = write(tmp_path_factory.mktemp("csv"), out.getvalue())
    assert held(read_file(path, separator=",", header=True, row="who", col="what")) == clean


def test_columns_are_found_by_name_in_any_order(tmp_path):
    for header in ("who,what,stars", "stars,who,what"):  # one known name, the others in order
        cells = dict(zip(("who", "what", "stars"), ("1", "7", "3.5"), strict=True))
        path = write(tmp_path, f"{header}\n{','.join(cells[name] for name in header.split(','))}\n")
        assert held(read_file(path)) == {("1", "7"): 3.5}
    text = "timestamp,movieId,rating,userId\n99,7,3.5,1\n98,8,4,2\n"
    table = read_table(write(tmp_path, text))
    assert held(table.observations()) == {("1", "7"): 3.5, ("2", "8"): 4.0}
    assert "rows from 'userId', columns from 'movieId', values from 'rating'; not used: 'timestamp'" in table.notes[0]


@pytest.mark.parametrize("names", [("b", "c", "d"), (2, 3, 4), ("2", "3", "4")], ids=str)
def test_columns_can_be_named_and_counted(tmp_path, names):
    path = write(tmp_path, "a,b,c,d,e\n9,x,y,1,2\n9,x,z,3,0.5\n")
    row, col, value = names
    observations = read_table(path, Reading(row, col, value, weight="e")).observations()
    assert held(observations) == {("x", "y"): 1.0, ("x", "z"): 3.0}
    assert observations.weights.tolist() == [2.0, 0.5]


def test_pairs_need_no_value(tmp_path):
    for text in ("1,2\n3,4\n", "ann,dune\nbob,alien\n", "user,item\n1,2\n3,4\n"):
        table = read_table(write(tmp_path, text), Reading(pairs=True))
        assert table.size == 2 and table.values is None
    assert read_table(write(tmp_path, "5,6,9\n3,6,8\n"), Reading(pairs=True)).rows.labels.tolist() == [5, 3]


def test_comments_blank_lines_and_windows_ends_are_passed_over(tmp_path):
    text = "# made by hand\n#\n\n1\t2\t3\r\n\r\n4\t5\t6\r\n"
    assert held(read_file(write(tmp_path, text))) == {("1", "2"): 3.0, ("4", "5"): 6.0}
    assert held(read_file(write(tmp_path, text.replace("1\t", "one\t")))) == {("one", "2"): 3.0, ("4", "5"): 6.0}


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    text = lines(NUMBERED, header=("user", "item", "rating"))
    assert "'user'" in read_table(write(tmp_path, text, encoding="utf-8-sig")).notes[0]
    assert held(read_file(write(tmp_path, lines(NUMBERED), encoding="utf-8-sig")))[("1", "20")] == 4.5


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_other_encodings_are_read_when_named_and_refused_with_their_line_when_not(tmp_path, encoding):
    path = write(tmp_path, "anna,dune,1\nzoë,dune,2\n", encoding=encoding)
    assert ("zoë", "dune") in held(read_file(path, encoding=encoding))
    with pytest.raises(DataError, match=r"some.csv, line [12]: .*encoding="):
        read_file(path)


def test_bad_lines_are_counted_and_the_first_is_shown(tmp_path):
    path = write(tmp_path, "user,item,rating\na,b,1\na,c\n\na,d,high\na,,2\na,e,inf\na,f,1_000\na,g,5\n")
    with pytest.raises(DataError, match=r"line 3: 3 columns are needed, and it has 2: 'a,c'\. 5 lines cannot be read"):
        read_file(path)
    table = read_table(path, Reading(skip_bad_lines=True))
    assert held(table.observations()) == {("a", "b"): 1.0, ("a", "g"): 5.0}
    assert "left out 5 lines" in table.notes[1] and "line 3" in table.notes[1]


@pytest.mark.parametrize("labels", [("u", "i", "j"), ("1", "2", "3")], ids=["text", "numbers"])
def test_repeats_name_both_lines_and_can_be_merged(tmp_path, labels):
    u, i, j = labels
    path = write(tmp_path, f"user,item,rating\n{u},{i},1\n{u},{j},2\n\n{u},{i},4\n")
    with pytest.raises(DataError, match=r"line 5: .* at line 2 \(1 repeated in all\).*duplicates=\"mean\""):
        read_file(path)
    assert held(read_file(path, duplicates="mean"))[(u, i)] == 2.5
    assert held(read_file(path, duplicates="last"))[(u, i)] == 4.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("user,item,rating\n", "no entries"),
        ("one\ntwo\n", "line 1: the file has one column"),
        ("a,b\nc,d\n", "line 1: the file has 2 columns"),
        ("a;b;3,5\n", "decimals need a point"),
        ("a,b,\n", "the value is missing"),
        ('a,b,1\nc,d,2\n"e,f,3\ng,h,4\n', "line 3: .* quote"),
        ('a,b,1\nc,d,2\n"e,f,3\n' + "g,h,4\n" * 40_000, "line 3: .* quote"),
        (f"a,b,1\n{'x' * 2000},b,1\n", "line 2: .* 1000 characters"),
        ("a\0b,c,1\n", "not text"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path, text, words):
    with pytest.raises(DataError, match=words):
        read_file(write(tmp_path, text))


def test_what_is_asked_for_must_be_there(tmp_path):
    path = write(tmp_path, "a,b,c\n1,2,3\n")
    with pytest.raises(DataError, match="no column 'z' for the value; it has the columns 'a', 'b', 'c'"):
        read_file(path, value="z")
    with pytest.raises(SettingError, match="one column cannot be two"):
        read_file(path, row="a", col="a")
    with pytest.raises(SettingError, match="Unknown encoding"):
        read_file(path, encoding="klingon")
    with pytest.raises(SettingError, match="separator"):
        read_file(path, separator="--")


def test_parquet_files_keep_the_type_of_their_labels(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    users, items, stars = zip(*ENTRIES, strict=True)
    path = tmp_path / "r.parquet"
    parquet.write_table(arrow.table({"rating": stars, "when": range(5), "item": items, "user": users}), path)
    assert held(read_file(path)) == {(row, col): value for row, col, value in ENTRIES}
    table = read_table(path, Reading(pairs=True))
    assert table.values is None and table.cols.labels.tolist() == list(items)
    parquet.write_table(arrow.table({"user": [3, None, 4], "item": [1, 1, 1], "rating": [1.0, 2.0, None]}), path)
    with pytest.raises(DataError, match=r"r.parquet, row 2: .* 2 such rows"):
        read_file(path)
    table = read_table(path, Reading(skip_bad_lines=True))
    assert table.observations().row_labels.tolist() == [3] and "left out 2 rows" in table.notes[1]
    parquet.write_table(arrow.table({"user": [1], "item": [1], "rating": ["good"]}), path)
    with pytest.raises(DataError, match="not numbers"):
        read_file(path)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataError, match="Parquet"):
        read_file(path)


def test_matrix_market_files_are_called_by_numbers_from_one(tmp_path):
    matrix = sp.random_array((6, 4), density=0.5, rng=np.random.default_rng(5), format="coo")
    scipy.io.mmwrite(tmp_path / "m.mtx", matrix)
    observations = read_file(tmp_path / "m.mtx")
    assert observations.row_labels.tolist() == [1, 2, 3, 4, 5, 6] and observations.shape == (6, 4)
    np.testing.assert_allclose(observations.to_sparse().toarray(), matrix.toarray(), rtol=1e-6)
    (tmp_path / "p.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1\n")
    with pytest.raises(DataError, match="pattern"):
        read_file(tmp_path / "p.mtx")
    (tmp_path / "bad.mtx").write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n9 1 3.0\n")
    with pytest.raises(DataError, match="Matrix Market"):
        read_file(tmp_path / "bad.mtx")


@pytest.mark.parametrize(
    ("start", "words"), [(b"PK\x03\x04", "Excel"), (b"\x1f\x8b\x08", "ends in .gz"), (b"%PDF-1.7", "PDF")]
)
def test_other_kinds_of_files_are_recognised(tmp_path, start, words):
    (tmp_path / "f.csv").write_bytes(start + bytes(100))
    with pytest.raises(DataError, match=words):
        read_file(tmp_path / "f.csv")


# What the readers once took for something else.

PLAIN = "".join(f"{k},1,1\n" for k in range(10_000))  # more than the style is guessed from
DIALECTS = [",", "\t", ";", "|", "::", " "]


def read_by_split(text, separator, places):
    """Entries by `str.split` alone."""
    cells = (line.split(separator if separator != " " else None) for line in text.splitlines())
    return {(fields[places[0]], fields[places[1]]): float(fields[places[2]]) for fields in cells}


def streamed(path, folder, **how):
    """What `shard_file` makes of a file, as `held` says it."""
    entries = ShardFolder(shard_file(path, folder, how=Reading(**how))[0])
    found = {}
    for piece in entries.pieces():
        rows = np.repeat(np.arange(piece.start, piece.stop), np.diff(piece.indptr.astype(int)))
        names = zip(entries.row_labels[rows].tolist(), entries.col_labels[piece.indices].tolist(), strict=True)
        found |= {(str(row), str(col)): value for (row, col), value in zip(names, piece.targets, strict=True)}
    return found


def test_column_numbers_are_no_names_in_a_file_without_a_header(tmp_path):
    path = write(tmp_path, "2,1,5\n3,1,4\n4,2,3\n")
    for row, col, value in [("1", "2", "3"), (1, 2, 3)]:
        assert held(read_file(path, row=row, col=col, value=value)) == {("2", "1"): 5, ("3", "1"): 4, ("4", "2"): 3}
    named = read_file(path, row="1", col="2", value="5", header=True)  # a header of numbers has to be told
    assert held(named) == {("1", "3"): 4, ("2", "4"): 3}


@pytest.mark.parametrize("separator", DIALECTS)
@pytest.mark.parametrize("places", list(permutations(range(4), 3)), ids=str)
def test_columns_that_are_not_used_may_stand_anywhere(tmp_path, separator, places):
    rows = [(f"{k:2d}" if separator == " " else str(k), str(k % 7), str(k % 5), str(k % 3)) for k in range(30)]
    text = "".join(separator.join(row) + "\n" for row in rows)
    row, col, value = (place + 1 for place in places)
    wanted = read_by_split(text, separator, places)
    found = held(read_file(write(tmp_path, text), row=row, col=col, value=value, duplicates="last"))
    assert found == wanted


def test_single_colons_are_part_of_a_field(tmp_path):
    path = write(tmp_path, "1::12:30:00::501::4\n2::12:31:00::502::5\n")
    assert held(read_file(path, row=1, col=3, value=4)) == {("1", "501"): 4, ("2", "502"): 5}
    for bad in ("1:30:2::5", "1::2::4:5"):
        with pytest.raises(DataError, match="line 3"):
            read_file(write(tmp_path, f"1::2::3\n2::2::4\n{bad}\n"), separator="::")


@pytest.mark.parametrize("odd", ["007", "+7", "-0", "1234567890123456789"])
@pytest.mark.parametrize("side", [0, 1])
def test_labels_mean_the_same_wherever_in_the_file_they_come(tmp_path, odd, side):
    more = "".join(",".join(pair[:: 1 - 2 * side]) + ",2\n" for pair in [(odd, "-1"), ("7", "-2")])
    late, early = write(tmp_path, PLAIN + more, "late.csv"), write(tmp_path, more + PLAIN, "early.csv")
    assert (found := held(read_file(late))) == held(read_file(early)) == streamed(late, tmp_path / "shards")
    assert found[(odd, "-1")[:: 1 - 2 * side]] == 2 and len(found) == 10_002


def test_quotes_that_come_late_are_quotes(tmp_path):
    plain = "".join(f"{k},x,1,1\n" for k in range(10_000))
    found = held(read_file(write(tmp_path, plain + '5,"x,7,8,y",2,3\n'), row=1, col=3, value=4))
    assert len(found) == 10_001 and found[("5", "2")] == 3
    path = write(tmp_path, PLAIN.replace("\n", ",x\n") + '5,2,3,"two\n6,2,3,lines"\n')
    assert len(held(read_file(path, row=1, col=2, value=3))) == 10_001


@pytest.mark.parametrize("header", ["", "user,item,rating,time\n"], ids=["bare", "header"])
@pytest.mark.parametrize("end", ["\r", "\r\n"], ids=["return", "both"])
def test_lines_may_end_as_they_like(tmp_path, header, end):
    text = header + "".join(f"{k},{k % 7},{k % 5},9\n" for k in range(49))
    how = {"row": 1, "col": 2, "value": 3}
    wanted = held(read_file(write(tmp_path, text, "unix.csv"), **how))
    path = write(tmp_path, text.replace("\n", end))
    assert len(wanted) == 49 and wanted == held(read_file(path, **how)) == streamed(path, tmp_path / "shards", **how)
    mixed = write(tmp_path, PLAIN + "7,2,3,x\r8,2,3,x\r", "mixed.csv")
    assert len(held(read_file(mixed))) == 10_002


def test_published_formats_may_end_lines_in_returns(tmp_path):
    path = write(tmp_path, "1\t2\t3\t4\n196\t242\t3\t881250949\r186\t302\t3\t891717742\r")
    assert held(read_movielens(path)) == {("1", "2"): 3, ("196", "242"): 3, ("186", "302"): 3}


def test_columns_beyond_the_header_are_called_by_number(tmp_path):
    table = read_table(write(tmp_path, "user,item\n1,2,3\n1,4,5\n"))
    assert "values from column 3" in table.notes[0]
    assert held(table.observations()) == {("1", "2"): 3, ("1", "4"): 5}
    trailing = write(tmp_path, "user,item,rating\n1,2,3,\n4,5,6,\n")
    assert held(read_file(trailing)) == {("1", "2"): 3, ("4", "5"): 6}


@pytest.mark.parametrize("separator", [",", " ", "\t"])
def test_row_names_that_r_writes_have_no_header(tmp_path, separator):
    text = '"user","item","rating"\n"1",7,8,2\n"2",7,9,3\n"3",6,9,4\n'.replace(",", separator)
    table = read_table(write(tmp_path, text))
    assert held(table.observations()) == {("7", "8"): 2, ("7", "9"): 3, ("6", "9"): 4}
    assert "not used: 'row names'" in table.notes[0]


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", " "])
def test_quotes_hold_fields_together_whatever_character_separates_them(tmp_path, separator):
    entries = [(f"ann{separator}lee", "dune", 1), ("bob", f"the{separator}thing", 2), ("5'8\"", "x", 3)]
    out = io.StringIO()
    csv.writer(out, delimiter=separator, quoting=csv.QUOTE_NONNUMERIC).writerows(entries)
    assert held(read_file(write(tmp_path, out.getvalue()))) == {(row, col): value for row, col, value in entries}


@pytest.mark.parametrize("mark", ["\u2028", "\x0c", "\x85", "\x0b", "\x1c"])
def test_lines_end_at_newlines_and_returns_only(tmp_path, mark):
    path = write(tmp_path, f"# a{mark}# b\nuser,item,rating\n1,2,3\n4,5,6\n7,8,9\n")
    assert held(read_file(path)) == {("1", "2"): 3, ("4", "5"): 6, ("7", "8"): 9}


def test_archives_that_cannot_be_unpacked_are_refused_in_a_sentence(tmp_path):
    path = tmp_path / "r.zip"
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(DataError, match="holds no file"):
        read_file(path / "r.csv")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("r.csv", lines(NUMBERED))
    content = path.read_bytes()
    for at, value, words in [(6, 1, "password"), (8, 9, "compression")]:  # the flag of encryption; the way of packing
        damaged = bytearray(content)
        damaged[at] = damaged[content.index(b"PK\x01\x02") + at + 2] = value
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=f"cannot be unpacked .*{words}"):
            read_file(path / "r.csv")


def both_readers(path, folder, **how):
    """`read_file` and `shard_file` of one file."""
    return lambda: read_file(path, **how), lambda: shard_file(path, folder, how=Reading(**how))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([[1], [2]], "row labels are list"),
        ([{"a": 1}, {"a": 2}], "row labels are struct"),
        ([b"\xff", b"a"], "row labels are binary"),
    ],
    ids=["list", "struct", "bytes"],
)
def test_parquet_labels_that_are_neither_text_nor_numbers_are_refused(tmp_path, labels, words):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "r.parquet"
    parquet.write_table(arrow.table({"user": labels, "item": [1, 2], "rating": [1.0, 2.0]}), path)
    for read in both_readers(path, tmp_path / "shards"):
        with pytest.raises(DataError, match=words):
            read()


def test_parquet_bytes_are_read_as_text(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names = ["zoë".encode(), b"ann"]
    parquet.write_table(arrow.table({"user": names, "item": [1, 2], "rating": [1.0, 2.0]}), tmp_path / "r.parquet")
    assert read_file(tmp_path / "r.parquet").row_labels.tolist() == ["ann", "zoë"]


def test_parquet_columns_of_one_name_are_refused_if_they_are_used(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, columns = tmp_path / "r.parquet", [[1, 2], [3, 4], [5, 6], [7, 8]]
    parquet.write_table(arrow.table(columns, names=["user", "user", "item", "rating"]), path)
    for read in both_readers(path, tmp_path / "shards"):
        with pytest.raises(DataError, match="2 columns named 'user'; rename"):
            read()
    parquet.write_table(arrow.table([*columns, columns[0]], names=["x", "user", "item", "rating", "x"]), path)
    assert held(read_file(path)) == streamed(path, tmp_path / "shards") == {("3", "5"): 7, ("4", "6"): 8}


def test_categories_without_entries_are_no_rows(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "r.parquet"
    users = arrow.DictionaryArray.from_arrays([2, 0], ["zoe", "nobody", "ann"])
    parquet.write_table(arrow.table({"user": users, "item": [1, 2], "rating": [1.0, 2.0]}), path)
    wanted = {("ann", "1"): 1.0, ("zoe", "2"): 2.0}
    assert held(read_file(path)) == wanted == streamed(path, tmp_path / "shards")
    assert read_file(path).shape == (2, 2)


def test_gaps_of_a_streamed_parquet_file_are_counted_over_the_whole_file(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rankwise.io.parquet.PARQUET_ROWS", 10)
    users = [None if k in (13, 27, 28, 55) else k for k in range(60)]
    path = tmp_path / "r.parquet"
    parquet.write_table(arrow.table({"user": users, "item": range(60), "rating": [1.0] * 60}), path)
    for read in both_readers(path, tmp_path / "shards"):
        with pytest.raises(DataError, match=r"row 14: .* 4 such rows in all"):
            read()
    how = Reading(skip_bad_lines=True)
    notes = shard_file(path, tmp_path / "shards", how=how)[1]
    assert notes == read_table(path, how).notes and "left out 4 rows" in notes[1]


MARKET = "%%MatrixMarket matrix {}\n"


def test_matrix_market_files_that_are_nearly_all_empty_are_refused_before_they_fill_the_memory(tmp_path):
    size = 10**13
    path = write(tmp_path, MARKET.format("coordinate real general") + f"{size} {size} 1\n1 1 3.0\n", "m.mtx")
    with pytest.raises(DataError, match="nearly all empty"):
        read_file(path)
    path = write(tmp_path, MARKET.format("array real general") + f"{10**7} {10**7}\n1\n", "m.mtx")
    with pytest.raises(DataError, match="cannot be read as Matrix Market"):
        read_file(path)


@pytest.mark.parametrize("kind", ["pattern", "complex", "real"])
def test_pairs_of_a_matrix_market_file_need_no_values(tmp_path, kind):
    value = {"pattern": "", "complex": " 1 2", "real": " nan"}[kind]
    text = MARKET.format(f"coordinate {kind} general") + f"3 3 2\n1 2{value}\n3 1{value}\n"
    table = read_table(write(tmp_path, text, "m.mtx"), Reading(pairs=True))
    assert (table.rows.labels.tolist(), table.cols.labels.tolist(), table.values) == ([1, 3], [2, 1], None)


@pytest.mark.parametrize("role", ["row", "col", "value", "weight"])
def test_matrix_market_files_have_no_columns_to_choose_from(tmp_path, role):
    path = write(tmp_path, MARKET.format("coordinate real general") + "2 2 1\n1 1 3.0\n", "m.mtx")
    with pytest.raises(SettingError, match=f"leave out `{role}`"):
        read_file(path, **{role: "1"})


@pytest.mark.parametrize("labels", ["numbers", "text", "quoted"])
def test_a_stream_gives_many_entries_at_a_time(tmp_path, monkeypatch, labels):
    """Each chunk that brings a new label costs a sort of all labels."""
    monkeypatch.setattr("rankwise.io.text.ARROW_BYTES", 500)
    monkeypatch.setattr("rankwise.io.text.BATCH_ENTRIES", 300)
    monkeypatch.setattr("rankwise.io.entry_table.CHUNK_ENTRIES", 1000)
    text = PLAIN if labels == "numbers" else PLAIN.replace("\n", "\nu") + "last,1,1\n"
    text = text if labels != "quoted" else text + 'u,"two\nlines",1\n'
    sizes = []
    monkeypatch.setattr(
        "rankwise.io.entry_table.write_shards", lambda chunks, *_, **__: sizes.extend(len(rows) for rows, *_ in chunks)
    )
    shard_file(write(tmp_path, text), tmp_path / "shards")
    assert sizes and all(1000 <= size < 2000 for size in sizes[-10:-1]) and sum(sizes[-11:]) >= 10_000


def test_labels_are_numbered_alike_in_one_part_and_in_many(monkeypatch):
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-5, 900, size) for size in (40, 1, 300)]
    arrays += [array.astype(np.int8) for array in arrays]
    for table in (0, 10_000):  # by sorting, and by a table
        monkeypatch.setattr("rankwise.observations.labels.SMALL_TABLE", table)
        found = numbered_parts([EncodedLabels(array) for array in arrays], "row")
        for mine, wanted in zip(found, np.unique(np.concatenate(arrays), return_inverse=True), strict=True):
            np.testing.assert_array_equal(mine, wanted)
    big = np.array([2**64 - 1, 2**63, 2**64 - 1], np.uint64)
    assert [part.tolist() for part in numbered(big - np.uint64(5), "row")] == [[2**63 - 5, 2**64 - 6], [1, 0, 1]]


ODD = ["a,b,1\n", '"a",b,1\n', '"a,x",b,1\n', 'a "b",c,1\n', 'a,5",1\n', '"a""b",c,1\n', " a , b , 1 \n", "NA,null,1\n"]
ODD += [
    "a,b,+1\n",
    "a,b,1,more\n",
    "a,b,1\r\n",
    "007,b,1e2\n",
    "a,b,.5\n",
    "é,ü,1\n",
    "\n",
    "1,2,3\n",
    "-0,2,3\n",
    '"a"b,c,2\n',
]


def entries_of(batch):
    """The entries of a batch, labels as text."""
    rows, cols = (
        (side.names if side.codes is None else side.names[side.codes]).astype(str) for side in (batch.rows, batch.cols)
    )
    return list(zip(rows, cols, *batch.numbers, strict=True))


@pytest.mark.parametrize("line", ODD, ids=repr)
def test_pyarrow_and_the_csv_module_find_the_same_fields(tmp_path, line):
    """Whatever pyarrow does not reject, it reads as Python does."""
    path = write(tmp_path, f"r,c,0\n{line}s,c,2\n")
    *quick, sure = TextFile(str(path), Reading(header=False, separator=",")).readers()
    wanted = [entry for batch in sure for entry in entries_of(batch)]
    for batches in quick:
        with suppress(Irregular):
            assert [entry for batch in batches for entry in entries_of(batch)] == wanted
    assert len(wanted) == 3 - (line == "\n")


@pytest.mark.parametrize("separator", [",", "::", " ", "\t"])
def test_regular_files_are_read_by_pyarrow(tmp_path, separator):
    """Comments and long separators are no reason to read line by line."""
    text = "# made by hand\n" + lines(ENTRIES, separator) + "# the end\n"
    first, *_ = TextFile(str(write(tmp_path, text)), Reading()).readers()
    assert sum(len(batch.rows) for batch in first) == len(ENTRIES)
