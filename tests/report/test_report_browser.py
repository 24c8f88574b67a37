"""The report in a real browser: clicked, typed into and read, beside what NumPy makes of the same model."""

import re
import shutil
from itertools import product

import numpy as np
import pytest
from report_cases import HOSTILE, held_out_of, random_model

import rankwise as rw
from rankwise.report import write_report
from rankwise.selection import mean_absolute_error, root_mean_squared_error

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'rankwise[test]' brings playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="the report is tested in Chromium, which is not here (Debian: apt-get install chromium)",
)
NAMES = np.array([f"Viewer {k}" for k in range(30)]), np.array([f"film {k}" for k in range(20)])
WIDTHS, SCHEMES = (320, 380, 1200), ("light", "dark")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open the report of a model; at the end, fail if it erred, opened a dialog or asked for anything but itself."""
    troubles, contexts = [], []

    def open_report(model, held_out=None, *, scheme="light", width=1200, **options):
        path = tmp_path / f"report-{len(contexts)}.html"
        write_report(model, path, held_out, **options)
        contexts.append(browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: (troubles.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda asked: asked.url == path.as_uri() or troubles.append(f"request: {asked.url}"))
        page.goto(path.as_uri())
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert not troubles


def test_neighbouring_ticks_have_different_labels_that_are_their_numbers(open_page):
    page = open_page(random_model())
    for level, step in product((0.0, 3.5), (1e-13, 1e-9, 2.5e-5, 1e-4, 0.2, 5.0, 1e7, 2e11)):
        ticks = [level + k * step for k in range(5)]
        labels = page.evaluate("([ticks, step]) => tickLabels(null, ticks, 0, 50, step)", [ticks, step])
        assert len(set(labels)) == 5, labels
        np.testing.assert_allclose([float(text.replace(",", "")) for text in labels], ticks, rtol=0, atol=0.26 * step)


def table(page, name):
    """Cells of a table's body, as they are read."""
    read = "lines => lines.map(line => [...line.cells].map(cell => cell.textContent))"
    return page.locator(f"#{name} tbody tr").evaluate_all(read)


def numbers(texts):
    return [float(text.replace("−", "-").replace(",", "").rstrip(" %")) for text in texts]


def move_slider(page, rank):
    """To a rank, by the keyboard."""
    page.focus("#rank")
    page.keyboard.press("Home")
    for _ in range(rank):
        page.keyboard.press("ArrowRight")
    assert page.locator("#rank-shown").text_content() == str(rank)


def best_unseen(model, row, rank, n=10):
    """Names and predictions of a row's best unseen columns, by brute force."""
    predicted = model.to_dense(rank)[row]
    starts = model.seen.indptr.astype(int)
    predicted[model.seen.indices[starts[row] : starts[row + 1]]] = -np.inf
    order = np.argsort(-predicted)[: min(n, int(np.isfinite(predicted).sum()))]
    return model.col_labels[order].tolist(), predicted[order]


def test_the_slider_changes_scores_and_predictions_to_those_of_numpy(open_page):
    model = random_model(labels=NAMES)
    held = held_out_of(model)
    page = open_page(model, held)
    seen = set()
    for rank in (4, 0, 2, 3, 1):
        move_slider(page, rank)
        dense = model.to_dense(rank)
        predicted = dense[held.rows, held.cols]
        scores = [score(held.targets, predicted) for score in (root_mean_squared_error, mean_absolute_error)]
        shown = numbers(page.locator("#scores .tile b").all_text_contents())
        np.testing.assert_allclose(shown, [*scores, 0.5 * scores[0] ** 2], atol=5.1e-5)
        for row, col, observed, prediction in table(page, "examples"):
            i, j = NAMES[0].tolist().index(row), NAMES[1].tolist().index(col)
            target = held.targets[(held.rows == i) & (held.cols == j)]
            np.testing.assert_allclose(numbers([observed, prediction]), [*target, dense[i, j]], atol=5.1e-4)
        assert page.evaluate("ranks.chart.mark") == rank
        seen.add(page.evaluate("document.querySelector('#path-chart canvas').toDataURL()"))
    assert len(seen) == 5  # the chart moved its mark


