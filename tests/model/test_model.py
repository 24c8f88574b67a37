"""A model predicts at every rank of its path, by number or by label, and its file is whole, plain and safe."""

import dataclasses
import datetime
import io
import json
import os
import pickle
import stat
import tracemalloc
import warnings
import zipfile
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from helpers import make_observations

import rankwise as rw
from rankwise._errors import ModelFileError
from rankwise.losses import Square
from rankwise.model import Factors, LowRankModel, Offsets, Posterior, Seen, load, save
from rankwise.storage.archive import seal


def make_model(rank=3, shape=(6, 5), dtype=np.float64, **options):
    """A random model with unit columns and different coefficients at every rank."""
    rng = np.random.default_rng(rank)
    U, V = (rng.normal(size=(size, rank)).astype(dtype) for size in shape)
    path = np.tril(rng.normal(size=(rank, rank)))
    return LowRankModel(path, U / np.linalg.norm(U, axis=0), V / np.linalg.norm(V, axis=0), **options)


def make_offsets(shape=(6, 5), dtype=np.float64):
    rng = np.random.default_rng(7)
    return Offsets(-0.5, *(rng.normal(size=size).astype(dtype) for size in shape))


def make_posterior(shape=(6, 5), rank=3, dtype=np.float64):
    rng = np.random.default_rng(8)
    sides = (part for size in shape for part in (rng.normal(size=(size, rank + 1)), rng.random((size, rank + 1))))
    return Posterior(*(part.astype(dtype) for part in sides), noise_variance=0.25)


def all_pairs(shape):
    return (side.ravel() for side in np.indices(shape))


def truncated(model, k):
    """The rank-k matrix, by NumPy."""
    U, V = (side[:, :k].astype(float) for side in (model.U, model.V))
    return U @ np.diag(model.path[k - 1, :k]) @ V.T if k else np.zeros(model.shape)


