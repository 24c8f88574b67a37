"""Shards on disk hold what observations in memory hold, learn the same bits, and never trust a file."""

import contextlib
import io
import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rankwise as rw
from rankwise import Observations, Problem, solve
from rankwise._digests import file_digest
from rankwise.engines import Shard
from rankwise.engines.disk import ScratchFiles, allocate, as_bytes
from rankwise.observations import shards as cutting
from rankwise.storage import write_shards
from rankwise.storage.shard_files import MANIFEST, ShardFiles, _digest, write_shard


@pytest.fixture(autouse=True)
def many_small_shards(monkeypatch):
    monkeypatch.setattr(cutting, "MIN_SHARD", 40)


def entries(n_rows=60, n_cols=17, density=0.5, seed=0):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random((n_rows, n_cols)) < density)
    order = rng.permutation(rows.size)
    return rows[order], cols[order], rng.standard_normal(rows.size)


def chunked(*arrays, size=100):
    for at in range(0, len(arrays[0]), size):
        yield tuple(array[at : at + size] for array in arrays)


def assert_same_pieces(observations, folder):
    assert folder.shape == observations.shape and folder.n_observed == observations.n_observed
    assert np.array_equal(folder.cuts(), observations.cuts())
    for left, right in zip(observations.pieces(), folder.pieces(), strict=True):
        assert (left.start, left.stop, left.n_cols) == (right.start, right.stop, right.n_cols)
        for name in ("indptr", "indices", "targets", "weights"):
            assert np.array_equal(getattr(left, name), getattr(right, name)), name


def as_text(numbers):
    return np.array([f"name {number:03d}" for number in numbers])


