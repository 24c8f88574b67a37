"""Entries out of Dask frames: bit for bit those of the whole frame in memory, or refused by the same sentence."""

from itertools import chain

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from clusters import tiny_shards
from distributed import Client, LocalCluster

from rankwise import DataError, MatrixCompletion, Observations, SettingError, ShardFileError, write_shards
from rankwise.dask import ClusterEntries, read_frame, read_parquet, read_shards
from rankwise.losses import Logistic, Square

NAMES = {"row": "user", "col": "film", "value": "stars"}


@pytest.fixture(scope="module")
def client():
    """Workers in threads of this process: quick, and what they do is the same."""
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**settings, silence_logs=50) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


def ratings(n=1500, seed=0, repeats=False, text=True):
    rng = np.random.default_rng(seed)
    cells = rng.integers(0, 200 * 40, n) if repeats else rng.permutation(200 * 40)[:n]
    users, films = np.divmod(cells, 40)
    frame = pd.DataFrame({"user": users, "film": films, "stars": rng.integers(1, 6, n).astype(float)})
    frame["weight"] = rng.integers(0, 3, n) / 3.0
    if text:
        frame["user"] = [f"u{user}" for user in users]
        frame["film"] = [chr(65 + film % 26) * (1 + film // 26) for film in films]
    return frame


def assert_same(entries, observations):
    wanted = observations.weighted()
    assert entries.shape == wanted.shape
    for found, labels in ((entries.row_labels, wanted.row_labels), (entries.col_labels, wanted.col_labels)):
        assert found.dtype == labels.dtype and np.array_equal(found, labels)
    for ours, theirs in ((entries, wanted), (entries.transposed(), wanted.transposed())):
        assert np.array_equal(ours.cuts(), theirs.cuts())
        for load, piece in zip(ours.loads, theirs.pieces(), strict=True):
            found = load.result()
            assert (found.start, found.n_cols) == (piece.start, piece.n_cols)
            for one, other in zip(found[2:], piece[2:], strict=True):
                assert (one is None) == (other is None)
                assert one is None or (one.dtype == other.dtype and one.tobytes() == other.tobytes())
        assert np.array_equal(ours.row_weights(), theirs.row_weights())
    assert entries.n_observed == wanted.n_observed and len(entries.loads) >= 4
    assert (entries.total_weight, entries.heaviest) == (wanted.total_weight, wanted.heaviest)
    assert entries.target_facts() == wanted.target_facts()
    for n in (6, 1000, 10**6):
        assert np.array_equal(entries.few_targets(n), wanted.few_targets(n))
    whole, some = entries.sample(10**6), entries.sample(100)
    assert np.array_equal(whole.targets, wanted.targets) and np.array_equal(whole.indices, wanted.indices)
    assert 50 <= some.n_observed <= 100


@pytest.mark.parametrize("text", [True, False], ids=["text", "numbers"])
@pytest.mark.parametrize("n_partitions", [1, 7])
def test_shards_are_those_of_the_whole_frame(client, monkeypatch, text, n_partitions):
    tiny_shards(monkeypatch)
    frame = ratings(text=text).sample(frac=1.0, random_state=1)
    entries = read_frame(dd.from_pandas(frame, npartitions=n_partitions, sort=False), client=client, **NAMES)
    assert_same(entries, Observations.from_frame(frame, **NAMES))


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("duplicates", ["mean", "last"])
def test_repeats_are_merged_wherever_partitions_end(client, monkeypatch, weight, duplicates):
    tiny_shards(monkeypatch)
    frame, names = ratings(6000, repeats=True), NAMES | {"weight": weight, "duplicates": duplicates}
    entries = read_frame(dd.from_pandas(frame, npartitions=5, sort=False), client=client, **names)
    assert_same(entries, Observations.from_frame(frame, **names))


def test_entries_without_weight_are_left_out(client, monkeypatch):
    tiny_shards(monkeypatch)
    frame, names = ratings(3000), NAMES | {"weight": "weight"}
    assert (frame["weight"] == 0).any()
    entries = read_frame(dd.from_pandas(frame, npartitions=4, sort=False), client=client, **names)
    assert_same(entries, Observations.from_frame(frame, **names))


def test_float32_stays_and_empty_partitions_do_no_harm(client, monkeypatch):
    tiny_shards(monkeypatch)
    frame = ratings().astype({"stars": np.float32})
    given = dd.from_pandas(frame, npartitions=6, sort=False)
    given = given[given["user"] != "u7"]
    given = dd.concat([given.partitions[:2], given[given["stars"] > 9], given.partitions[2:]])
    entries = read_frame(given, client=client, **NAMES)
    assert entries.loads[0].result().targets.dtype == np.float32
    assert_same(entries, Observations.from_frame(frame[frame["user"] != "u7"], **NAMES))


def test_parquet_files_are_read_by_the_workers(client, monkeypatch, tmp_path):
    tiny_shards(monkeypatch)
    frame = ratings()
    for k in range(3):
        frame[k::3].to_parquet(tmp_path / f"part{k}.parquet")
    wanted = Observations.from_frame(pd.concat([frame[k::3] for k in range(3)]), **NAMES)
    files = sorted(map(str, tmp_path.iterdir()))
    for path in (tmp_path, str(tmp_path), files):
        assert_same(read_parquet(path, client=client, **NAMES), wanted)


def spoiled(column, lines, value):
    frame = ratings(400, text=column != "stars")
    frame[column] = frame[column].astype(object if column in ("user", "film") else float)
    frame.loc[frame.index[lines], column] = value
    return frame


WRONG = {
    "no row label": (spoiled("user", [150, 390], None), {}),
    "no column label": (spoiled("film", [370, 399], None), {}),
    "no value": (spoiled("stars", [151, 300], np.nan), {}),
    "infinite value": (spoiled("stars", [398], np.inf), {}),
    "infinite weight": (spoiled("weight", [222], np.inf), {"weight": "weight"}),
    "negative weight": (spoiled("weight", [221, 320], -2.0), {"weight": "weight"}),
    "no weight at all": (ratings(400).assign(weight=0.0), {"weight": "weight"}),
    "text for numbers": (ratings(400).assign(stars="five"), {}),
    "a pair twice": (pd.concat([ratings(400), ratings(400)[200:203]]), {}),
    "no such column": (ratings(400).drop(columns="film"), {}),
    "no name": (ratings(400), {"col": None}),
    "unknown treatment": (ratings(400), {"duplicates": "first"}),
}


@pytest.mark.parametrize(("frame", "changed"), WRONG.values(), ids=WRONG)
def test_the_same_sentence_says_what_is_wrong(client, frame, changed):
    names = NAMES | changed
    with pytest.raises((DataError, SettingError)) as wanted:
        Observations.from_frame(frame, **names)
    with pytest.raises(type(wanted.value)) as found:
        read_frame(dd.from_pandas(frame, npartitions=4, sort=False), client=client, **names)
    assert str(found.value) == str(wanted.value)


def test_targets_that_the_loss_does_not_take_are_refused_by_the_same_sentence(client, monkeypatch):
    tiny_shards(monkeypatch)
    frame = ratings()
    frame["stars"] = np.where(frame["stars"] > 3, 1.0, -1.0)
    frame.loc[[700, 900], "stars"] = 3.0
    entries, wanted = (
        read_frame(dd.from_pandas(frame, npartitions=3, sort=False), client=client, **NAMES),
        Observations.from_frame(frame, **NAMES),
    )
    for loss, dtype in ((Logistic(), "float32"), (Square(), "float32")):
        if isinstance(loss, Square):
            frame["stars"] = 1e30
            entries = read_frame(dd.from_pandas(frame, npartitions=3, sort=False), client=client, **NAMES)
            wanted = Observations.from_frame(frame, **NAMES)
        sentences = []
        for given in (entries, wanted):
            with pytest.raises(DataError) as refused:
                _engine(given, loss, dtype)
            sentences.append(str(refused.value))
        assert sentences[0] == sentences[1]


def _engine(given, loss, dtype):
    from rankwise.engines import engine_over

    return engine_over(given, loss, np.dtype(dtype))


def test_what_has_no_entry_is_refused(client):
    frame = dd.from_pandas(ratings(40)[:0], npartitions=1)
    with pytest.raises(DataError, match="no observed entry"):
        read_frame(frame, client=client, **NAMES)


def test_entries_say_what_they_are(client, monkeypatch):
    tiny_shards(monkeypatch)
    entries = read_frame(dd.from_pandas(ratings(), npartitions=2, sort=False), client=client, **NAMES)
    n = len(entries.loads)
    assert isinstance(entries, ClusterEntries) and repr(entries).startswith("ClusterEntries(200 x 40, 1500 observed")
    assert f"{n} shards" in repr(entries) and entries.transposed().transposed() is entries
    assert list(chain(entries.weighted().sizes)) == entries.sizes


def test_shard_files_are_mapped_by_the_workers(client, monkeypatch, tmp_path):
    tiny_shards(monkeypatch)
    frame = ratings()
    folder = write_shards([tuple(frame[name].to_numpy() for name in NAMES.values())], tmp_path / "shards")
    wanted = Observations.from_frame(frame, **NAMES)
    entries = read_shards(folder, client=client)
    assert entries.row_labels.tolist() == wanted.row_labels.tolist()
    for load, piece in zip(entries.loads, wanted.pieces(), strict=True):
        for one, other in zip(load.result()[2:5], piece[2:5], strict=True):
            assert np.array_equal(one, other)
    fits = [MatrixCompletion("square", method="eglrl", rank=2).fit(X) for X in (entries, folder)]
    fits.append(MatrixCompletion("square", method="eglrl", rank=2).fit(frame, **NAMES))
    assert fits[0].U_.tobytes() == fits[1].U_.tobytes() == fits[2].U_.tobytes()
    with pytest.raises(SettingError, match="`row` must be None for a folder of shards"):
        MatrixCompletion().fit(folder, row="user")


def test_a_damaged_shard_file_is_refused(client, monkeypatch, tmp_path):
    tiny_shards(monkeypatch)
    frame = ratings()
    folder = write_shards([tuple(frame[name].to_numpy() for name in NAMES.values())], tmp_path / "shards")
    victim = sorted(folder.glob("*-targets.npy"))[1]
    content = bytearray(victim.read_bytes())
    content[-70] ^= 1
    victim.write_bytes(content)
    with pytest.raises(ShardFileError, match="damaged"):
        read_shards(folder, client=client)
