"""What a fit shows while it runs, and what notebooks show of it afterwards."""

import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context

from rankwise import (
    MatrixCompletion,
    Observations,
    RobustFactorization,
    SettingError,
    SignedLinkPredictor,
)
from rankwise.estimators.progress import Aim, in_notebook
from rankwise.solvers import Record

EVIL = "<script>alert('labels')</script>"


@pytest.fixture
def observations():
    rng = np.random.default_rng(3)
    rows, cols = np.nonzero(rng.random((12, 8)) < 0.6)
    users = np.array([EVIL, *(f"user & {k}" for k in range(1, 12))])
    items = np.array([f"</td><img src=x onerror=alert({k})>" for k in range(8)])
    return Observations.from_labels(users[rows], items[cols], rng.normal(size=rows.size))


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


def cells(text):
    """The lines of the summary: name and words."""
    words = Page(text).words
    return dict(zip(words[1::2], words[2::2], strict=True))


@pytest.mark.parametrize(
    "estimator",
    [
        MatrixCompletion("square", rank=2, max_iter=3),
        MatrixCompletion(rank=2, method="eglrl"),
        RobustFactorization(rank=3),
    ],
)
def test_verbose_writes_a_line_per_step_and_changes_nothing_else(estimator, observations, capsys):
    quiet = estimator.fit(observations)
    assert capsys.readouterr() == ("", "")
    loud = estimator.__class__(**estimator.get_params() | {"verbose": 1}).fit(observations, held_out=observations)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == len(loud.history_)
    for line, record in zip(lines, loud.history_, strict=True):
        assert line.startswith(f"{type(estimator).__name__} step {record.step}") and f"rank {record.rank}" in line
        assert f"value {record.value:.6g}" in line and f"held-out loss {record.score:.4g}" in line
    assert np.array_equal(quiet.model_.to_dense(), loud.model_.to_dense())
    assert loud.model_.facts["settings"] == quiet.model_.facts["settings"]


def test_the_callback_still_stops_a_verbose_fit(observations, capsys):
    fitted = MatrixCompletion("square", rank=2, verbose=1).fit(observations, callback=lambda record: record.step == 2)
    assert fitted.status_.reason == "callback" and len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize("verbose", [2, -1, "yes", None])
def test_verbose_is_zero_or_one(observations, verbose):
    with pytest.raises(SettingError, match=r"verbose.* must be .*[gG]ot "):
        MatrixCompletion(verbose=verbose).fit(observations)


@pytest.fixture
def notebook(monkeypatch):
    """Stand-ins for the parts of IPython that a kernel has loaded; what is shown on the page, in order."""
    page, updates = [], []

    class Handle:
        def __init__(self, place):
            self.place = place

        def update(self, shown):
            page[self.place] = shown
            updates.append(shown)

    def display(shown, display_id):
        page.append(shown)
        return Handle(len(page) - 1)

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.HTML, module.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return page, updates


@pytest.mark.parametrize(
    ("settings", "total"), [({"rank": 2, "max_iter": 3}, 3), ({"rank": 2}, 10), ({"rank": 4, "method": "eglrl"}, 4)]
)
def test_a_bar_moves_to_its_end_in_a_notebook(observations, notebook, capsys, settings, total):
    page, updates = notebook
    fitted = MatrixCompletion("square", verbose=1, **settings).fit(observations)
    assert len(page) == 1 and len(updates) == len(fitted.history_) - 1 and capsys.readouterr().err == ""
    (bar,) = [attrs for tag, attrs in Page(page[0]).tags if tag == "progress"]
    assert bar == {"value": str(total), "max": str(total)}
    (before,) = [attrs for tag, attrs in Page(updates[0]).tags if tag == "progress"]
    assert int(before["value"]) == 2


def test_neither_a_plain_program_nor_a_terminal_is_a_notebook(monkeypatch):
    assert not in_notebook()
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace()  # the terminal's shell has no kernel
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not in_notebook()


def test_a_fitted_estimator_shows_a_summary_with_labels_as_text(observations):
    fitted = MatrixCompletion("square", rank=2, max_iter=3).fit(observations, held_out=observations)
    html = fitted._repr_mimebundle_()["text/html"]
    assert html == fitted._repr_html_()
    assert {tag for tag, _ in Page(html).tags} == {"table", "caption", "tr", "th", "td"}
    found = cells(html)
    assert found["size"] == "12 rows × 8 columns" and EVIL in found["rows"] and "onerror" in found["columns"]
    assert found["learned from"].startswith(f"{observations.n_observed} entries")
    assert found["loss"] == "Square()" and "'square'" in found["settings"] and "rank=2" in found["settings"]
    assert found["steps"].startswith("3 in ") and f"held-out loss {fitted.history_[-1].score:.4g}" in found["steps"]
    assert found["ended"] == str(fitted.status_)
    assert cells(fitted.model_._repr_html_()) == found


def test_an_estimator_that_is_not_fitted_keeps_scikit_learn_s_diagram():
    for estimator in (MatrixCompletion(), RobustFactorization(), SignedLinkPredictor()):
        assert "sk-top-container" in estimator._repr_html_()
    with config_context(display="text"):
        assert "text/html" not in MatrixCompletion()._repr_mimebundle_()


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"history": 3, "seconds": "long"},
        {"history": {"value": ["x"]}, "seconds": 1.0},
        {"history": {"value": [1.0]}, "seconds": 10**400},
        {"settings": [1], "status": None},
    ],
)
def test_a_summary_bears_facts_of_any_kind(observations, facts):
    model = MatrixCompletion("square", rank=2, max_iter=3).fit(observations).model_
    bare = replace(model, facts=facts, seen=None, offsets=None, row_labels=None, col_labels=None)
    assert cells(bare._repr_html_())["offsets"] == "none" and "steps" not in cells(bare._repr_html_())


def test_steps_beyond_the_usual_number_have_no_total():
    aim = Aim("Fit", grows=False, total=10)
    record = Record(10, 2, 1.0, *[None] * 3, 0.5, 0.5, 0, 0, 1)
    assert "step 10 of 10:" in aim.describe(record) and "step 11:" in aim.describe(replace(record, step=11))
    assert "step 10 of 10 or more:" in aim._replace(at_least=True).describe(record)
