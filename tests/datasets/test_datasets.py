"""Generators plant what they say; readers return what was written; the paper's filter gives the paper's sizes."""

import gzip
import io
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise import DataError, Observations, SettingError, datasets, selection
from rankwise.datasets import SOURCES, synthetic
from rankwise.io import text

GENERATORS = {
    "signed_network": datasets.signed_network,
    "ratings": datasets.ratings,
    "counts": datasets.counts,
    "corrupted": datasets.corrupted,
}
PUBLISHED = {
    "epinions": ((42_470, 40_700), 752_865),
    "slashdot": ((30_670, 39_196), 505_986),
    "movielens-100k": ((943, 1_682), 100_000),
    "movielens-1m": ((6_040, 3_706), 1_000_209),
    "movielens-10m": ((69_878, 10_677), 10_000_054),
}
RATINGS_10M = "1::122::5::838985046\n1::185::4.5::838983525\n7::122::0.5::838983392\n"
SNAP_TEXT = "# Directed graph\n# FromNodeId\tToNodeId\tSign\n0\t1\t-1\n7\t128552\t1\n3\t3\t1\n"


def truth_at(planted):
    return planted.truth.at(planted.observations.rows, planted.observations.cols)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="latin-1", newline="") as file:
        file.write(text)
    return path


def write_zip(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """A data folder and a cache of the test's own, both empty."""
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "data", tmp_path / "cache" / "rankwise" / "data"


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize("density", [0.05, 0.1, 0.4, 1.0])
def test_generators_keep_the_stated_size_density_and_rank(make, density):
    planted = make(60, 40, 3, density, random_state=1)
    assert planted.observations.shape == planted.truth.shape == (60, 40)
    assert planted.observations.n_observed == round(density * 60 * 40)
    assert np.linalg.matrix_rank(planted.truth.to_dense()) == planted.truth.rank == 3


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_the_truth_is_an_svd_and_its_path_truncates_it(make):
    truth = make(60, 40, 4, 0.2, random_state=2).truth
    left, sigmas, right = np.linalg.svd(truth.to_dense())
    assert truth.theta == pytest.approx(sigmas[:4])
    assert truth.to_dense(2) == pytest.approx((left[:, :2] * sigmas[:2]) @ right[:2])
    assert np.mean(truth.to_dense() ** 2) == pytest.approx(0.5**2 if make is datasets.counts else 1.0)


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
def test_the_same_seed_gives_the_same_data_and_another_seed_other_data(make):
    first, again, other = (make(50, 40, 2, 0.1, random_state=seed).observations for seed in (4, 4, 5))
    assert np.array_equal(first.indices, again.indices) and np.array_equal(first.targets, again.targets)
    assert not np.array_equal(first.targets, other.targets)


@pytest.mark.parametrize("flip", [0.0, 0.05, 0.3])
def test_the_stated_share_of_signs_is_flipped(flip):
    planted = datasets.signed_network(600, 500, 3, 0.1, flip, random_state=3)
    n = planted.observations.n_observed
    accuracy = selection.sign_accuracy(planted.observations.targets, truth_at(planted))
    assert abs(accuracy - (1 - flip)) <= 4 * np.sqrt(flip * (1 - flip) / n)  # four standard errors
    assert planted.noise == flip


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
def test_the_noise_of_ratings_has_the_stated_level(noise):
    planted = datasets.ratings(600, 500, 3, 0.1, noise, random_state=3)
    errors = planted.observations.targets - truth_at(planted)
    n = errors.size
    assert abs(errors.mean()) <= 4 * noise / np.sqrt(n) + 1e-12
    assert abs(errors.std() - noise) <= 4 * noise / np.sqrt(2 * n) + 1e-12
    assert abs(planted.observations.targets.mean()) < 0.1  # centred: zero is an average rating


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.0])
def test_counts_have_the_planted_mean_and_its_variance(spread):
    planted = datasets.counts(600, 500, 3, 0.1, spread, random_state=3)
    found, means = planted.observations.targets, np.exp(truth_at(planted))
    pearson = (found - means) / np.sqrt(means)  # a Poisson count's has mean 0, variance 1, fourth moment 3 + 1 / mean
    n = found.size
    assert abs(pearson.mean()) <= 4 / np.sqrt(n)
    assert abs(np.mean(pearson**2) - 1) <= 4 * np.sqrt((2 + np.mean(1 / means)) / n)
    assert abs(np.corrcoef(pearson, np.log(means))[0, 1]) <= 4 / np.sqrt(n)  # small and large means alike
    assert np.all(found >= 0) and np.array_equal(found, np.round(found))
    assert planted.noise == pytest.approx(np.sqrt(means.mean()))
    assert np.std(truth_at(planted)) == pytest.approx(spread, rel=0.05)


