"""The commands on clicks, which have no values: their models and scores are those of the library."""

import json

import numpy as np
import pytest
from helpers import run

import rankwise as rw

N_USERS, N_FILMS = 90, 30


@pytest.fixture(scope="module")
def pairs():
    """Clicks of three groups of users, each with films of its own; later clicks are on other films."""
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(N_USERS), 8)
    films = (users % 3) * 10 + np.concatenate([rng.permutation(10)[:8] for _ in range(N_USERS)])
    return np.char.add("u", users.astype(str)), np.char.add("f", films.astype(str)), rng.permutation(users.size)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("clicks")
    users, films, times = pairs
    days = np.datetime64("2024-01-01") + times.astype("timedelta64[D]")
    lines = [f"{u},{f},{t},{d}" for u, f, t, d in zip(users, films, times, days, strict=True)]
    (folder / "clicks.csv").write_text("user,film,timestamp,day\n" + "\n".join(lines) + "\n")
    run("fit", folder / "clicks.csv", "--implicit", "--rank", 3, "-o", folder / "clicks.rankwise")
    return folder


def test_fit_does_what_the_library_does(folder, pairs):
    expected = rw.ImplicitFactorization(3, random_state=0).fit(np.column_stack(pairs[:2]))
    found = rw.load(folder / "clicks.rankwise")
    np.testing.assert_array_equal(found.to_dense(), expected.model_.to_dense())
    assert list(found.row_labels) == sorted(set(pairs[0]))


def test_it_says_that_there_are_no_values_and_what_each_part_is_worth(folder, tmp_path):
    done = run("fit", folder / "clicks.csv", "--implicit", "--rank", 3, "--held-out", 0.2, "-o", tmp_path / "m")
    assert "no values are read; each of 720 lines is a click" in done.stderr
    for words in ("Chosen:", "low rank: recall@20", "neighbours: recall@20", "both: recall@20", "Held out:  recall@20"):
        assert words in done.stdout
    assert "neighbours" in run("info", tmp_path / "m").stdout


@pytest.mark.parametrize("column", ["timestamp", "day", "3"])
def test_times_may_be_numbers_or_dates_and_the_latest_clicks_are_held_out(folder, tmp_path, pairs, column):
    users, films, times = pairs
    arguments = ("--implicit", "--time", column, "--held-out", 0.25, "--rank", 3, "--json", "-o", tmp_path / "m")
    done = run("fit", folder / "clicks.csv", *arguments)
    found = json.loads(done.stdout)
    assert f"times from '{'timestamp' if column == '3' else column}'" in done.stderr
    clicks = rw.Observations.from_labels(users, films, times.astype(float))
    train, test = rw.selection.split_within_rows(clicks, 0.25, time=clicks.targets)
    kept = np.column_stack((train.row_labels[train.rows], train.col_labels[train.cols]))
    expected = rw.ImplicitFactorization(3, random_state=0).fit(kept, time=train.targets)
    scores = rw.selection.ranking_scores(expected, test)
    assert found["held_out"]["recall"] == pytest.approx(scores.recall, abs=1e-12)
    assert found["chosen_on"] == "the latest entries of each row"


def test_counts_of_a_column_are_weighed_as_asked(tmp_path, pairs):
    users, films, times = pairs
    counts = times % 5 + 1
    lines = [f"{u},{f},{c}" for u, f, c in zip(users, films, counts, strict=True)]
    (tmp_path / "plays.csv").write_text("user,film,plays\n" + "\n".join(lines) + "\n")
    file, target = tmp_path / "plays.csv", tmp_path / "m"
    run("fit", file, "--implicit", "--value", "plays", "--counts", "linear", "--rank", 3, "-o", target)
    frame = {"user": users, "film": films, "plays": counts}
    pandas = pytest.importorskip("pandas")
    expected = rw.ImplicitFactorization(3, counts="linear", random_state=0)
    expected.fit(pandas.DataFrame(frame), row="user", col="film", value="plays")
    np.testing.assert_array_equal(rw.load(target).to_dense(), expected.model_.to_dense())


