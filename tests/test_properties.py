"""Laws over whatever Hypothesis thinks of: observed matrices, losses, model files, shard files, text files, damage."""

import json
import math

import numpy as np
import pytest
from fuzz_files import Target
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize_scalar

import rankwise as rw
from rankwise import DataError, Observations, losses
from rankwise.io import Reading, read_file, shard_file
from rankwise.model import LowRankModel
from rankwise.model.files import load, save
from rankwise.storage.shard_files import ShardFiles, write_shard

few = settings(max_examples=60, deadline=None, derandomize=True)
SHAPE = (6, 5)
PLACES = st.tuples(st.integers(0, SHAPE[0] - 1), st.integers(0, SHAPE[1] - 1))
VALUES = st.floats(-1e6, 1e6, width=32)
ENTRIES = st.lists(st.tuples(PLACES, VALUES, st.floats(0.125, 8, width=16)), min_size=1, max_size=40)
UNIQUE = st.lists(
    st.tuples(PLACES, VALUES, st.floats(0.125, 8, width=16)), min_size=1, unique_by=lambda entry: entry[0]
)


def observed(entries, weighted=True, **options):
    places, values, weights = zip(*entries, strict=True)
    rows, cols = zip(*places, strict=True)
    given = list(weights) if weighted else None
    return Observations.from_coo(np.array(rows), np.array(cols), np.array(values), SHAPE, weights=given, **options)


def held(observations):
    """Target and weight of every entry."""
    weights = np.ones(observations.n_observed) if observations.weights is None else observations.weights
    places = zip(observations.rows.tolist(), observations.cols.tolist(), strict=True)
    return dict(zip(places, zip(observations.targets.tolist(), weights.tolist(), strict=True), strict=True))


# Observations.


@few
@given(ENTRIES)
def test_repeats_are_merged_as_a_dictionary_would(entries):
    groups = {}
    for place, value, weight in entries:
        groups.setdefault(place, []).append((value, weight))
    last = {place: group[-1] for place, group in groups.items()}
    assert held(observed(entries, duplicates="last")) == last
    merged = held(observed(entries, duplicates="mean"))
    assert merged.keys() == groups.keys()
    for place, group in groups.items():
        total = math.fsum(weight for _, weight in group)
        mean = math.fsum(value * weight for value, weight in group) / total
        size = max(abs(value) for value, _ in group)
        assert merged[place] == (pytest.approx(mean, rel=1e-12, abs=1e-12 * size), pytest.approx(total, rel=1e-12))
    if len(groups) < len(entries):
        with pytest.raises(DataError, match="given more than once"):
            observed(entries)


@few
@given(UNIQUE, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_entries_says_nothing(entries, random, weighted):
    shuffled = entries.copy()
    random.shuffle(shuffled)
    left, right = observed(entries, weighted), observed(shuffled, weighted)
    for name in ("indptr", "indices", "targets", "weights"):
        assert np.array_equal(getattr(left, name), getattr(right, name))


@few
@given(UNIQUE, st.booleans(), st.data())
def test_transposing_taking_and_sums_are_those_of_a_dictionary(entries, weighted, data):
    found = observed(entries, weighted)
    whole = {place: (value, weight if weighted else 1.0) for place, value, weight in entries}
    assert held(found) == whole and held(found.transposed().transposed()) == whole
    assert held(found.transposed()) == {place[::-1]: pair for place, pair in whole.items()}
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(entries), max_size=len(entries))))
    parts = [held(found.take(part)) for part in (mask, ~mask) if part.any()]
    assert sum(map(len, parts)) == len(whole) and {k: v for part in parts for k, v in part.items()} == whole
    sums = [math.fsum(pair[1] for place, pair in whole.items() if place[0] == row) for row in range(SHAPE[0])]
    np.testing.assert_allclose(found.row_weights(), sums, rtol=1e-12)
    np.testing.assert_allclose(found.total_weight, math.fsum(sums), rtol=1e-12)
    dense = found.to_sparse().toarray()
    assert all(dense[place] == value for place, (value, _) in whole.items())
    assert sum(piece.indices.size for piece in found.pieces()) == len(whole)


@few
@given(st.lists(st.tuples(st.text(max_size=3), st.integers(-9, 9)), min_size=1, unique=True))
def test_labels_are_numbered_in_sorted_order_and_name_their_entries(pairs):
    rows, cols = (np.array(side) for side in zip(*pairs, strict=True))
    found = Observations.from_labels(rows, cols, np.arange(float(len(pairs))))
    assert found.row_labels.tolist() == sorted(set(rows.tolist()))
    named = zip(found.row_labels[found.rows].tolist(), found.col_labels[found.cols].tolist(), strict=True)
    assert dict(zip(named, found.targets, strict=True)) == {
        (row, col): float(k) for k, (row, col) in enumerate(zip(rows.tolist(), cols.tolist(), strict=True))
    }


