"""Generators plant what they say; readers return what was written; the paper's filter gives the paper's sizes."""

import gzip
import os

import numpy as np
import pytest

from rankwise import DataError, SettingError, datasets, selection
from rankwise.datasets import synthetic

GENERATORS = {"signed_network": datasets.signed_network, "ratings": datasets.ratings}
PUBLISHED = {
    "epinions": ((42_470, 40_700), 752_865),
    "slashdot": ((30_670, 39_196), 505_986),
    "movielens-100k": ((943, 1_682), 100_000),
    "movielens-1m": ((6_040, 3_706), 1_000_209),
}
SNAP_TEXT = "# Directed graph\n# FromNodeId\tToNodeId\tSign\n0\t1\t-1\n7\t128552\t1\n3\t3\t1\n"


def truth_at(planted):
    return planted.truth.at(planted.observations.rows, planted.observations.cols)


def write(path, text):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="latin-1") as file:
        file.write(text)
    return path


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
    assert np.mean(truth.to_dense() ** 2) == pytest.approx(1.0)


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


@pytest.mark.parametrize("draw", [synthetic._ranked_cells, synthetic._drawn_cells])
def test_both_ways_to_draw_cells_follow_the_popularities(draw):
    rng = np.random.default_rng(0)
    popular_rows, popular_cols = np.array([1.0, 2.0, 4.0]), np.array([3.0, 1.0])
    drawn = np.array([draw(popular_rows, popular_cols, 1, rng)[0] for _ in range(20_000)])
    expected = np.outer(popular_rows, popular_cols).ravel()
    expected /= expected.sum()
    found = np.bincount(drawn, minlength=6) / drawn.size
    assert np.all(np.abs(found - expected) <= 4 * np.sqrt(expected * (1 - expected) / drawn.size))


@pytest.mark.parametrize("density", [0.05, 0.2])
def test_networks_are_skewed_and_ratings_are_even_unless_asked(density):
    def largest_share(planted):
        degrees = np.diff(planted.observations.indptr.astype(int))
        return np.sort(degrees)[-20:].sum() / degrees.sum()  # the top tenth of the rows

    network, even = (make(200, 300, 2, density, random_state=0) for make in GENERATORS.values())
    assert largest_share(network) > 0.25 > 0.15 > largest_share(even)
    assert largest_share(datasets.ratings(200, 300, 2, density, random_state=0, skew=1.0)) > 0.25


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize(
    "wrong, word",
    [
        ({"rank": 0}, "rank"),
        ({"rank": 21}, "no rank 21"),
        ({"density": 0.0}, "density"),
        ({"density": 1.5}, "density"),
        ({"skew": -1.0}, "skew"),
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


@pytest.mark.parametrize("bad", ["0\t2", "0\tx\t1", "0 2 1", "0\t2\t5", "0\t2\tnan", "0\t2\t0", "\t2\t1"])
def test_a_bad_edge_is_named_by_its_line(tmp_path, bad):
    path = write(tmp_path / "edges.txt", f"{SNAP_TEXT}{bad}\n1\t2\t1\n")
    with pytest.raises(DataError, match=r"edges\.txt, line 6: .*from<TAB>to<TAB>sign"):
        datasets.read_signed_network(path)


@pytest.mark.parametrize("bad", ["1::2", "1::2::good::3", "one::2::3::4", "1::2::nan::4", "1,2,3,4"])
def test_a_bad_rating_is_named_by_its_line(tmp_path, bad):
    path = write(tmp_path / "ratings.dat", f"1::1193::5::978300760\n{bad}\n")
    with pytest.raises(DataError, match=r"ratings\.dat, line 2: .*user::item::rating::time"):
        datasets.read_movielens(path)


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
    found = datasets.load(name)
    assert (found.shape, found.n_observed) == PUBLISHED[name]
    assert (found.row_labels.size, found.col_labels.size) == found.shape


def test_a_missing_set_says_which_file_to_put_where(monkeypatch, tmp_path):
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    with pytest.raises(DataError, match=r"u\.data .*grouplens.*RANKWISE_DATA"):
        datasets.load("movielens-100k")
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"soc-sign-epinions\.txt") as error:
        datasets.load("epinions")
    assert str(tmp_path) in str(error.value)
    with pytest.raises(SettingError, match="slashdot"):
        datasets.load("netflix")


def test_a_set_is_loaded_compressed_or_not(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path))
    (tmp_path / "ml-100k").mkdir()
    path = write(tmp_path / "ml-100k" / "u.data.gz", "196\t242\t3\t881250949\n")
    assert datasets.load("movielens-100k").targets.tolist() == [3]
    path.rename(write(tmp_path / "ml-100k" / "u.data", "196\t242\t4\t881250949\n").with_name("old.gz"))
    assert datasets.load("movielens-100k").targets.tolist() == [4]