def test_the_truth_of_counts_predicts_their_means():
    planted = datasets.counts(60, 50, 2, 0.3)
    rows, cols = planted.observations.rows, planted.observations.cols
    predicted = planted.truth.predict_entries(rows, cols, scale="response")
    assert predicted == pytest.approx(np.exp(planted.truth.at(rows, cols)))


@pytest.mark.parametrize("share, size", [(0.0, 5.0), (0.1, 5.0), (0.4, 0.5)])
def test_the_stated_share_of_entries_is_off_by_the_stated_size(share, size):
    planted = datasets.corrupted(600, 500, 3, 0.1, share, random_state=3, size=size)
    errors = planted.observations.targets - truth_at(planted)
    n, up, down = errors.size, *(np.isclose(errors, sign * size) for sign in (1, -1))
    assert np.all(up | down | (np.abs(errors) < 1e-12))
    assert abs(np.mean(up | down) - share) <= 4 * np.sqrt(share * (1 - share) / n)
    assert abs(int(up.sum()) - int(down.sum())) <= 4 * np.sqrt(share * n)
    assert planted.noise == share


@pytest.mark.parametrize("draw", [synthetic._ranked_cells, synthetic._drawn_cells])
def test_both_ways_to_draw_cells_follow_the_popularities(draw):
    rng = np.random.default_rng(0)
    popular_rows, popular_cols = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0])
    drawn = np.array([draw(popular_rows, popular_cols, 1, rng)[0] for _ in range(20_000)])
    expected = np.outer(popular_rows, popular_cols).ravel()
    expected /= expected.sum()
    found = np.bincount(drawn, minlength=6) / drawn.size
    assert np.all(np.abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / drawn.size))


def test_cells_are_found_however_skewed_their_chances_are():
    planted = datasets.signed_network(200, 200, 2, 0.05, skew=8)
    assert planted.observations.n_observed == 2000
    degrees = np.sort(np.diff(planted.observations.indptr.astype(int)))
    assert degrees[-20:].sum() > 0.5 * 2000  # a tenth of the rows has more than half