@pytest.mark.parametrize("kind", ["numbers", "labels", "text"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_folder_holds_what_observations_hold(tmp_path, kind, size):
    rows, cols, values = entries()
    if kind == "numbers":
        wanted, shape = Observations.from_coo(rows, cols, values, (60, 17)), (60, 17)
    else:
        rows, cols, shape = (as_text(rows), 5 - 3 * cols, None) if kind == "text" else (9 - rows, cols * 1000, None)
        wanted = Observations.from_labels(rows, cols, values)
    found = rw.ShardFolder(write_shards(chunked(rows, cols, values, size=size), tmp_path / "f", shape=shape))
    assert len(found.sizes) > 3
    assert_same_pieces(wanted, found)
    for name in ("row_labels", "col_labels"):
        assert np.array_equal(getattr(wanted, name), getattr(found, name))
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@pytest.mark.parametrize("duplicates", ["mean", "last"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_repeats_are_merged_as_in_memory_and_the_cuts_follow(tmp_path, duplicates, dtype):
    rng = np.random.default_rng(1)
    rows, cols, values = (np.concatenate([part, part[:200]]) for part in entries())
    values = (values + rng.standard_normal(values.size)).astype(dtype)
    weights = rng.random(values.size).astype(dtype)
    weights[::9] = 0.0
    options = {"duplicates": duplicates, "shape": (60, 17)}
    kept = weights > 0  # a copy of weight zero says nothing
    wanted = Observations.from_coo(rows[kept], cols[kept], values[kept], weights=weights[kept], **options)
    assert_same_pieces(Observations.from_coo(rows, cols, values, weights=weights, **options).weighted(), wanted)
    found = rw.ShardFolder(write_shards(chunked(rows, cols, values, weights), tmp_path / "f", **options))
    assert_same_pieces(wanted, found)
    assert found.total_weight == wanted.total_weight and found.heaviest == wanted.heaviest
    assert np.array_equal(found.row_weights(), wanted.row_weights())


def test_repeats_are_refused_by_name_and_nothing_is_left(tmp_path):
    rows, cols, values = (np.concatenate([part, part[:1]]) for part in entries())
    row, col = f"name {rows[0]:03d}", cols[0]
    with pytest.raises(rw.DataError, match=rf"row {row}, column {col}\) is given more than once"):
        write_shards(chunked(as_text(rows), cols, values), tmp_path / "f")
    assert not any(tmp_path.iterdir())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(-5, 5)), min_size=1, max_size=200),
    st.integers(1, 60),
    st.sampled_from(["mean", "last"]),
)
@example([(0, 0, 0), (0, 0, 0), (0, 0, 1)], 2, "mean")  # float32 holds the values, and not their mean
def test_any_entries_come_back(tmp_path_factory, triples, size, duplicates):
    rows, cols, values = (np.array(part) for part in zip(*triples, strict=True))
    folder = tmp_path_factory.mktemp("any") / "f"
    found = rw.ShardFolder(write_shards(chunked(rows, cols, values, size=size), folder, duplicates=duplicates))
    assert_same_pieces(Observations.from_labels(rows, cols, values, duplicates=duplicates), found)


def test_facts_and_samples_are_those_of_memory(tmp_path):
    rows, cols, values = entries()
    wanted = Observations.from_coo(rows, cols, values, (60, 17))
    found = rw.ShardFolder(write_shards(chunked(rows, cols, values), tmp_path / "f", shape=(60, 17)))
    assert found.target_facts() == wanted.target_facts()
    for n in (1, 6, 50, 10_000):
        assert np.array_equal(found.few_targets(n), wanted.few_targets(n))
    every = found.sample(100)
    step = -(-wanted.n_observed // 100)
    assert np.array_equal(every.targets, wanted.targets[::step]) and np.array_equal(every.rows, wanted.rows[::step])
    assert np.array_equal(found.row_weights(), wanted.row_weights())
    assert_same_pieces(wanted.transposed(), found.transposed())
    assert_same_pieces(wanted, found.transposed().transposed())


@pytest.mark.parametrize("memory_limit", [None, "1 GB"])
def test_a_step_that_is_repeated_does_nothing(tmp_path, memory_limit):
    """Shards on disk are made anew for every operation, and remember how far they are."""
    problem = Problem(rw.ShardFolder(written(tmp_path), memory_limit=memory_limit), "square", n_jobs=1)
    u, v = (np.full(size, size**-0.5) for size in problem.shape)
    problem.add(1.0, 50.0, u, v)
    before = problem.engine.run(Shard.evaluate)[0]
    problem.engine.run(Shard.add, problem.current.version, 0.5, 20.0)
    assert problem.engine.run(Shard.evaluate)[0] == before
    problem.engine.run(Shard.add, problem.current.version + 1, 0.5, 20.0)
    assert problem.engine.run(Shard.evaluate)[0] != before


@pytest.mark.parametrize("method", ["eglrl", "glrl", "altmin", "ais-impute", "bayes", "factors"])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_fits_from_disk_have_the_bits_of_fits_in_memory(tmp_path, method, n_jobs):
    rows, cols, values = entries()
    found = rw.ShardFolder(write_shards(chunked(rows, cols, values), tmp_path / "f", shape=(60, 17)))
    both = [found, Observations.from_coo(rows, cols, values, (60, 17))]
    disk, memory = (solve(Problem(data, "square", n_jobs=n_jobs), method, rank=3, max_iter=3).model for data in both)
    for name in ("path", "U", "V"):
        assert getattr(disk, name).tobytes() == getattr(memory, name).tobytes()
    if memory.offsets is not None:
        assert disk.offsets.rows.tobytes() == memory.offsets.rows.tobytes()


@pytest.mark.parametrize("method", ["eglrl", "bayes"])
def test_a_fit_from_disk_goes_on_after_a_crash_with_the_same_bits(tmp_path, method):
    rows, cols, values = entries()
    folder = rw.ShardFolder(write_shards(chunked(rows, cols, values), tmp_path / "f", shape=(60, 17)))
    memory = Observations.from_coo(rows, cols, values, (60, 17))
    wanted = solve(Problem(memory, "square"), method, rank=4, max_iter=4).model

    def crash(record):
        if record.step == 2:
            raise RuntimeError("power is out")

    options = {"rank": 4, "max_iter": 4, "checkpoint": rw.Checkpoint(tmp_path / "c", every=1, resume=True)}
    with pytest.raises(RuntimeError, match="power"):
        solve(Problem(folder, "square"), method, callback=crash, **options)
    found = solve(Problem(folder, "square"), method, **options).model
    for name in ("path", "U", "V"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()


def test_an_estimator_learns_from_a_folder(tmp_path):
    rows, cols, values = entries()
    folder = write_shards(chunked(as_text(rows), cols, values), tmp_path / "f")
    disk = rw.MatrixCompletion(max_iter=2).fit(rw.ShardFolder(folder))
    by_path = rw.MatrixCompletion(max_iter=2).fit(folder)
    memory = rw.MatrixCompletion(max_iter=2).fit(Observations.from_labels(as_text(rows), cols, values))
    pairs = as_text(rows[:20]), cols[:20]
    for fitted in (disk, by_path):
        assert np.array_equal(fitted.predict_entries(*pairs), memory.predict_entries(*pairs))
    disk.save(tmp_path / "m.rankwise")
    assert np.array_equal(rw.load(tmp_path / "m.rankwise").predict_entries(*pairs), memory.predict_entries(*pairs))


@pytest.mark.parametrize(
    "settings",
    [
        {"calibration": 0.1},
        {"method": "eglrl"},
        {"method": "factors"},
        {"method": "admm", "rank": 2, "loss": "l1"},
        {"method": "wiberg", "rank": 2, "loss": "l1"},
    ],
)
def test_what_needs_the_entries_in_memory_says_so(tmp_path, settings):
    rows, cols, values = entries()
    folder = rw.ShardFolder(write_shards(chunked(rows, cols, values), tmp_path / "f"))
    with pytest.raises(rw.SettingError, match="in memory"):
        rw.MatrixCompletion(**settings).fit(folder)


@pytest.mark.parametrize(
    "use",
    [
        lambda model, stored, seen: rw.MatrixCompletion(rank=1, max_iter=1).fit(seen, held_out=stored),
        lambda model, stored, seen: solve(Problem(seen, "square"), "eglrl", rank=1, held_out=stored),
        lambda model, stored, seen: model.residuals(stored),
        lambda model, stored, seen: model.calibrate(stored),
        lambda model, stored, seen: model.fold_in(stored),
    ],
    ids=["fit", "solve", "residuals", "calibrate", "fold_in"],
)
def test_entries_on_disk_are_refused_in_a_sentence_where_they_must_be_in_memory(tmp_path, use):
    seen = Observations.from_labels(*entries())
    stored = rw.ShardFolder(write_shards([entries()], tmp_path / "f"))
    model = rw.MatrixCompletion(rank=1, max_iter=1).fit(seen)
    with pytest.raises(rw.SettingError, match="in memory, and these are in a ShardFolder: give"):
        use(model, stored, seen)


def test_recommending_without_the_seen_pattern_says_so(tmp_path):
    rows, cols, values = entries()
    model = rw.MatrixCompletion(max_iter=1).fit(rw.ShardFolder(write_shards([(rows, cols, values)], tmp_path / "f")))
    with pytest.raises(rw.SettingError, match="exclude_seen"):
        model.recommend(0)
    assert len(model.recommend(0, n=3, exclude_seen=False)[0]) == 3


def written(tmp_path, **options):
    rows, cols, values = entries()
    return write_shards(chunked(rows, cols, values), tmp_path / "f", **options)


def test_facts_and_labels_that_were_changed_are_refused(tmp_path):
    folder = written(tmp_path)
    manifest, labels = (folder / MANIFEST).read_text(), np.load(folder / "row_labels.npy")
    total = json.loads(manifest)["total_weight"]
    (folder / MANIFEST).write_text(manifest.replace(f'"total_weight": {total}', f'"total_weight": {2 * total}'))
    with pytest.raises(rw.ShardFileError, match="manifest"):
        rw.ShardFolder(folder)
    (folder / MANIFEST).write_text(manifest)
    np.save(folder / "row_labels.npy", labels[::-1])
    with pytest.raises(rw.ShardFileError, match="row_labels"):
        rw.ShardFolder(folder)


def files_of(folder, number=1):
    return sorted(folder.glob(f"shard-{number:06d}-*.npy"))


def rewritten(folder, **changes):
    """Write the manifest again with other values and a digest that holds."""
    content = json.loads((folder / MANIFEST).read_text()) | changes
    content.pop("digest", None)
    (folder / MANIFEST).write_text(json.dumps(content | {"digest": _digest(content)}))


def test_a_bit_that_flips_anywhere_is_noticed(tmp_path):
    folder = write_shards(chunked(as_text(entries()[0]), *entries()[1:]), tmp_path / "f")
    rng = np.random.default_rng(0)
    for path in [*files_of(folder), *folder.glob("*_labels.npy"), folder / MANIFEST]:
        sound = path.read_bytes()
        for at in sorted({*range(0, 130, 3), *rng.integers(len(sound), size=100).tolist()}):
            path.write_bytes(sound[:at] + bytes([sound[at] ^ (1 << at % 8)]) + sound[at + 1 :])
            with pytest.raises(rw.ShardFileError):
                rw.ShardFolder(folder).piece(1)
        path.write_bytes(sound)
    assert rw.ShardFolder(folder).piece(1).start > 0


@pytest.mark.parametrize("name", ["indptr", "indices", "targets"])
@pytest.mark.parametrize("length", [0, 1, 8, 100, 127, 128, 129, -1, -64, 1000])
def test_a_file_that_is_cut_short_or_too_long_is_refused(tmp_path, name, length):
    path = written(tmp_path) / f"shard-000001-{name}.npy"
    sound = path.read_bytes()
    path.write_bytes(sound + b"x" * length if length == 1000 else sound[:length])
    with pytest.raises(rw.ShardFileError, match=rf"shard-000001-{name}\.npy"):
        rw.MatrixCompletion(max_iter=1).fit(rw.ShardFolder(tmp_path / "f"))


def test_a_file_that_is_missing_is_named(tmp_path):
    (written(tmp_path) / "shard-000002-indices.npy").unlink()
    with pytest.raises(rw.ShardFileError, match=r"no file .*shard-000002-indices\.npy"):
        list(rw.ShardFolder(tmp_path / "f").pieces())


WRONG = {
    "another column": ("indices", lambda array: array + np.uint32(17)),
    "signed columns": ("indices", lambda array: array.astype(np.int64)),
    "columns in no order": ("indices", lambda array: array[::-1]),
    "rows that run backwards": ("indptr", lambda array: array[::-1]),
    "one row more": ("indptr", lambda array: np.append(array, array[-1])),
    "a target that is not finite": ("targets", lambda array: np.append(array[:-1], np.inf).astype(array.dtype)),
    "targets as text": ("targets", lambda array: array.astype(str)),
    "targets in a table": ("targets", lambda array: array[:, None]),
}


@pytest.mark.parametrize(("name", "change"), WRONG.values(), ids=WRONG)
def test_entries_that_no_matrix_has_are_refused_though_all_digests_hold(tmp_path, name, change):
    folder = written(tmp_path)
    path = folder / f"shard-000001-{name}.npy"
    np.save(path, change(np.load(path)))
    rewritten(folder, files=json.loads((folder / MANIFEST).read_text())["files"] | {path.name: file_digest(path)})
    with pytest.raises(rw.ShardFileError, match="shard-000001"):
        rw.ShardFolder(folder).piece(1)


def test_weights_must_be_positive_though_all_digests_hold(tmp_path):
    (piece,) = Observations.from_coo([0, 1], [0, 1], [1.0, 2.0], weights=[1.0, 2.0]).pieces()
    for weights in ([1.0, 0.0], [np.nan, 1.0], [1.0, -1.0]):
        (tmp_path / str(weights)).mkdir()
        digests = write_shard(tmp_path / str(weights), 0, piece._replace(weights=np.array(weights)))
        files = ShardFiles(tmp_path / str(weights), 0, 0, 2, 2, 2, digests)
        assert files.map().indices.tolist() == [0, 1]
        with pytest.raises(rw.ShardFileError, match="damaged"):
            files.map(check=True)


@pytest.mark.parametrize(
    "manifest",
    [b"", b"[]", b"{}", b"null", b"[" * 100_000, b'{"format": "rankwise-shards", "version": 1}', b"\xff\xfe"],
)
def test_a_folder_that_is_no_folder_of_shards_is_refused(tmp_path, manifest):
    (tmp_path / MANIFEST).write_bytes(manifest)
    with pytest.raises(rw.ShardFileError, match="damaged"):
        rw.ShardFolder(tmp_path)


@pytest.mark.parametrize(
    "field", ["shape", "cuts", "sizes", "weighted", "total_weight", "heaviest", "version", "format", "files"]
)
@pytest.mark.parametrize("lie", [None, -1, [], [0, 1], "x", float("nan"), [2**70, 2**70], {"a": 1}, 10**400])
def test_a_manifest_that_lies_is_refused_though_its_digest_holds(tmp_path, field, lie):
    folder = written(tmp_path)
    rewritten(folder, **{field: lie})
    with pytest.raises(rw.ShardFileError):
        list(rw.ShardFolder(folder).pieces())


def test_a_manifest_with_far_more_columns_than_entries_is_refused(tmp_path):
    """Else the first look at the entries takes memory for all of these columns."""
    folder = written(tmp_path)
    rows, _ = rw.ShardFolder(folder).shape
    rewritten(folder, shape=[rows, 2**31])
    with pytest.raises(rw.ShardFileError, match="damaged"):
        rw.ShardFolder(folder)


def test_a_later_format_asks_for_an_update(tmp_path):
    folder = written(tmp_path)
    rewritten(folder, version=2)
    with pytest.raises(rw.ShardFileError, match="Update"):
        rw.ShardFolder(folder)


LABELS_DAMAGE = {
    "pickled": lambda: pickle.dumps(print),
    "objects": lambda: saved(np.array([print] * 60, object), allow_pickle=True),
    "too few": lambda: saved(np.arange(59)),
    "empty": lambda: b"",
    "a zip": lambda: b"PK\x05\x06" + bytes(18),
}


def saved(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


@pytest.mark.parametrize("damage", LABELS_DAMAGE.values(), ids=LABELS_DAMAGE)
def test_labels_never_run_code_and_are_refused_though_all_digests_hold(tmp_path, damage):
    folder = written(tmp_path)
    (folder / "row_labels.npy").write_bytes(damage())
    digests = json.loads((folder / MANIFEST).read_text())["files"]
    rewritten(folder, files=digests | {"row_labels.npy": file_digest(folder / "row_labels.npy")})
    with pytest.raises(rw.ShardFileError, match="row_labels"):
        rw.ShardFolder(folder)


def test_labels_that_are_damaged_anywhere_in_their_header_are_labels_or_refused(tmp_path):
    folder = written(tmp_path)
    digests = json.loads((folder / MANIFEST).read_text())["files"]
    content = bytearray(saved(np.arange(60)))
    for bit in range(8 * 10, 8 * 70):
        content[bit // 8] ^= 1 << bit % 8
        (folder / "row_labels.npy").write_bytes(content)
        content[bit // 8] ^= 1 << bit % 8
        rewritten(folder, files=digests | {"row_labels.npy": file_digest(folder / "row_labels.npy")})
        with contextlib.suppress(rw.ShardFileError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns of headers that it does not write
            rw.ShardFolder(folder)


@pytest.mark.parametrize("error", [RuntimeError("gone"), OSError(5, "Input/output error", "gone.csv")])
def test_an_error_half_way_is_told_as_it_is_and_leaves_nothing(tmp_path, error):
    def broken():
        rows, cols, values = entries()
        yield rows, cols, values
        raise error

    with pytest.raises(type(error), match="gone"):
        write_shards(broken(), tmp_path / "f")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("limit", [2_000, 9_000, 40_000])
def test_a_disk_that_is_full_gives_a_sentence_and_leaves_nothing(tmp_path, limit):
    """A limit on the size of files is how a process can have a full disk of its own."""
    code = f"""
import resource, signal, numpy as np
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from rankwise import ShardFileError
from rankwise.storage import write_shards
rng = np.random.default_rng(0)
key = rng.permutation(200 * 100)[:10_000]
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    write_shards([(key // 100, key % 100, rng.random(10_000))], {str(tmp_path / "f")!r})
except ShardFileError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout and not any(tmp_path.iterdir()), done.stderr


def test_scratch_that_does_not_fit_gives_a_sentence(tmp_path):
    folder = rw.ShardFolder(written(tmp_path))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(rw.ShardFileError, match="no room for"):
            Problem(folder, "square", n_jobs=1).value()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_working_space_has_all_of_its_blocks(tmp_path):
    """A file with holes would find the disk full while it is written through memory, which ends the process."""
    scratch = ScratchFiles(tmp_path, [1000, 70_000], np.dtype("f4"), keep=False)
    assert scratch.array("slopes", 1).size == 70_000
    found = os.fstat(scratch._files["slopes"].fileno())
    assert 512 * found.st_blocks >= found.st_size >= 4 * 71_000


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_working_space_has_all_of_its_blocks_where_the_system_cannot_reserve_them(tmp_path, monkeypatch, size):
    """macOS and Windows have no `posix_fallocate`."""
    monkeypatch.delattr(os, "posix_fallocate")
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        allocate(file, size)
        found = os.fstat(file.fileno())
    assert found.st_size == size and 512 * found.st_blocks >= size


def test_a_fit_from_disk_needs_no_posix_fallocate(tmp_path, monkeypatch):
    folder = rw.ShardFolder(written(tmp_path))
    wanted = Problem(folder, "square", n_jobs=1).value()
    monkeypatch.delattr(os, "posix_fallocate")
    assert Problem(folder, "square", n_jobs=1).value() == wanted


def test_working_space_has_no_name_and_goes_with_the_process(tmp_path):
    folder = rw.ShardFolder(written(tmp_path))
    before = sorted(os.listdir(tmp_path / "f"))
    problem = Problem(folder, "square", n_jobs=1)
    problem.value()
    assert sorted(os.listdir(tmp_path / "f")) == before


def test_working_space_is_where_it_is_asked_for(tmp_path):
    folder = written(tmp_path)
    (tmp_path / "room").mkdir()
    there = Problem(rw.ShardFolder(folder, scratch=tmp_path / "room"), "square", n_jobs=1)
    assert there.value() == Problem(rw.ShardFolder(folder), "square", n_jobs=1).value()
    with pytest.raises(rw.ShardFileError, match="nowhere"):
        Problem(rw.ShardFolder(folder, scratch=tmp_path / "nowhere"), "square", n_jobs=1).value()


def test_labels_may_be_given_a_meaning_once_all_are_known(tmp_path):
    rows, cols, values = entries()
    text = np.array([f"{number}" for number in rows]), np.array([f"{number}" for number in cols])
    folder = write_shards(chunked(*text, values), tmp_path / "f", as_names=lambda names: names.astype(int))
    wanted = Observations.from_labels(rows, cols, values)
    assert_same_pieces(wanted, rw.ShardFolder(folder))
    assert rw.ShardFolder(folder).row_labels.tolist() == wanted.row_labels.tolist()  # 9 comes before 10


def test_a_folder_that_is_there_is_never_written_over(tmp_path):
    written(tmp_path)
    with pytest.raises(rw.ShardFileError, match="exists"):
        written(tmp_path)
    with pytest.raises(rw.ShardFileError, match="no folder"):
        write_shards([], tmp_path / "none" / "f")
    with pytest.raises(rw.DataError, match="no entries"):
        write_shards([], tmp_path / "g")


@pytest.mark.parametrize(
    ("given", "wanted"), [(1000, 1000), ("1 GB", 10**9), ("1.5mb", 1_500_000), ("20k", 20_000), ("7", 7)]
)
def test_sizes_in_words(given, wanted, tmp_path):
    assert as_bytes(given) == wanted


@pytest.mark.parametrize("given", ["", "GB", "-1", 0, True, "1 XB", "1..2 GB", None])
def test_sizes_that_are_none_are_refused(given, tmp_path):
    with pytest.raises(rw.SettingError, match="memory_limit"):
        as_bytes(given)


def test_a_limit_on_memory_takes_threads_away_and_then_refuses(tmp_path):
    folder = written(tmp_path)
    largest = max(rw.ShardFolder(folder).sizes)
    assert rw.ShardFolder(folder, memory_limit="1 GB").engine(rw.losses.Square(), np.dtype("f4"), 3).n_jobs == 3
    one = largest * 28 + 8 * 17 * 10
    assert rw.ShardFolder(folder, memory_limit=one).engine(rw.losses.Square(), np.dtype("f4"), 3).n_jobs == 1
    with pytest.raises(rw.SettingError, match="must be at least"):
        rw.ShardFolder(folder, memory_limit=100).engine(rw.losses.Square(), np.dtype("f4"), 3)


def test_chunks_that_differ_in_kind_are_refused(tmp_path):
    one, two = np.array([1, 2]), np.array([3, 4])
    numbers = np.array([0.5, 1.5])
    for other in [(as_text(two), two, numbers), (two, two, numbers, numbers), (two, two, numbers.astype("f4"))]:
        with pytest.raises(rw.DataError, match=r"differ|mix"):
            write_shards([(one, one, numbers), other], tmp_path / "f")
    for wrong in [(two, two), (two, one[:1], numbers), (two, two, [np.nan, 1.0]), (two, two, numbers, [-1.0, 1.0])]:
        with pytest.raises(rw.DataError):
            write_shards([wrong], tmp_path / "f")
    assert not any(Path(tmp_path).iterdir())


def test_integers_with_and_without_a_sign_are_one_kind_of_label(tmp_path):
    large = 2**60 + np.arange(3)  # different, and one float
    chunks = [(large[:2], large[:2], [1.0, 2.0]), (large[1:].astype(np.uint64), large[1:], [3.0, 4.0])]
    found = rw.ShardFolder(write_shards(chunks, tmp_path / "f", duplicates="last"))
    assert found.row_labels.tolist() == large.tolist()
    beyond = [(np.array([-1, 1]), large[:2], [1.0, 2.0]), (np.array([2**63, 1], np.uint64), large[1:], [3.0, 4.0])]
    with pytest.raises(rw.DataError, match="mix types"):
        write_shards(beyond, tmp_path / "g")


def test_two_who_turn_a_folder_at_once_both_have_it(tmp_path):
    rows, cols, values = entries()
    folder = write_shards(chunked(rows, cols, values), tmp_path / "f", shape=(60, 17))
    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: rw.ShardFolder(folder).transposed().shape, range(4)))
        assert found == [(17, 60)] * 4
        (transposed,) = folder.glob("transposed-*")
        shutil.rmtree(transposed)


def test_the_transpose_follows_shards_that_were_replaced_by_others_of_their_shape(tmp_path):
    rows, cols, values = entries()
    folder = write_shards([(rows, cols, values)], tmp_path / "f", shape=(60, 17))
    rw.ShardFolder(folder).transposed()
    other = write_shards([(rows, cols, values[::-1])], tmp_path / "other", shape=(60, 17))
    for path in other.iterdir():
        shutil.copy(path, folder / path.name)
    assert_same_pieces(Observations.from_coo(cols, rows, values[::-1], (17, 60)), rw.ShardFolder(folder).transposed())
    assert len(list(folder.glob("transposed-*"))) == 1


def test_a_matrix_much_larger_than_its_sample_is_no_matter(tmp_path):
    n = 21_000_000
    seen = Observations.from_coo(np.arange(300_000) * 70, np.zeros(300_000, int), np.ones(300_000), (n, 1))
    assert seen.take(np.arange(10)).shape == (n, 1)
    with pytest.raises(rw.DataError, match="nearly all empty"):
        Observations.from_coo([0], [0], [1.0], (n, 1))