# Losses.

SIZES = st.floats(1e-3, 1e3)
MADE = st.one_of(
    st.builds(losses.Huber, SIZES),
    st.builds(losses.Quantile, st.floats(0.01, 0.99)),
    st.builds(losses.EpsilonInsensitive, SIZES),
    st.sampled_from([losses.Square(), losses.Logistic(), losses.Absolute(), losses.Poisson(), losses.SquaredHinge()]),
)
FAR = st.floats(-1e3, 1e3)


@few
@given(MADE, FAR, FAR, st.sampled_from([-1.0, 1.0, 3.0, 0.0]))
def test_slopes_of_any_loss_never_fall_and_support_it(loss, x, y, o):
    if not loss.in_domain(np.array([o])).all():
        o = 1.0
    x, y = min(x, y), max(x, y)
    if loss.link == "log":
        x, y = x / 10, y / 10
    (at_x, at_y), (down, up) = loss.value([x, y], o), loss.slope([x, y], o)
    slack = 1e-9 * (1 + abs(at_x) + abs(at_y) + abs(x) + abs(y))
    assert down <= up + 1e-9 * (1 + abs(up))
    assert down * (y - x) - slack <= at_y - at_x <= up * (y - x) + slack
    if loss.lipschitz is not None:
        assert up - down <= loss.lipschitz * (y - x) * (1 + 1e-9) + 1e-12 * (1 + abs(up))


@few
@given(MADE)
def test_any_loss_is_told_in_plain_words_and_back(loss):
    again = losses.from_plain(json.loads(json.dumps(losses.to_plain(loss))))
    assert again == loss and again.checksum() == loss.checksum()


@few
@given(st.sampled_from([losses.Logistic(), losses.SquaredHinge(), losses.SmoothHinge(), losses.Hinge()]), FAR)
def test_losses_of_signs_look_at_the_product_alone(loss, x):
    assert loss.value(x, 1.0) == loss.value(-x, -1.0) and loss.slope(x, 1.0) == -loss.slope(-x, -1.0)


@few
@given(st.one_of(st.just(losses.Square()), st.builds(losses.Huber, st.floats(0.1, 10))), st.floats(1e-3, 1e3))
def test_the_best_scale_is_that_of_the_likeliest_noise(loss, mean):
    def minus_log_likelihood(t):
        return math.exp(t) * mean + loss.log_normaliser(math.exp(t))

    found = math.log(loss.best_scale(mean))
    least = minimize_scalar(minus_log_likelihood, bounds=(found - 3, found + 3), method="bounded").fun
    assert minus_log_likelihood(found) <= least + 1e-6 * (1 + abs(least))


# Model files.

FLOATS = st.sampled_from([np.float32, np.float64])


@st.composite
def models(draw):
    dtype, rank, (m, n) = draw(FLOATS), draw(st.integers(0, 3)), draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    width = 32 if dtype == np.float32 else 64
    numbers = st.floats(width=width, allow_nan=False, allow_infinity=False)
    U, V = (draw(hnp.arrays(dtype, (size, rank), elements=numbers)) for size in (m, n))
    path = np.tril(draw(hnp.arrays(np.float64, (rank, rank), elements=st.floats(-1e9, 1e9))))
    names = draw(
        st.none() | st.lists(st.text(max_size=4).filter(lambda t: "\0" not in t), min_size=m, max_size=m, unique=True)
    )
    link = draw(st.sampled_from(["identity", "logit", "log"]))
    return LowRankModel(path, U, V, link=link, row_labels=None if names is None else np.array(names))