def test_evaluate_scores_rankings_beside_the_most_popular_columns(folder, tmp_path, pairs):
    users = pairs[0]
    others = np.char.add("f", ((np.char.lstrip(users, "u").astype(int) % 3) * 10 + 5).astype(str))
    (tmp_path / "held.csv").write_text("user,film\n" + "\n".join(map(",".join, set(zip(users, others, strict=True)))))
    found = json.loads(run("evaluate", folder / "clicks.rankwise", tmp_path / "held.csv", "--top", 3, "--json").stdout)
    model = rw.load(folder / "clicks.rankwise")
    held_out = rw.Observations.from_labels(users, others, np.ones(users.size), duplicates="last")
    expected = rw.selection.ranking_scores(model, held_out, 3)
    assert found["scores"]["ndcg"] == pytest.approx(expected.ndcg, abs=1e-12)
    counts = np.bincount(model.seen.indices, minlength=N_FILMS)
    popular = rw.selection.most_popular(model)
    labels, scores = popular.recommend("u0", 5)
    seen = model.seen.take_rows(model.row_index.find(["u0"])).indices
    free = np.setdiff1d(np.arange(N_FILMS), seen)
    assert list(scores) == sorted(counts[free], reverse=True)[:5] and len(labels) == 5
    assert found["baselines"]["most popular"]["k"] == 3
    shown = run("evaluate", folder / "clicks.rankwise", tmp_path / "held.csv").stdout
    refused = run("evaluate", folder / "clicks.rankwise", tmp_path / "held.csv", "--least", 4, code=1)
    assert "--least needs values" in refused.stderr
    assert "recall@20" in shown and "most popular" in shown


def test_models_of_ratings_are_ranked_when_asked(folder, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{i},{j},{1 + (i * j) % 5}" for i in range(20) for j in rng.permutation(15)[:8]]
    rng.shuffle(lines)
    for name, some in (("train", lines[: -len(lines) // 4]), ("all", lines)):
        (tmp_path / f"{name}.csv").write_text("user,film,rating\n" + "\n".join(some) + "\n")
    run("fit", tmp_path / "train.csv", "--rank", 2, "-o", tmp_path / "m")
    arguments = ("evaluate", tmp_path / "m", tmp_path / "all.csv")
    found = json.loads(run(*arguments, "--top", 4, "--least", 3, "--json").stdout)
    assert found["scores"]["k"] == 4 and found["scores"]["n_rows"] > 0
    assert found["scores"]["n_seen"] == sum(int(line[-1]) >= 3 for line in lines[: -len(lines) // 4])
    assert f"{found['scores']['n_seen']} entries of the training data: left out" in (
        run(*arguments, "--top", 4, "--least", 3).stdout
    )
    assert "add --top" in run(*arguments, "--least", 3, code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--implicit", "--loss", "huber"), "--loss does not apply to clicks"),
        (("--implicit", "--checkpoint", "x"), "--checkpoint does not apply"),
        (("--time", "day"), "--time is for clicks; add --implicit"),
        (("--implicit", "--time", "film"), "times must be numbers or dates"),
        (("--implicit", "--time", "hour"), "no column 'hour'"),
    ],
)
def test_options_that_do_not_apply_are_refused(folder, tmp_path, arguments, message):
    done = run("fit", folder / "clicks.csv", *arguments, "-o", tmp_path / "m", code=1)
    assert message in done.stderr and not (tmp_path / "m").exists()


def test_the_report_has_the_scores_of_evaluate(folder, tmp_path):
    lines = (folder / "clicks.csv").read_text().splitlines()
    (tmp_path / "train.csv").write_text("\n".join(lines[:-99]) + "\n")
    run("fit", tmp_path / "train.csv", "--implicit", "--rank", 3, "-o", tmp_path / "m")
    run("report", tmp_path / "m", "--data", folder / "clicks.csv", "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    contents = json.loads(text.split('id="contents">')[1].split("</script>")[0])
    found = json.loads(run("evaluate", tmp_path / "m", folder / "clicks.csv", "--json").stdout)
    titles = {title: (value, popular) for title, value, popular, _ in contents["clicks"]["scores"]}
    assert titles["recall@20"] == pytest.approx(
        (found["scores"]["recall"], found["baselines"]["most popular"]["recall"])
    )
    assert {part for part, _, _ in contents["clicks"]["parts"]} == {"low rank", "neighbours", "both"}