def test_a_score_that_is_clicked_is_drawn(open_page):
    model = random_model(labels=NAMES)
    page = open_page(model, held_out_of(model))
    assert "RMSE" in page.locator("#path-words").text_content()
    page.locator("#scores .tile", has_text="MAE").click()
    assert "MAE" in page.locator("#path-words").text_content()
    assert page.locator("#scores .tile[aria-pressed=true]").count() == 1
    drawn = page.evaluate("ranks.chart.plot.data[1]")
    held = held_out_of(model)
    truth = [mean_absolute_error(held.targets, model.to_dense(rank)[held.rows, held.cols]) for rank in range(5)]
    np.testing.assert_allclose(drawn, truth, rtol=1e-5)


def test_a_typed_row_gets_the_recommendations_of_brute_force_at_any_rank(open_page):
    model = random_model(labels=NAMES)
    page = open_page(model)
    for row, rank in ((7, 4), (29, 2), (0, 0), (13, 1)):
        move_slider(page, rank)
        page.locator("#row").fill("")
        page.locator("#row").press_sequentially(f"viewer {row}")  # another case, which is close enough
        names, predicted = best_unseen(model, row, rank)
        shown = table(page, "recommendations")
        assert [line[1] for line in shown] == names
        np.testing.assert_allclose(numbers(line[2] for line in shown), predicted, atol=2e-3)
    move_slider(page, 3)  # the same row again, at another rank
    assert [line[1] for line in table(page, "recommendations")] == best_unseen(model, 13, 3)[0]


@pytest.mark.parametrize("kind", ["ratings", "clicks"])
def test_at_its_own_rank_the_page_ranks_as_the_model_does(open_page, kind):
    made = rw.datasets.ratings(30, 20, rank=2, density=0.4, noise=0.3, random_state=0).observations
    clicks = np.column_stack((made.rows, made.cols))
    fitted = rw.MatrixCompletion(rank=2).fit(made) if kind == "ratings" else rw.ImplicitFactorization().fit(clicks)
    model, page = fitted.model_, open_page(fitted)
    for row in (3, 12, 29):
        page.fill("#row", str(row))
        shown, best = table(page, "recommendations"), model.recommend(row, 10)[0]
        assert [line[1] for line in shown] == best.astype(str).tolist()
        predicted = model.predict_entries([row] * best.size, best)
        np.testing.assert_allclose(numbers(line[2] for line in shown), predicted, atol=2e-3)
    assert ("30 standard deviations" in page.locator("#recommend-words").text_content()) == (kind == "ratings")
    if kind == "ratings":
        assert model.recommend(3, 10, risk=0)[0].tolist() != model.recommend(3, 10)[0].tolist()
        move_slider(page, 1)
        assert [int(line[1]) for line in table(page, "recommendations")] == model.recommend(29, 10, rank=1)[0].tolist()


def test_a_row_that_is_not_there_is_told_and_nothing_recommended(open_page):
    page = open_page(random_model(labels=NAMES))
    page.fill("#row", "nobody <b>")
    assert "There is no row “nobody <b>”" in page.locator("#recommend-note").text_content()
    assert not table(page, "recommendations")
    page.fill("#row", "")
    assert page.locator("#recommend-note").text_content() == ""


def test_suggestions_follow_what_is_typed(open_page):
    page = open_page(random_model(labels=NAMES))
    page.fill("#row", "ER 2")
    offered = page.locator("#rows option").evaluate_all("options => options.map(option => option.value)")
    assert offered == [name for name in NAMES[0] if "er 2" in name.lower()]