@few
@given(models())
def test_any_model_comes_back_from_its_file_bit_by_bit(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("any") / "m.rankwise"
    save(model, path)
    again = load(path)
    for name in ("path", "U", "V"):
        left, right = getattr(model, name), getattr(again, name)
        assert left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    assert again.link == model.link
    assert (model.row_labels is None) == (again.row_labels is None)
    assert model.row_labels is None or model.row_labels.tolist() == again.row_labels.tolist()


# Shard files.


@few
@given(UNIQUE, st.booleans(), FLOATS, st.integers(0, 2**31))
def test_any_shard_comes_back_from_its_file_bit_by_bit(tmp_path_factory, entries, weighted, dtype, start):
    (piece,) = observed(entries, weighted).pieces()
    weights = None if piece.weights is None else piece.weights.astype(dtype)
    piece = piece._replace(start=start, targets=piece.targets.astype(dtype), weights=weights)
    folder = tmp_path_factory.mktemp("any")
    digests = write_shard(folder, 0, piece)
    again = ShardFiles(folder, 0, piece.start, piece.stop, piece.n_cols, piece.indices.size, digests).map(check=True)
    assert (again.start, again.stop, again.n_cols) == (piece.start, piece.stop, piece.n_cols)
    for left, right in zip(piece[2:], again[2:], strict=True):
        assert (left is None) == (right is None)
        assert left is None or (left.dtype == right.dtype and left.tobytes() == right.tobytes())


# Text files.

CELLS = st.one_of(
    st.sampled_from(
        ["1", "2", "-3.5", "1e400", "nan", "inf", "", " ", '"', '"a', "a,b", "é", "\x00", "\ufeff", "::", "#"]
    ),
    st.integers(-(10**25), 10**25).map(str),
    st.text(max_size=4),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(CELLS, max_size=4), max_size=6),
    st.sampled_from([",", "\t", ";", " ", "::"]),
    st.binary(max_size=3),
)
def test_any_text_is_read_or_refused_in_a_sentence(tmp_path_factory, lines, separator, tail):
    path = tmp_path_factory.mktemp("text") / "t.csv"
    path.write_bytes("\n".join(separator.join(line) for line in lines).encode(errors="replace") + tail)
    for skip in (False, True):
        try:
            found = read_file(path, duplicates="last", skip_bad_lines=skip)
        except rw.RankwiseError as error:
            assert str(error).endswith(".")
        else:
            assert np.isfinite(found.targets).all() and found.n_observed <= len(lines)


NUMBERS = st.sampled_from(["0", "1", "2", "-3", "007", "+7", "-0", "1:2", "4.5", " 5", "x", "", '"6"'])


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(NUMBERS, min_size=3, max_size=4), min_size=1, max_size=6),
    st.sampled_from([",", "\t", " ", "::"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.permutations([1, 2, 3, 4]),
)
def test_a_late_line_means_what_an_early_one_does_and_streams_read_the_same(
    tmp_path_factory, lines, separator, end, places
):
    """The fast reader looks at the first bytes alone before it begins."""
    room = tmp_path_factory.mktemp("text")
    plain = [separator.join(map(str, (k, k, k, k))) for k in range(100, 112)]
    odd = [separator.join(line) for line in lines]
    how = {"separator": separator, "header": False, "skip_bad_lines": True}
    how |= dict(zip(("row", "col", "value"), places, strict=False))
    found = []
    for name, parts in (("early", [*plain[:6], *odd, *plain[6:]]), ("late", [*plain, *odd])):
        path = room / name
        path.write_bytes(end.join([*parts, ""]).encode())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rankwise.io.text.DIALECT_BYTES", 150)  # bytes: some six lines
            found.append(cells(read_file(path, duplicates="mean", **how)))
            folder, _ = shard_file(path, room / f"{name}-shards", how=Reading(**how), duplicates="mean")
        found.append(cells(rw.ShardFolder(folder)))
    assert found[0] == found[1] == found[2] == found[3]


def cells(entries):
    """Label of the row, label of the column, and target, of every entry."""
    found = set()
    for piece in entries.pieces():
        rows = np.repeat(np.arange(piece.start, piece.stop), np.diff(piece.indptr.astype(int)))
        names = (entries.row_labels[rows].tolist(), entries.col_labels[piece.indices].tolist())
        found |= set(zip(*names, np.float32(piece.targets).tolist(), strict=True))
    return found


@few
@given(UNIQUE, st.sampled_from([",", "\t", ";", "|", "::"]), st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_any_numbers_written_in_any_style_are_read_back(tmp_path_factory, entries, separator, header, end):
    path = tmp_path_factory.mktemp("text") / "t.csv"
    lines = ["user,item,rating".replace(",", separator)] * header
    lines += [f"{row}{separator}{col}{separator}{value!r}" for (row, col), value, _ in entries]
    path.write_bytes(end.join([*lines, ""]).encode())
    found = read_file(path, separator=separator, header=header)
    named = zip(found.row_labels[found.rows].tolist(), found.col_labels[found.cols].tolist(), strict=True)
    wanted = {place: np.float32(value) for place, value, _ in entries}
    assert {place: np.float32(value) for place, value in zip(named, found.targets, strict=True)} == wanted


# Damage: as tests/fuzz_files.py does it, which goes on for as long as it is told to.


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return Target(tmp_path_factory.mktemp("damage"))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.binary(min_size=12, max_size=64))
def test_a_damaged_file_is_answered_with_an_error_of_ours(target, data):
    target(data)