@pytest.mark.parametrize("density", [0.05, 0.2])
def test_networks_are_skewed_and_ratings_are_even_unless_asked(density):
    def largest_share(planted):
        degrees = np.diff(planted.observations.indptr.astype(int))
        return np.sort(degrees)[-20:].sum() / degrees.sum()  # the top tenth of the rows

    network, *others = (make(200, 300, 2, density, random_state=0) for make in GENERATORS.values())
    assert largest_share(network) > 0.25 > 0.15 > max(map(largest_share, others))
    for make in (datasets.ratings, datasets.counts):
        assert largest_share(make(200, 300, 2, density, random_state=0, skew=1.0)) > 0.25


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize(
    "wrong, word",
    [
        ({"rank": 0}, "rank"),
        ({"rank": 21}, "no rank 21"),
        ({"density": 0.0}, "density"),
        ({"density": 1.5}, "density"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_generators_refuse_settings_that_cannot_be(make, wrong, word):
    with pytest.raises(SettingError, match=word):
        make(30, 20, **({"rank": 2, "density": 0.5} | wrong))


def test_noise_must_be_possible():
    with pytest.raises(SettingError, match="flip"):
        datasets.signed_network(10, 10, 1, 0.5, flip=0.5)
    with pytest.raises(SettingError, match="noise"):
        datasets.ratings(10, 10, 1, 0.5, noise=-1.0)
    for spread in (0.0, 3.0, np.nan):
        with pytest.raises(SettingError, match="spread"):
            datasets.counts(10, 10, 1, 0.5, spread)
    with pytest.raises(SettingError, match="share"):
        datasets.corrupted(10, 10, 1, 0.5, share=0.5)
    with pytest.raises(SettingError, match="size"):
        datasets.corrupted(10, 10, 1, 0.5, size=0.0)


@pytest.mark.parametrize("make", [datasets.signed_network, datasets.ratings, datasets.counts])
def test_skew_must_be_possible(make):
    with pytest.raises(SettingError, match="skew"):
        make(30, 20, 2, 0.5, skew=-1.0)


@pytest.mark.parametrize("name", ["edges.txt", "edges.txt.gz"])
def test_a_signed_network_is_read_as_written(tmp_path, name):
    rows, cols, values = datasets.read_signed_network(write(tmp_path / name, SNAP_TEXT))
    assert rows.tolist() == [0, 7, 3] and cols.tolist() == [1, 128552, 3]
    assert values.tolist() == [-1, 1, 1] and values.dtype == np.float32


@pytest.mark.parametrize("separator", ["\t", "::"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_ratings_are_read_as_written(tmp_path, separator, ending):
    lines = [(196, 242, 3, 881250949), (186, 302, 4.5, 891717742), (196, 302, 1, 878887116)]
    text = "".join(separator.join(map(str, line)) + "\n" for line in lines)
    found = datasets.read_movielens(write(tmp_path / f"ratings.dat{ending}", text))
    assert found.row_labels.tolist() == [186, 196] and found.col_labels.tolist() == [242, 302]
    assert found.rows.tolist() == [0, 1, 1] and found.cols.tolist() == [1, 0, 1]
    assert found.targets.tolist() == [4.5, 3, 1]


@pytest.mark.parametrize("separator", ["\t", "::"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [3, 64, 1 << 20])
def test_ratings_are_read_as_numpy_reads_them_however_they_are_cut(monkeypatch, tmp_path, separator, end, block):
    rng = np.random.default_rng(0)
    lines = rng.integers(-(10**6), 10**9, (50, 4)).astype(str).tolist()
    for line in lines:
        line[2] = rng.choice(["1", "-1", "+1.0", "1e0", "-1.000", "3.14159265358979", "2.5E-3"])
    content = end.join(separator.join(line) for line in lines)  # no newline after the last
    expected = np.loadtxt(io.StringIO(content.replace(separator, " ")), unpack=True, usecols=(0, 1, 2))
    monkeypatch.setattr(text, "ARROW_BYTES", block)
    found = datasets.read_movielens(write(tmp_path / "ratings.dat", content))
    order = np.argsort(expected[0])
    for column, wanted in zip((found.row_labels[found.rows], found.col_labels[found.cols]), expected, strict=False):
        assert np.array_equal(column, wanted[order])
    assert np.array_equal(found.targets, expected[2][order].astype(np.float32))


@settings(deadline=None, max_examples=60)
@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr)
    | st.floats(-1e9, 1e9).map(lambda x: f"{x:.7e}")
    | st.decimals(-(10**6), 10**6, places=6).map(str)
    | st.from_regex(r"\A[+-]?[0-9]{1,20}\.?[0-9]{0,20}([eE][+-]?[0-9])?\Z")
)
def test_a_decimal_is_the_float32_that_python_makes_of_it(tmp_path_factory, written):
    path = write(tmp_path_factory.mktemp("decimal") / "r.dat", f"1::2::{written}::0\n")
    assert datasets.read_movielens(path).targets.tolist() == [np.float32(float(written))]


@pytest.mark.parametrize(
    "line, entry",
    [
        (" 1:: 2 ::3::4", (1, 2, 3)),
        ("+1::002::3::4", (1, 2, 3)),
        ("1::2::3.14159265358979323846::4", (1, 2, np.float32(np.pi))),
        ("1::2::934.109527587890625::4", (1, 2, np.float32(934.109527587890625))),  # these two lie half-way between
        ("1::2::392.22740173339844::4", (1, 2, np.float32(392.22740173339844))),  # neighbouring float32
        ("-9223372036854775807::9223372036854775807::1e-30::4", (-(2**63) + 1, 2**63 - 1, np.float32(1e-30))),
    ],
)
def test_numbers_that_are_not_plain_are_read_too(tmp_path, line, entry):
    path = write(tmp_path / "ratings.dat", f"5::6::1::0\n{line}\n7::8::2::0\n")
    found = datasets.read_movielens(path)
    rows, cols = found.row_labels[found.rows].tolist(), found.col_labels[found.cols].tolist()
    assert sorted(zip(rows, cols, found.targets, strict=True)) == sorted([(5, 6, 1), entry, (7, 8, 2)])


@pytest.mark.parametrize(
    "bad", ["0\t2", "0\tx\t1", "0 2 1", "0\t2\t5", "0\t2\tnan", "0\t2\t0", "\t2\t1", "0\t2\t1x", "1_0\t2\t1"]
)
def test_a_bad_edge_is_named_by_its_line(tmp_path, bad):
    path = write(tmp_path / "edges.txt", f"{SNAP_TEXT}{bad}\n1\t2\t1\n")
    with pytest.raises(DataError, match=r"edges\.txt, line 6: .*from<TAB>to<TAB>sign"):
        datasets.read_signed_network(path)


@pytest.mark.parametrize(
    "bad",
    [
        "1::2",
        "1::2::good::3",
        "one::2::3::4",
        "1::2::nan::4",
        "1::2::1e39::4",
        f"{2**63}::2::3::4",
        "1,2,3,4",
        "1:2:3:4",
    ],
)
def test_a_bad_rating_is_named_by_its_line(tmp_path, bad):
    path = write(tmp_path / "ratings.dat", f"1::1193::5::978300760\n{bad}\n")
    with pytest.raises(DataError, match=r"ratings\.dat, line 2: .*user::item::rating::time"):
        datasets.read_movielens(path)


@pytest.mark.parametrize("bad", ["x::2::3::4", "1::2::inf::4"])
def test_a_bad_line_is_counted_over_blocks(monkeypatch, tmp_path, bad):
    monkeypatch.setattr(text, "ARROW_BYTES", 100)
    lines = [f"{k}::1::1::0" for k in range(1000)]
    path = write(tmp_path / "ratings.dat", "\n".join([*lines[:777], bad, *lines[777:]]))
    with pytest.raises(DataError, match=r"line 778: .*got '" + bad):
        datasets.read_movielens(path)


def test_an_error_repeats_only_the_beginning_of_a_long_line(tmp_path):
    with pytest.raises(DataError) as caught:
        datasets.read_movielens(write(tmp_path / "picture.png", "x" * 10**6))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("spread", [100, 10**7])
def test_integer_labels_are_numbered_as_unique_numbers_them(dtype, spread):
    rng, info = np.random.default_rng(0), np.iinfo(dtype)
    for least in (int(info.min), 0, int(info.max) - spread):
        most = min(max(least, int(info.min)) + spread, int(info.max))
        labels = rng.integers(max(least, int(info.min)), most, 500, dtype, endpoint=True)
        expected, numbers = np.unique(labels, return_inverse=True)
        found = Observations.from_labels(labels, np.arange(500), np.ones(500))
        assert np.array_equal(found.row_labels, expected) and found.row_labels.dtype == dtype
        assert np.array_equal(found.rows[np.argsort(found.cols)], numbers)


@pytest.mark.parametrize("read", [datasets.read_signed_network, datasets.read_movielens])
def test_files_without_entries_or_missing_or_damaged_are_refused(tmp_path, read):
    with pytest.raises(DataError, match="no entries"):
        read(write(tmp_path / "empty.txt", ""))
    with pytest.raises(DataError, match="no file"):
        read(tmp_path / "nowhere.txt")
    (tmp_path / "damaged.gz").write_bytes(b"this is not gzip")
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "damaged.gz")
    whole = write(tmp_path / "cut.gz", "".join(f"{k}\t{k * k % 97}\t1\n" for k in range(1000))).read_bytes()
    (tmp_path / "cut.gz").write_bytes(whole[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "cut.gz")
    archive = write_zip(tmp_path / "all.zip", {"in/edges.txt": SNAP_TEXT})
    for path in (archive, archive / "in", archive / "other.txt"):
        with pytest.raises(DataError, match=r"holds in/edges\.txt"):
            read(path)
    (tmp_path / "damaged.zip").write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "damaged.zip" / "in" / "edges.txt")


def test_the_paper_filter_takes_one_pass_over_rows_and_then_one_over_columns():
    # Row 9 has one entry and goes. That leaves column 5 with one, and it goes too. Row 2 loses an entry by it and row 8
    # both of its entries; they stay, since rows are not checked again. The self loop (1, 1) stays.
    edges = [(1, 1), (1, 4), (2, 4), (2, 5), (3, 1), (3, 4), (8, 6), (8, 7), (9, 5)]
    rows, cols = np.transpose(edges)
    found = datasets.paper_filter(rows, cols, np.ones(len(edges)))
    assert found.row_labels.tolist() == [1, 2, 3, 8] and found.col_labels.tolist() == [1, 4]
    kept = zip(found.row_labels[found.rows], found.col_labels[found.cols], strict=True)
    assert list(kept) == [(1, 1), (1, 4), (2, 4), (3, 1), (3, 4)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sets_have_the_published_sizes(name):
    if not os.environ.get("RANKWISE_DATA"):
        pytest.skip("RANKWISE_DATA is not set: no published data to read")
    if datasets.find(SOURCES[name]) is None:
        pytest.skip(f"{SOURCES[name].published} is not in RANKWISE_DATA")
    found = datasets.load(name)
    assert (SOURCES[name].shape, SOURCES[name].n_observed) == PUBLISHED[name]
    assert (found.shape, found.n_observed) == PUBLISHED[name]
    assert (found.row_labels.size, found.col_labels.size) == found.shape


def test_the_published_archive_holds_what_the_unpacked_file_holds():
    archive = SOURCES["movielens-1m"].target(datasets.folders()[0])
    if not os.environ.get("RANKWISE_DATA") or not archive.is_file():
        pytest.skip("ml-1m.zip is not in RANKWISE_DATA")
    packed, unpacked = SOURCES["movielens-1m"].load(archive), datasets.load("movielens-1m")
    assert np.array_equal(packed.indices, unpacked.indices) and np.array_equal(packed.targets, unpacked.targets)


def test_a_missing_set_says_which_file_to_put_where(monkeypatch, folders):
    with pytest.raises(DataError, match=r"data fetch epinions.*soc-sign-epinions\.txt\.gz from https") as error:
        datasets.load("epinions")
    assert str(folders[0] / "signed") in str(error.value)
    monkeypatch.delenv("RANKWISE_DATA")
    with pytest.raises(DataError, match=r"ml-100k\.zip .*grouplens.*RANKWISE_DATA") as error:
        datasets.load("movielens-100k")
    assert str(folders[1] / "ml-100k") in str(error.value)
    with pytest.raises(SettingError, match="slashdot"):
        datasets.load("netflix")


@pytest.mark.parametrize("folder", [0, 1], ids=["named-folder", "cache"])
def test_a_set_is_found_in_the_order_that_find_states(folders, folder):
    top, line = folders[folder], "196\t242\t{}\t881250949\n"
    write_zip(top / "ml-100k.zip", {"ml-100k/u.data": line.format(4)})
    assert datasets.load("movielens-100k").targets.tolist() == [4]
    write_zip(top / "ml-100k" / "ml-100k.zip", {"ml-100k/README": "terms", "ml-100k/u.data": line.format(3)})
    assert datasets.load("movielens-100k").targets.tolist() == [3]
    write(top / "ml-100k" / "u.data.gz", line.format(2))
    assert datasets.load("movielens-100k").targets.tolist() == [2]
    write(top / "ml-100k" / "u.data", line.format(1))
    assert datasets.load("movielens-100k").targets.tolist() == [1]


def test_the_named_folder_comes_before_the_cache(folders):
    for folder, stars in zip(folders, (4, 2), strict=True):
        write(folder / "ml-100k" / "u.data", f"196\t242\t{stars}\t881250949\n")
    assert datasets.load("movielens-100k").targets.tolist() == [4]


def test_movielens_10m_is_read_in_its_published_format(folders):
    write(folders[0] / "ml-10M100K" / "ratings.dat", RATINGS_10M)
    found = datasets.load("movielens-10m")
    assert found.row_labels.tolist() == [1, 7] and found.col_labels.tolist() == [122, 185]
    assert found.targets.tolist() == [5, 4.5, 0.5] and found.shape == (2, 2)
