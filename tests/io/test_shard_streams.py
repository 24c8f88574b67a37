"""Files that are read in a stream give the shards of what is read at once; and the command that does it."""

import gzip

import numpy as np
import pytest
from click.testing import CliRunner

import rankwise as rw
from rankwise.cli import main
from rankwise.io import Reading, read_file, shard_file, text
from rankwise.observations import shards as cutting


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Small shards and small chunks, so that there are many of both."""
    monkeypatch.setattr(cutting, "MIN_SHARD", 40)
    monkeypatch.setattr(text, "BATCH_ENTRIES", 50)
    monkeypatch.setattr(text, "ARROW_BYTES", 500)


def entries(seed=0):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random((70, 23)) < 0.3)
    order = rng.permutation(rows.size)
    return rows[order], cols[order], rng.integers(1, 11, rows.size) / 2


def as_text(rows, cols, values, separator=",", header="user,item,rating\n"):
    return header + "".join(
        f"{row}{separator}{col}{separator}{value}\n" for row, col, value in zip(rows, cols, values, strict=True)
    )


def assert_same(path, folder, **how):
    wanted = read_file(path, **how)
    duplicates = how.pop("duplicates", "error")
    found = rw.ShardFolder(shard_file(path, folder, how=Reading(**how), duplicates=duplicates)[0])
    assert found.shape == wanted.shape and len(found.sizes) > 3
    for name in ("row_labels", "col_labels"):
        assert getattr(found, name).dtype.kind == getattr(wanted, name).dtype.kind
        assert np.array_equal(getattr(found, name), getattr(wanted, name))
    for left, right in zip(wanted.pieces(), found.pieces(), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("kind", ["plain", "names", "quoted", "mixed", "zeros", "late name", "double colon", "gzip"])
def test_text_in_any_style_gives_the_same_shards(tmp_path, kind):
    rows, cols, values = entries()
    path = tmp_path / "e.csv"
    if kind == "gzip":
        path = tmp_path / "e.csv.gz"
        path.write_bytes(gzip.compress(as_text(rows, cols, values).encode()))
    elif kind == "double colon":
        path.write_text(as_text(rows, cols, values, "::", ""))
    else:
        called = {
            "plain": rows,
            "names": [f"user {row}" for row in rows],
            "quoted": [f'"user, {row}"' for row in rows],
            "mixed": [f"{row}" if row % 2 else f"u{row}" for row in rows],
            "zeros": [f"{row:03d}" for row in rows],
            "late name": [*rows[:-1], "x"],
        }[kind]
        path.write_text(as_text(called, cols, values))
    assert_same(path, tmp_path / "f")


def test_bad_lines_are_refused_or_left_out_as_in_memory(tmp_path):
    rows, cols, values = entries()
    path = tmp_path / "e.csv"
    text = as_text(rows, cols, values).splitlines(keepends=True)
    path.write_text("".join([*text[:99], "1,2,oops\n", *text[99:]]))
    with pytest.raises(rw.DataError, match="line 100"):
        shard_file(path, tmp_path / "f")
    assert not (tmp_path / "f").exists()
    assert_same(path, tmp_path / "f", skip_bad_lines=True)
    _, notes = shard_file(path, tmp_path / "g", how=Reading(skip_bad_lines=True))
    assert any("left out 1 line" in note for note in notes)


@pytest.mark.parametrize("labels", ["numbers", "text of numbers", "names"])
def test_parquet_gives_the_same_shards(tmp_path, labels, monkeypatch):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("rankwise.io.parquet.PARQUET_ROWS", 30)
    rows, cols, values = entries()
    called = {"numbers": rows, "text of numbers": rows.astype(str), "names": [f"u{row}" for row in rows]}[labels]
    frame = pandas.DataFrame({"user": called, "item": cols, "rating": values, "share": 1.0 + (cols % 3)})
    frame.to_parquet(tmp_path / "e.parquet")
    assert_same(tmp_path / "e.parquet", tmp_path / "f", weight="share")
    (tmp_path / "parts").mkdir()
    for k in range(3):
        frame[k::3].to_parquet(tmp_path / "parts" / f"{k}.parquet")
    wanted, folder = read_file(tmp_path / "e.parquet"), shard_file(tmp_path / "parts", tmp_path / "g")[0]
    for left, right in zip(wanted.pieces(), rw.ShardFolder(folder).pieces(), strict=True):
        assert np.array_equal(left.indices, right.indices) and np.array_equal(left.targets, right.targets)


def test_parquet_with_gaps_is_refused_by_row_or_they_are_left_out(tmp_path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("rankwise.io.parquet.PARQUET_ROWS", 30)
    rows, cols, values = entries()
    frame = pandas.DataFrame({"user": [f"u{row}" for row in rows], "item": cols, "rating": values})
    frame.loc[70, "user"] = None
    frame.loc[80, "rating"] = np.nan
    frame.to_parquet(tmp_path / "e.parquet")
    with pytest.raises(rw.DataError, match="row 71"):
        shard_file(tmp_path / "e.parquet", tmp_path / "f")
    assert_same(tmp_path / "e.parquet", tmp_path / "f", skip_bad_lines=True)


def test_what_cannot_be_streamed_says_so(tmp_path):
    (tmp_path / "m.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.5\n")
    with pytest.raises(rw.DataError, match=r"Matrix Market.*stream"):
        shard_file(tmp_path / "m.mtx", tmp_path / "f")
    (tmp_path / "empty").mkdir()
    with pytest.raises(rw.DataError, match=r"without any \.parquet"):
        shard_file(tmp_path / "empty", tmp_path / "f")
    with pytest.raises(rw.DataError, match="no file"):
        shard_file(tmp_path / "none.csv", tmp_path / "f")


def run(*words):
    return CliRunner().invoke(main, list(map(str, words)))


def test_from_a_file_to_a_model_by_commands(tmp_path):
    rows, cols, values = entries()
    path = tmp_path / "ratings.csv"
    path.write_text(as_text([f"u{row}" for row in rows], cols, values))
    told = run("shards", path, "-o", tmp_path / "shards")
    assert told.exit_code == 0, told.output
    assert f"{rows.size:,}" in told.output and "separated by commas" in told.output
    models = [tmp_path / "a.rankwise", tmp_path / "b.rankwise"]
    for given, model in zip((path, tmp_path / "shards"), models, strict=True):
        done = run("fit", given, "-o", model, "--max-iter", 2, "--held-out", path)
        assert done.exit_code == 0, done.output
    left, right = map(rw.load, models)
    assert left.U.tobytes() == right.U.tobytes() and left.seen is not None and right.seen is None
    assert run("info", models[1]).exit_code == 0
    again = run("shards", path, "-o", tmp_path / "shards")
    assert again.exit_code == 1 and "exists" in again.output


def test_commands_refuse_in_one_line(tmp_path):
    rows, cols, values = entries()
    path = tmp_path / "ratings.csv"
    path.write_text(as_text(rows, cols, values))
    for words, said in [
        (("fit", path, "--memory-limit", "1GB"), "--memory-limit"),
        (("fit", tmp_path), "is a folder; name a file in it, or a folder written by `rankwise shards`"),
        (("shards", path, "-o", tmp_path / "no" / "f"), "no folder"),
    ]:
        done = run(*words)
        assert done.exit_code == 1 and said in done.output and done.output.count("\n") <= 2, done.output
    run("shards", path, "-o", tmp_path / "f")
    for words, said in [(("--held-out", "0.1"), "in memory"), (("--memory-limit", "10"), "must be at least")]:
        done = run("fit", tmp_path / "f", "-o", tmp_path / "m.rankwise", *words)
        assert done.exit_code == 1 and said in done.output, done.output