def test_a_logistic_model_shows_probabilities_and_their_calibration(open_page):
    made = rw.datasets.signed_network(40, 30, rank=2, density=0.5, flip=0.05, random_state=0)
    train, held = rw.selection.split_entries(made.observations, 0.3, 0)
    fitted = rw.MatrixCompletion("logistic", method="eglrl", rank=4).fit(train)
    page = open_page(fitted, held)
    move_slider(page, 2)
    linked = fitted.model_.to_dense(2)
    titles, shown = (page.locator(f"#scores .tile {part}").all_text_contents() for part in (".title", "b"))
    tiles = dict(zip(titles, shown, strict=True))
    truth = np.mean(linked[held.rows, held.cols] * held.targets > 0)
    assert float(tiles["accuracy"]) == pytest.approx(truth, abs=5.1e-5)
    for row, col, _, chance in table(page, "examples"):
        truth = 100 / (1 + np.exp(-linked[int(row), int(col)]))
        assert float(chance.strip("<> %")) == pytest.approx(truth, abs=0.11)
    page.hover("#reliability-chart .u-over")
    legend = page.locator("#reliability-chart .u-legend").inner_text()
    assert page.locator("#reliability-chart .u-legend").is_visible() and "entries" in legend
    told = page.evaluate("charts.find(chart => chart.place.id === 'reliability-chart').data[3]")
    assert sum(told) == held.n_observed
    assert page.locator("#history-chart canvas").is_visible()
    assert page.evaluate("contents.history.value.length") == len(fitted.history_)


def test_the_rank_chosen_by_validation_is_marked(open_page):
    made = rw.datasets.signed_network(40, 30, rank=2, density=0.5, flip=0.05, random_state=0).observations
    fitted = rw.MatrixCompletion("logistic", method="eglrl").fit(made)
    page = open_page(fitted)
    assert page.locator("#validation-chart canvas").is_visible()
    assert f"rank {fitted.path_.best} was chosen" in page.locator("#validation-words").text_content()
    assert page.locator("#no-scores").is_visible()


def test_another_component_shows_its_strongest_columns(open_page):
    model = random_model(labels=NAMES)
    page = open_page(model)
    for component in (2, 0):
        page.select_option("#component", label=str(component + 1))
        strongest = NAMES[1][np.argsort(-np.abs(model.V[:, component]))[:8]]
        assert [line[0] for line in table(page, "component-cols")] == strongest.tolist()


def test_hostile_labels_are_shown_as_text(open_page):
    rows = np.array([*HOSTILE, *(f"row {k}" for k in range(30 - len(HOSTILE)))], object)
    cols = np.array([*HOSTILE, *(f"col {k}" for k in range(20 - len(HOSTILE)))], object)
    model = random_model(labels=(rows, cols), seen=False)
    page = open_page(model, width=380)
    scripts = page.locator("script").count()
    for name in HOSTILE[:6]:
        page.fill("#row", name)
        assert name in page.locator("#recommend-note").text_content()
    page.fill("#row", "row 3")
    shown = [line[1] for line in table(page, "recommendations")]
    order = np.argsort(-model.to_dense()[len(HOSTILE) + 3])[:10]
    assert shown == [name if len(name) <= 80 else name[:80] + "…" for name in cols[order]]
    assert page.locator("script").count() == scripts == 2
    assert not page.locator("td *, img").count()  # no label became markup
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen_and_the_theme_is_followed(open_page, scheme, width):
    model = random_model(
        labels=NAMES, facts={"history": {"wall_seconds": [0.1, 2.5], "value": [1e9, 1e8], "rank": [1, 2]}}
    )
    page = open_page(model, held_out_of(model), scheme=scheme, width=width, command="rankwise report " + "long " * 40)
    page.fill("#row", "Viewer 3")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    red = int(re.search(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[0])
    assert red < 60 if scheme == "dark" else red > 200
    for chart in page.locator(".chart:visible").all():
        box, canvas = chart.bounding_box(), chart.locator("canvas").bounding_box()
        assert 0 < canvas["width"] <= box["width"] <= width


def test_histograms_stand_on_zero_and_show_every_bin_whole(open_page):
    model = random_model(labels=NAMES)
    held = held_out_of(model)
    page = open_page(model, held)
    residuals = model.to_dense()[held.rows, held.cols] - held.targets
    truth = [(residuals, held.n_observed), (model.offsets.rows, 30), (model.offsets.cols, 20)]
    for name, (numbers, count) in zip(("residuals", "row-offsets", "col-offsets"), truth, strict=True):
        chart = f"charts.find(chart => chart.place.id === '{name}-chart').plot"
        x, y, counts = page.evaluate(f"[{chart}.scales.x, {chart}.scales.y, {chart}.data[1]]")
        assert y["min"] == 0 and y["max"] >= max(counts) and sum(counts) == count
        np.testing.assert_allclose([x["min"], x["max"]], [numbers.min(), numbers.max()], rtol=1e-5)


def test_charts_take_the_colours_of_a_theme_that_changes(open_page):
    model = random_model(labels=NAMES)
    page = open_page(model, held_out_of(model))
    read = "charts.map(chart => chart.plot.series[1].stroke())"
    light = page.evaluate(read)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("getComputedStyle(document.body).backgroundColor.includes('20, 24')")
    dark = page.evaluate(read)
    assert len(light) == len(dark) >= 4 and all(one != other for one, other in zip(light, dark, strict=True))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"only_by": "ADMM"}, "ADMM keeps no path"),
        ({"seen": False}, "does not store which entries were observed"),
        ({"chosen": 2}, "The model’s own rank"),
        ({"link": "log"}, "expected count"),
        ({"rank": 1, "shape": (3, 2)}, "rank-1 model of 3 rows and 2 columns"),
        ({"rank": 0}, "rank-0 model"),
    ],
    ids=["no path", "nothing seen", "shorter", "counts", "tiny", "offsets alone"],
)
def test_every_kind_of_model_has_a_page(open_page, more, words):
    page = open_page(random_model(**more))
    page.fill("#row", "1")
    assert words in page.locator("main").inner_text()
    assert table(page, "recommendations")