# Prediction.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_rank_of_the_path_is_its_own_truncated_product(dtype):
    model = make_model(rank=4, dtype=dtype)
    rows, cols = all_pairs(model.shape)
    for k in range(5):
        expected = truncated(model, k)
        found = model.predict_entries(rows, cols, rank=k)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.reshape(model.shape), expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(model.to_dense(k), expected, rtol=0, atol=1e-6 if dtype == np.float32 else 1e-14)
        np.testing.assert_array_equal(model.coefficients(k), model.path[k - 1, :k] if k else [])
    np.testing.assert_array_equal(model.predict_entries(rows, cols), model.predict_entries(rows, cols, rank=4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_offsets_are_part_of_every_prediction_at_every_rank(dtype):
    plain, offsets = make_model(rank=4, dtype=dtype), make_offsets(dtype=dtype)
    model = dataclasses.replace(plain, offsets=offsets)
    rows, cols = map(np.array, all_pairs(model.shape))
    added = offsets.constant + offsets.rows.astype(float)[rows] + offsets.cols.astype(float)[cols]
    np.testing.assert_allclose(offsets.at(rows, cols), added, rtol=1e-15)
    np.testing.assert_allclose(offsets.to_dense().ravel(), added, rtol=1e-15)
    for k in (None, 0, 2, 4):
        expected = plain.predict_entries(rows, cols, rank=k) + added
        np.testing.assert_allclose(model.predict_entries(rows, cols, rank=k), expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(model.to_dense(k).ravel(), plain.to_dense(k).ravel() + added, rtol=0, atol=1e-14)


def test_offsets_of_zero_add_nothing():
    model = make_model()
    assert np.array_equal(dataclasses.replace(model, offsets=Offsets.zero(model.shape)).to_dense(), model.to_dense())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_standard_deviations_are_those_of_independent_normal_factors(dtype):
    """Against draws of the factors themselves."""
    posterior = make_posterior(dtype=dtype)
    model = make_model(posterior=posterior)
    rows, cols = map(np.array, all_pairs(model.shape))
    predicted, deviations = model.predict_entries(rows, cols, return_std=True)
    assert np.array_equal(predicted, model.predict_entries(rows, cols))
    rng, n = np.random.default_rng(0), 40_000
    u = rng.normal(posterior.row_means, np.sqrt(posterior.row_variances), (n, 6, 4)).transpose(1, 2, 0)
    v = rng.normal(posterior.col_means, np.sqrt(posterior.col_variances), (n, 5, 4)).transpose(1, 2, 0)
    draws = np.einsum("ikn,jkn->ijn", u[:, :3], v[:, :3]) + u[:, None, 3] + v[None, :, 3]
    np.testing.assert_allclose(deviations, draws.std(axis=-1).ravel(), rtol=0.03)


def test_standard_deviations_are_of_the_link_scale_at_full_rank_only():
    model = make_model(posterior=make_posterior(), link="logit")
    (chances, deviations), (_, linked) = (
        model.predict_entries([0, 1], [2, 3], scale=scale, return_std=True) for scale in ("response", "link")
    )
    assert np.array_equal(deviations, linked) and np.all((chances > 0) & (chances < 1))
    assert np.array_equal(model.predict_entries([0, 1], [2, 3], rank=3, return_std=True)[1], linked)
    with pytest.raises(rw.SettingError, match="only at the full rank, 3, got rank=2; leave out `rank`"):
        model.predict_entries([0], [0], rank=2, return_std=True)
    with pytest.raises(
        rw.SettingError, match='`return_std=True` requires posterior variances, which only method="bayes"'
    ):
        make_model().predict_entries([0], [0], return_std=True)


@pytest.mark.parametrize("method", ["r1mp", "r1mp-economic", "glrl-none"])
def test_a_rank_of_the_path_is_the_fit_that_stopped_there(method):
    observations = make_observations(Square(), np.random.default_rng(2))
    fits = [rw.solve(rw.Problem(observations, "square", dtype="float64"), method, rank=k).model for k in (1, 2, 3, 4)]
    rows, cols = map(list, all_pairs(observations.shape))
    for k, fit in enumerate(fits, start=1):
        np.testing.assert_array_equal(fits[-1].predict_entries(rows, cols, rank=k), fit.predict_entries(rows, cols))


def test_the_chosen_rank_is_the_default_and_the_longer_path_stays():
    model = make_model(rank=4, chosen=2)
    rows, cols = map(list, all_pairs(model.shape))
    assert (model.rank, model.longest, model.theta.size) == (2, 4, 2)
    np.testing.assert_array_equal(model.predict_entries(rows, cols), model.predict_entries(rows, cols, rank=2))
    np.testing.assert_allclose(model.to_dense(), truncated(model, 2), atol=1e-14)
    np.testing.assert_allclose(model.to_dense(4), truncated(model, 4), atol=1e-14)


@pytest.mark.parametrize("rank", [-1, 4, True, 1.0, "2"], ids=repr)
def test_ranks_off_the_path_are_refused(rank):
    with pytest.raises(rw.SettingError, match=rf"`rank` must be an integer from 0 to 3, got {rank!r}"):
        make_model(rank=3).predict_entries([0], [0], rank=rank)


def test_numpy_integers_and_single_entries_are_welcome():
    model = make_model()
    expected = truncated(model, 2)[4, 1]
    for row, col in ((4, 1), (np.int8(4), np.uint64(1)), ([4], (1,)), (np.array(4), np.array([1], np.uint8))):
        np.testing.assert_allclose(model.predict_entries(row, col, rank=np.int64(2)), [expected], rtol=1e-13)
    assert model.predict_entries([], []).shape == (0,)


LABELS = {
    "text": ["ann", "bo", "cy", "di", "ed", "flo"],
    "unsorted text": ["flo", "a", "zoe", "10", "9", "Ann"],
    "objects": np.array(["flo", "a", "zoe", "10", "9", "Ann"], object),
    "integers": [30, -4, 7, 0, 2**40, 5],
    "floats": [2.5, -1.0, 1e300, 0.0, 7.0, -np.inf],
    "dates": np.array(["2021-05-01", "2020-01-01", "2022-02-02", "1999-01-01", "2000-01-01", "2001-01-01"], "M8[D]"),
    "large unsigned": np.array([2**60, 2**60 + 1, 2**60 + 2, 2**60 + 3, 2**63 + 1, 2**63 + 2], np.uint64),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_stand_for_their_rows_in_any_order_of_both(labels):
    labels = np.asarray(labels)
    model = make_model(row_labels=labels)
    order = np.random.default_rng(0).permutation(np.tile(np.arange(6), 2))
    expected = truncated(model, 3)[order, 2]
    np.testing.assert_allclose(model.predict_entries(labels[order], [2] * 12), expected, rtol=1e-13)
    np.testing.assert_allclose(model.predict_entries(list(labels[order]), [2] * 12), expected, rtol=1e-13)
    assert model.predict_entries([], []).shape == (0,)


def test_large_labels_are_told_apart_when_asked_for_as_plain_integers():
    labels = np.array([2**60, 2**60 + 1], np.uint64)
    model = make_model(shape=(2, 5), row_labels=labels)
    expected = truncated(model, 3)[:, 0]
    np.testing.assert_allclose(model.predict_entries([2**60, 2**60 + 1], [0, 0]), expected, rtol=1e-13)


def test_a_fit_hands_its_labels_to_the_model():
    observations = rw.Observations.from_labels(["bo", "al", "bo"], [3, 1, 1], [1.0, 2.0, 3.0])
    model = rw.MatrixCompletion(rank=2, dtype="float64").fit(observations).model_
    by_label = model.predict_entries(["al", "bo"], [1, 3])
    np.testing.assert_allclose(by_label, model.to_dense()[[0, 1], [0, 1]], rtol=1e-13)


@pytest.mark.parametrize(
    ("labels", "asked", "sentence"),
    [
        (LABELS["text"], ["bo", "xi", "yo"], r"^2 row labels are unknown to the model \(first: .*'xi'"),
        (LABELS["text"], ["bobo"], r"^1 row labels are unknown .*'bobo'"),
        (LABELS["unsorted text"], [10], r"^1 row labels are unknown .*10"),
        (LABELS["text"], [None], "^The row labels of this model are <U3, got object"),
        (LABELS["objects"], [3], "^The row labels of this model are object, got int64"),
        (LABELS["integers"], [30, 6], r"^1 row labels are unknown .*6"),
        (LABELS["integers"], ["30"], r"^1 row labels are unknown .*'30'"),
        (LABELS["integers"], [30.5], r"^1 row labels are unknown .*30\.5"),
        (LABELS["floats"], [np.nan], "^1 row labels are unknown .*nan"),
        (None, [0, 6], "^The row 6 is outside the model, which has 6 rows"),
        (None, [-1], "^The row -1 is outside the model"),
        (None, np.array([2**63], np.uint64), "^The row 9223372036854775808 is outside the model"),
        (None, [1.0], "^The rows of this model are numbered, so integers are needed, got float64"),
        (None, [True], "^The rows of this model are numbered, so integers are needed, got bool"),
        (None, ["ann"], "^The rows of this model are numbered, so integers are needed, got <U3"),
        (None, [[0, 1]], r"^The rows must be one-dimensional, got shape \(1, 2\)"),
        (None, [[0], [1, 2]], "^The rows must be one-dimensional, got lists that differ in length"),
        (None, [0, 1, 2], "^There are 3 rows but 1 columns; give one column for each row"),
    ],
)
def test_rows_that_the_model_does_not_know_are_named(labels, asked, sentence):
    model = make_model(row_labels=None if labels is None else np.asarray(labels))
    cols = [0] * (1 if "columns;" in sentence else len(asked))
    with pytest.raises(rw.DataError, match=sentence) as caught:
        model.predict_entries(asked, cols)
    assert "\n" not in str(caught.value)


def test_columns_are_checked_as_rows_are():
    with pytest.raises(rw.DataError, match=r"^The column 5 is outside the model, which has 5 columns"):
        make_model().predict_entries([0], [5])
    with pytest.raises(rw.DataError, match=r"^1 column labels are unknown"):
        make_model(col_labels=np.array(list("abcde"))).predict_entries([0], ["f"])


def test_the_response_scale_undoes_each_link():
    rows, cols = map(list, all_pairs((6, 5)))
    x = make_model().predict_entries(rows, cols)
    for link, undone in (("identity", x), ("logit", 1 / (1 + np.exp(-x))), ("log", np.exp(x))):
        model = make_model(link=link)
        np.testing.assert_allclose(model.predict_entries(rows, cols), undone, rtol=1e-13)  # the default
        np.testing.assert_array_equal(
            model.predict_entries(rows, cols, scale="response"), model.predict_entries(rows, cols)
        )
        np.testing.assert_array_equal(model.predict_entries(rows, cols, scale="link"), x)
        np.testing.assert_allclose(model.reconstruct().ravel(), undone, rtol=1e-13)
        np.testing.assert_allclose(model.reconstruct(scale="link"), model.to_dense(), rtol=0)
    for ask in (lambda model, **scale: model.predict_entries([0], [0], **scale), LowRankModel.reconstruct):
        with pytest.raises(rw.SettingError, match="`scale` must be 'response' or 'link', got 'probability'"):
            ask(make_model(), scale="probability")


def test_the_response_of_an_extreme_model_is_finite():
    model = LowRankModel(np.array([[1e6]]), np.ones((1, 1)), np.array([[1.0], [-1.0]]), link="log")
    rates = model.predict_entries([0, 0], [0, 1], scale="response")
    assert np.isfinite(rates).all()
    assert rates[0] > 1e300 and rates[1] == 0


# Files.


MODELS = {
    "float64": make_model(),
    "float32": make_model(dtype=np.float32, link="logit"),
    "rank 0": make_model(rank=0),
    "rank 1": make_model(rank=1, shape=(1, 1), link="log"),
    "chosen": make_model(rank=4, chosen=2),
    "labels": make_model(row_labels=np.array(LABELS["text"]), col_labels=np.array([3, 1, 4, 15, 9])),
    "unicode": make_model(row_labels=np.array(["é", "日本", "", "a b", "\t", "z"])),
    "offsets": make_model(offsets=make_offsets()),
    "posterior": make_model(posterior=make_posterior(rank=5)),  # of more components than were kept
    "all": make_model(
        dtype=np.float32,
        offsets=make_offsets(dtype=np.float32),
        posterior=make_posterior(dtype=np.float32),
        row_labels=np.array(LABELS["text"]),
    ),
    "rank 0 with extras": make_model(rank=0, offsets=make_offsets(), posterior=make_posterior(rank=0)),
    "floats and dates": make_model(row_labels=np.array(LABELS["floats"]), col_labels=LABELS["dates"][:5]),
}


def same(one, other):
    """Whether two models agree in every part, bit by bit."""
    if type(one) is not type(other):
        return False
    for field in dataclasses.fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if dataclasses.is_dataclass(a):
            if not same(a, b):
                return False
        elif isinstance(a, Seen):
            if type(b) is not Seen or not all(map(np.array_equal, a, b)):
                return False
        elif isinstance(a, dict) and any(isinstance(part, np.ndarray) for part in a.values()):
            if a.keys() != b.keys() or not all(np.array_equal(a[key], b[key]) for key in a):
                return False
        elif isinstance(a, np.ndarray):
            if b is None or (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
                return False
        elif a != b or (type(a) is not type(b) and not isinstance(a, float)):
            return False
    return True


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.rankwise"


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_saved_model_comes_back_bit_by_bit(model, path):
    save(model, path)
    found = rw.load(str(path))
    assert same(found, model)
    rows, cols = [0] * model.shape[1], np.arange(model.shape[1])
    np.testing.assert_array_equal(found.at(np.array(rows), cols), model.at(np.array(rows), cols))


def test_same_sees_a_difference():
    model = MODELS["all"]
    assert same(model, dataclasses.replace(model))
    moved = dataclasses.replace(model.offsets, constant=0.0)
    wider = dataclasses.replace(model.posterior, row_variances=2 * model.posterior.row_variances)
    for change in (
        *({"U": -model.U}, {"link": "log"}, {"row_labels": None}, {"V": model.V.astype(np.float64)}),
        *({"offsets": None}, {"offsets": moved}, {"posterior": None}, {"posterior": wider}),
    ):
        assert not same(model, dataclasses.replace(model, **change))


def test_object_labels_that_are_text_are_saved_as_text(path):
    save(make_model(row_labels=LABELS["objects"]), path)
    found = load(path).row_labels
    assert found.dtype.kind == "U"
    np.testing.assert_array_equal(found, LABELS["objects"])


def test_labels_that_need_a_pickle_are_refused_and_no_file_is_left(path):
    model = make_model(row_labels=np.array(["a", 1, None, 2.5, (), "b"], object))
    with pytest.raises(ModelFileError, match=r"^The row_labels .*cannot be saved; .*labels=False"):
        save(model, path)
    assert not list(path.parent.iterdir())
    save(model, path, labels=False)
    assert load(path).row_labels is None


def test_the_type_of_labels_that_cannot_be_saved_is_named(path):
    model = make_model(row_labels=np.array([datetime.date(2020, 1, day) for day in range(1, 7)]))
    with pytest.raises(ModelFileError, match=r"^The row_labels are objects \(date\), so they cannot be saved"):
        save(model, path)


def test_labels_can_be_left_out(path):
    model = make_model(row_labels=np.array(["secret"] * 6), col_labels=np.array(["hidden"] * 5))
    save(model, path, labels=False)
    assert same(load(path), dataclasses.replace(model, row_labels=None, col_labels=None))
    content = path.read_bytes()
    assert not any(word.encode(code) in content for word in ("secret", "hidden") for code in ("utf-8", "utf-32-le"))


def test_the_model_of_an_estimator_comes_back_bit_by_bit(path):
    fit = rw.MatrixCompletion(rank=2).fit(np.eye(3))
    fit.model_.save(path)
    assert same(load(path), fit.model_)


def test_numpy_numbers_in_offsets_and_posterior_are_saved_as_numbers(path):
    offsets = dataclasses.replace(make_offsets(), constant=np.float32(0.5))
    save(
        make_model(offsets=offsets, posterior=dataclasses.replace(make_posterior(), noise_variance=np.float32(2))), path
    )
    assert (load(path).offsets.constant, load(path).posterior.noise_variance) == (0.5, 2.0)


@pytest.mark.skipif(os.name != "posix", reason="files have modes on POSIX systems only")
def test_a_saved_file_has_the_permissions_of_any_new_file(path):
    before = os.umask(0o027)
    try:
        save(make_model(), path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_failed_save_leaves_the_old_file_and_nothing_else(path, monkeypatch, error):
    def write_half(file, **arrays):
        file.write(b"PK half a model")
        raise error

    save(MODELS["float64"], path)
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez", write_half)
    with pytest.raises(type(error)):
        save(MODELS["labels"], path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@contextmanager
def files_left_open():
    """Warnings about files that nobody closed in this block."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        yield found


def refused(path):
    """The sentence with which `load` refuses a file."""
    sentence = None
    with files_left_open():
        try:
            load(path)
        except ModelFileError as error:
            sentence = str(error)
    assert sentence is not None, "it was not refused"
    assert "\n" not in sentence and str(path) in sentence and sentence.endswith(".")
    return sentence


def test_a_missing_file_is_said_to_be_missing(path):
    assert refused(path) == f"There is no model file at {path}."


@pytest.mark.parametrize("share", range(10))
def test_a_truncated_file_is_refused(path, share):
    save(MODELS["all"], path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * share // 10])
    assert "is not a rankwise model, or it is damaged" in refused(path)


def test_a_refused_file_is_closed(path):
    path.write_bytes(b"PK\x03\x04 and no more")
    with files_left_open() as found, suppress(ModelFileError):
        load(path)
    assert not found


EXTRAS = {"offsets": make_offsets((2, 2)), "posterior": make_posterior((2, 2), 0, np.float32)}


@pytest.mark.parametrize(("extras", "every"), [({}, 1), (EXTRAS, 5)], ids=["plain", "offsets and posterior"])
def test_a_flipped_bit_anywhere_is_refused(path, extras, every):
    model = make_model(rank=1, shape=(2, 2), row_labels=np.array(["a", "b"]), **extras)
    save(model, path)
    content = bytearray(path.read_bytes())
    assert same(load(path), model)
    for k in range(0, len(content), every):
        content[k] ^= 1 << k % 8
        path.write_bytes(content)
        content[k] ^= 1 << k % 8
        assert "damaged" in refused(path)


@pytest.mark.parametrize("bit", range(8))
def test_any_bit_flipped_in_the_header_of_an_array_is_refused(path, bit):
    """NumPy reads it as a Python expression, and fails in more ways than one."""
    save(make_model(rank=1, shape=(2, 2)), path)
    content = bytearray(path.read_bytes())
    start = content.index(b"\x93NUMPY")
    for k in range(start, start + 128):
        content[k] ^= 1 << bit
        path.write_bytes(content)
        content[k] ^= 1 << bit
        assert "damaged" in refused(path)


def test_a_file_without_its_checksum_is_refused(path, true_parts):
    arrays, described = true_parts
    write(path, arrays, described, sealed=False)
    assert "damaged" in refused(path)


def test_a_file_with_the_right_parts_and_another_checksum_is_refused(path):
    save(SOUND, path)
    path.write_bytes(path.read_bytes()[:-64] + b"0" * 64)
    assert "damaged" in refused(path)


def test_a_saved_model_is_a_zip_of_arrays_that_other_tools_open(path):
    save(SOUND, path)
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None and "U.npy" in file.namelist()
    with np.load(path, allow_pickle=False) as file:
        np.testing.assert_array_equal(file["U"], SOUND.U)


SOUND = make_model(offsets=make_offsets(), posterior=make_posterior())


@pytest.fixture(scope="session")
def true_parts(tmp_path_factory):
    """The arrays of a sound model file, and the description in it."""
    path = tmp_path_factory.mktemp("model") / "m.rankwise"
    save(SOUND, path)
    with np.load(path) as file:
        arrays = dict(file)
    return arrays, json.loads(arrays.pop("manifest").tobytes())


LEFT_OUT = object()


def write(path, arrays, described, sealed=True):
    """A model file with these parts, less those that are left out."""
    if isinstance(described, dict):
        described = {name: found for name, found in described.items() if found is not LEFT_OUT}
    text = described if isinstance(described, bytes) else json.dumps(described).encode()
    arrays = {"manifest": np.frombuffer(text, np.uint8)} | arrays
    with path.open("w+b") as file:
        np.savez(file, allow_pickle=True, **{name: part for name, part in arrays.items() if part is not LEFT_OUT})
        if sealed:
            seal(file)


def test_the_files_of_these_tests_are_sound_before_they_are_spoilt(path, true_parts):
    write(path, *true_parts)
    assert same(load(path), SOUND)


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr(name, content)
    return buffer.getvalue()


def array_file(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


FOREIGN = {
    "nothing": b"",
    "text": b"user,item,rating\n1,2,3\n",
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "zip of text": zipped("readme.txt", b"hello"),
    "zip of text in place of an array": zipped("manifest", b"hello"),
    "single array": array_file(np.eye(2)),
    "pickle": pickle.dumps({"U": [1.0]}),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused(path, content):
    path.write_bytes(content)
    assert "is not a rankwise model" in refused(path)


def test_a_folder_is_refused(tmp_path):
    assert "is not a rankwise model" in refused(tmp_path)


@pytest.mark.parametrize(("version", "remedy"), [(5, "Update rankwise"), (99, "Update rankwise"), (3, "Fit the model")])
def test_another_format_is_refused_with_a_remedy(path, true_parts, version, remedy):
    arrays, described = true_parts
    write(path, arrays, described | {"version": version})
    assert f"has format {version}; this version of rankwise reads format 4. {remedy}" in refused(path)


DESCRIBED = {
    "another format": {"format": "other-model"},
    "no format": {"format": LEFT_OUT},
    "no version": {"version": LEFT_OUT},
    "version in words": {"version": "two"},
    "an endless version": {"version": float("inf")},
    "no link": {"link": LEFT_OUT},
    "unknown link": {"link": "probit"},
    "link is a list": {"link": ["log"]},
    "chosen beyond the path": {"chosen": 4},
    "chosen is a fraction": {"chosen": 1.5},
    "no constant for the offsets": {"constant": LEFT_OUT},
    "no noise for the posterior": {"noise_variance": LEFT_OUT},
    "a constant in words": {"constant": "much"},
    "a constant that is none": {"constant": None},
    "an infinite constant": {"constant": float("inf")},
    "a constant beyond all floats": {"constant": 10**400},
    "a noise in words": {"noise_variance": "loud"},
    "a noise that is no number": {"noise_variance": float("nan")},
    "a negative noise": {"noise_variance": -1.0},
    "no facts": {"facts": LEFT_OUT},
    "facts in words": {"facts": "many"},
    "facts too deep to be shown": {"facts": {"x": json.loads("[" * 500 + "]" * 500)}},
    "a scale of zero": {"scale": 0.0},
    "a list": [1, 2],
    "a number": 3,
    "not json": b"{format",
    "not text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("changes", DESCRIBED.values(), ids=DESCRIBED)
def test_a_file_that_does_not_describe_a_model_is_refused(path, true_parts, changes):
    arrays, described = true_parts
    write(path, arrays, described | changes if isinstance(changes, dict) else changes)
    refused(path)


@pytest.mark.parametrize("facts", [{"x": object()}, {"x": np.float32(1)}, {"x": json.loads("[" * 500 + "]" * 500)}])
def test_facts_that_would_not_be_read_again_are_not_saved(path, facts):
    with pytest.raises(ModelFileError, match="`facts` must be a dict of JSON values"):
        dataclasses.replace(SOUND, facts=facts).save(path)
    assert not path.exists()


U, V, PATH, OFFSETS, POSTERIOR = SOUND.U, SOUND.V, SOUND.path, SOUND.offsets, SOUND.posterior
SPOILT = {
    "no U": {"U": LEFT_OUT},
    "no V": {"V": LEFT_OUT},
    "no path": {"path": LEFT_OUT},
    "no description": {"manifest": LEFT_OUT},
    "a part too many": {"extra": np.zeros(2)},
    "an array in place of an object": {"targets": np.zeros(2)},
    "U of lower rank": {"U": U[:, :2]},
    "V of lower rank": {"V": V[:, :2]},
    "path of lower rank": {"path": PATH[:2, :2]},
    "path not square": {"path": PATH[:2]},
    "U is a vector": {"U": U[:, 0]},
    "U is a number": {"U": np.array(1.0)},
    "U is a cube": {"U": U[:, :, None]},
    "path is a number": {"path": np.array(1.0)},
    "nan in U": {"U": U + np.diag([0.0, 0.0, np.nan, 0.0, 0.0, 0.0])[:, :3]},
    "infinity in V": {"V": V + np.diag([np.inf, 0.0, 0.0, 0.0, 0.0])[:, :3]},
    "nan in the path": {"path": PATH * np.nan},
    "U in words": {"U": U.astype(str)},
    "U complex": {"U": U.astype(complex)},
    "U in half precision": {"U": U.astype(np.float16)},
    "V in truth values": {"V": V > 0},
    "fewer row labels": {"row_labels": np.arange(5)},
    "more column labels": {"col_labels": np.arange(6)},
    "labels in two dimensions": {"row_labels": np.ones((6, 1))},
    "no row offsets": {"offsets_rows": LEFT_OUT},
    "fewer row offsets": {"offsets_rows": OFFSETS.rows[:-1]},
    "more column offsets": {"offsets_cols": np.r_[OFFSETS.cols, 0.0]},
    "offsets exchanged": {"offsets_rows": OFFSETS.cols, "offsets_cols": OFFSETS.rows},
    "offsets in two dimensions": {"offsets_rows": OFFSETS.rows[:, None]},
    "nan in the offsets": {"offsets_cols": OFFSETS.cols * np.nan},
    "offsets in words": {"offsets_rows": OFFSETS.rows.astype(str)},
    "offsets in whole numbers": {"offsets_rows": np.zeros(6, int)},
    "no means": {"posterior_row_means": LEFT_OUT},
    "no variances": {"posterior_col_variances": LEFT_OUT},
    "means are a vector": {"posterior_row_means": POSTERIOR.row_means[:, 0]},
    "fewer rows in the means": {"posterior_row_means": POSTERIOR.row_means[:-1]},
    "fewer variances than means": {"posterior_row_variances": POSTERIOR.row_variances[:, :-1]},
    "sides of different width": {
        "posterior_col_means": POSTERIOR.col_means[:, :-1],
        "posterior_col_variances": POSTERIOR.col_variances[:, :-1],
    },
    "a posterior of nothing": {
        f"posterior_{side}_{part}": np.zeros((size, 0))
        for side, size in (("row", 6), ("col", 5))
        for part in ("means", "variances")
    },
    "a negative variance": {"posterior_row_variances": -POSTERIOR.row_variances},
    "infinity in the means": {"posterior_col_means": POSTERIOR.col_means + np.inf},
    "means in words": {"posterior_col_means": POSTERIOR.col_means.astype(str)},
}


@pytest.mark.parametrize("changes", SPOILT.values(), ids=SPOILT)
def test_parts_that_do_not_fit_together_are_refused(path, true_parts, changes):
    arrays, described = true_parts
    write(path, arrays | changes, described)
    refused(path)


@pytest.mark.parametrize("name", ["ordinal", "proportional-odds", "ordinal-hinge"])
def test_levels_in_a_file_take_no_more_memory_than_their_thresholds(path, true_parts, name):
    arrays, described = true_parts

    def loss(levels, thresholds):
        return {"loss": {"name": name, "parameters": {"levels": levels, "thresholds": thresholds}}}

    write(path, arrays, described | loss(10**9, None))
    tracemalloc.start()
    refused(path)
    write(path, arrays, described | loss(201, list(range(200))))
    assert load(path).loss.levels == 201
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60_000_000  # 640 MB if all of them were looked at everywhere at once


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_the_bomb_goes_off_when_unpickled(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("part", ["U", "row_labels", "manifest", "offsets_rows", "posterior_row_means", "extra"])
def test_a_pickle_in_a_file_never_runs(path, tmp_path, true_parts, part):
    arrays, described = true_parts
    bomb = np.array([Bomb(tmp_path / "ran")], object)
    write(path, arrays | {part: bomb}, described)
    refused(path)
    path.write_bytes(pickle.dumps(bomb[0]))
    refused(path)
    assert not (tmp_path / "ran").exists()


def test_an_array_with_an_endless_header_is_refused_in_one_line(path, true_parts):
    arrays, described = true_parts
    many_fields = np.zeros(6, [(f"field {k}", "f8") for k in range(1000)])
    write(path, arrays | {"row_labels": many_fields}, described)
    assert "allow_pickle" not in refused(path)  # NumPy's advice would be bad advice here


# The growing point of a solver.


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_equal_the_dense_matrix_they_stand_for(dtype):
    rng, shape = np.random.default_rng(5), (7, 4)
    factors, dense = Factors(shape, dtype), np.zeros(shape)
    tolerance = {"rtol": 0, "atol": 100 * np.finfo(dtype).eps}
    for step in range(1, 20):  # beyond two blocks of columns
        (u, v), (shrink, weight) = (rng.uniform(-1, 1, size) for size in shape), rng.uniform(0.5, 1, 2)
        inner = [np.sum(np.outer(*pair) * np.outer(u, v)) for pair in zip(factors.U.T, factors.V.T, strict=True)]
        np.testing.assert_allclose(factors.inner_products(u, v), inner, **tolerance)
        factors.append(shrink, weight, u, v)
        dense = shrink * dense + weight * np.outer(u, v)
        assert (factors.rank, factors.U.dtype, factors.theta.dtype) == (step, dtype, np.float64)
        np.testing.assert_allclose((factors.U * factors.theta) @ factors.V.T, dense, **tolerance)

    theta = rng.normal(size=19)
    factors.replace(theta)
    np.testing.assert_array_equal(factors.theta, theta)
    padded, U, V = factors.padded
    assert U.shape[1] == V.shape[1] == padded.size == 24
    assert U.flags.c_contiguous and V.flags.c_contiguous
    assert not padded[19:].any() and not U[:, 19:].any() and not V[:, 19:].any()
    np.testing.assert_array_equal(padded, factors.pad(theta))

    factors.clear()
    assert (factors.rank, factors.U.shape, factors.V.shape, factors.theta.size) == (0, (7, 0), (4, 0), 0)


def test_loss_seen_and_facts_come_back_from_the_file(tmp_path):
    observations = rw.datasets.ratings(30, 20, rank=2, density=0.4).observations
    fitted = rw.MatrixCompletion(rank=2, loss=rw.losses.Huber(0.5)).fit(observations)
    fitted.model_.save(tmp_path / "a")
    fitted.model_.save(tmp_path / "b", seen=False)
    model = rw.load(tmp_path / "a")
    assert model.loss == rw.losses.Huber(0.5) and model.facts == fitted.model_.facts
    assert model.facts["n_observed"] == observations.n_observed and model.facts["settings"]["rank"] == 2
    np.testing.assert_array_equal(model.seen.indices, observations.indices)
    np.testing.assert_array_equal(model.seen.indptr, observations.indptr)
    assert rw.load(tmp_path / "b").seen is None


def test_a_pattern_that_does_not_fit_is_damage(tmp_path):
    observations = rw.datasets.ratings(30, 20, rank=2, density=0.4).observations
    model = rw.MatrixCompletion(rank=2).fit(observations).model_
    wrong = dataclasses.replace(model, seen=model.seen._replace(indices=model.seen.indices + np.uint32(5)))
    save(wrong, tmp_path / "m")
    with pytest.raises(rw.ModelFileError, match="do not fit together"):
        load(tmp_path / "m")
