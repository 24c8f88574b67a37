"""The pages of the site: their programs run, the places they name exist, and the site builds without a warning."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import click
import numpy as np
import pytest
from break_cures import CURES
from break_lines import BREAKS
from helpers import ROOT, examples_of

from rankwise.cli import main

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
RUN_ELSEWHERE = {
    "new-data.md",
    "own-solver.md",
    "predictions.md",
    "tutorial.md",
}  # by tests that also look at what comes out
COMPILE = {"coming-from.md", "own-loss.md"}  # losses that no other test of the fast ones compiles
TESTS = {path.name: path for path in (ROOT / "tests").rglob("test_*.py")}
WITH_CODE = [page for page in PAGES if page not in RUN_ELSEWHERE and examples_of(f"docs/{page}")]


def text_of(page):
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [pytest.param(x, marks=pytest.mark.slow) if x in COMPILE else x for x in WITH_CODE])
def test_the_programs_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec("\n".join(examples_of(f"docs/{page}")), {})


def test_one_s_own_objective_finds_the_planted_matrix():
    names = {}
    exec("\n".join(examples_of("docs/own-objective.md")), names)
    assert names["error"] < 0.25


def test_one_s_own_solver_stays_in_its_ball_and_is_the_estimator_s_too():
    names = {}
    exec("\n".join(examples_of("docs/own-solver.md")), names)
    model, history = names["result"].model, names["result"].history
    low_rank = model.row_factors() @ model.V[:, : model.rank].T
    assert np.linalg.norm(low_rank, "nuc") <= 60.0 * (1 + 1e-6)
    assert history[-1].score < 0.7 * history[0].score
    np.testing.assert_array_equal(names["model"].model_.to_dense(), model.to_dense())


def others_code(library):
    """Our page's program for another library, after the data that all of them begin with."""
    blocks = [block for block in examples_of("docs/coming-from.md", "py") if f"from {library} " in block]
    return "\n".join((examples_of("docs/coming-from.md")[0], *blocks)), len(blocks)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("library", ["surprise", "cmfrec"])
def test_what_we_say_of_another_library_runs(library):
    pytest.importorskip(library, reason="make bench brings it")
    code, n_blocks = others_code(library)
    assert n_blocks == 1
    exec(code, {})


def test_every_place_that_the_page_about_the_paper_names_exists():
    page = text_of("paper.md")
    named = re.findall(r"`([\w/]+\.py)`: `(\w+)`", page)
    assert len(named) > 50
    for path, name in named:
        file = TESTS[path] if path.startswith("test_") else ROOT / "src/rankwise" / path
        assert re.search(rf"^\s*(def|class) {name}\b", file.read_text(encoding="utf-8"), re.M), f"{path}: {name}"
    for path in re.findall(r"`(benchmarks/\w+\.py)`", page):
        assert (ROOT / path).exists(), path


def test_every_hop_from_the_command_to_the_kernel_exists_and_there_are_at_most_fifteen():
    hops = re.findall(r"^\| \d+ \| `([\w/]+\.py)`: `(\w+)` \|", text_of("design.md"), re.M)
    assert 10 < len(hops) <= 15
    for path, name in hops:
        source = (ROOT / "src/rankwise" / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*def {name}\b", source, re.M), f"{path}: {name}"


def test_every_line_that_break_lines_breaks_stands_once_in_its_file():
    for each in (*BREAKS, *CURES.values()):
        source = (ROOT / "src/rankwise" / each.file).read_text(encoding="utf-8")
        assert source.count(each.line) == 1, f"{each.file}: {each.line}"
        assert set(each.tests.split()) <= set(TESTS), each.tests


@pytest.mark.parametrize("page", PAGES)
def test_benchmarks_that_a_page_cites_exist(page):
    cited = set(re.findall(r"\bbench_\w+", text_of(page)))
    assert not {name for name in cited if not (ROOT / f"benchmarks/{name}.py").exists()}


def test_every_page_is_in_the_table_of_contents():
    listed = set(re.findall(r"^(?:.* <)?([\w/-]+)>?$", "".join(examples_of("docs/index.md", r"\{toctree\}")), re.M))
    assert listed == {page.removesuffix(".md") for page in PAGES if page != "index.md"} | {"api/index"}


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page}" for page in PAGES)])
def test_commands_that_a_page_shows_are_understood(page):
    shown = "".join(examples_of(page, "(?:sh|console)")).replace("\\\n", " ")
    inline = re.findall(r"`(rankwise [a-z][^`]*)`", (ROOT / page).read_text(encoding="utf-8"))
    lines = [*re.findall(r"^(?:\$ )?(rankwise .*)$", shown, re.M), *inline]
    assert {line: error for line in lines if (error := usage_error(line))} == {}


def usage_error(line):
    """The error of a command line, or None; files may be left out, as texts do."""
    command, words = main, shlex.split(line, comments=True)[1:]
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    try:
        command.make_context(line, words).close()
    except click.MissingParameter:
        return None
    except click.UsageError as error:
        return error.message
    return None


def test_a_wrong_option_is_a_usage_error():
    assert "--wrong" in usage_error("rankwise fit ratings.csv --wrong") and usage_error("rankwise fit x.csv") is None


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_without_a_network(tmp_path):
    pytest.importorskip("sphinx", reason="pip install 'rankwise[docs]' brings Sphinx")
    settings = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}  # where nobody listens
    build = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-d", tmp_path / "trees"]
    done = subprocess.run(
        [*build, ROOT / "docs", tmp_path / "html"],
        capture_output=True,
        text=True,
        env=os.environ | settings,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    for page in tmp_path.glob("html/**/*.html"):
        loaded = re.findall(
            r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)\"", page.read_text(encoding="utf-8")
        )
        assert not loaded, f"{page.name} loads {loaded}"
    assert_usable_offline(tmp_path / "html")


def assert_usable_offline(site):
    """In Chromium without a network, the search finds pages and no page is wider than its window."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        return
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'rankwise[test]' brings playwright")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_context(offline=True).new_page()
        page.goto((site / "index.html").as_uri())
        page.fill("input.sidebar-search", "conformal")
        page.keyboard.press("Enter")
        page.wait_for_selector("#search-results li a")
        assert any("Predictions" in title for title in page.locator("#search-results li a").all_inner_texts())
        for width in (390, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            for path in sorted(site.glob("*.html")):
                page.goto(path.as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path.name} at {width}"
        browser.close()