def test_a_model_of_clicks_shows_its_rankings_and_what_each_part_is_worth(open_page):
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(60), 6)
    films = (users % 2) * 15 + np.concatenate([rng.permutation(15)[:6] for _ in range(60)])
    model = rw.ImplicitFactorization(2).fit(np.column_stack((users, films)))
    held_out = rw.Observations.from_labels(users, (films + 1) % 30, np.ones(users.size))
    page = open_page(model, held_out)
    expected = rw.selection.ranking_scores(model, held_out)
    shown = {line[0]: line[1:3] for line in table(page, "rankings")}
    popular = rw.selection.ranking_scores(rw.selection.most_popular(model.model_), held_out)
    np.testing.assert_allclose(numbers(shown["recall@20"]), [expected.recall, popular.recall], atol=6e-5)
    assert [line[0] for line in table(page, "parts")] == ["low rank", "neighbours", "both"]
    best = model.choices_[0]
    np.testing.assert_allclose(numbers(table(page, "tried")[0][1:]), [best.recall, best.ndcg], atol=6e-5)
    assert not page.locator("#rank-section").is_visible()
    page.fill("#row", "7")
    assert [line[1] for line in table(page, "recommendations")] == [str(film) for film in model.recommend(7, 10)[0]]


def test_a_model_that_is_too_large_is_cut_and_the_page_says_so(open_page, monkeypatch):
    from rankwise.report import contents
    from rankwise.report.compact import embed

    model = random_model(
        (60, 50), 3, (np.array([f"v{k:02}" for k in range(60)]), np.array([f"c{k:02}" for k in range(50)]))
    )
    monkeypatch.setattr(contents, "embed", lambda *given: embed(*given, budget=900))
    page = open_page(model)
    assert "most active of 60 rows" in page.locator("#recommend-words").text_content()
    rows, cols = page.evaluate("[model.rows, model.cols]")
    assert len(rows) < 60 and len(cols) < 50
    row = model.row_labels.tolist().index(rows[0])
    page.fill("#row", rows[0])
    names, _ = best_unseen(model, row, 3, 50)
    assert [line[1] for line in table(page, "recommendations")] == [name for name in names if name in cols][:10]
