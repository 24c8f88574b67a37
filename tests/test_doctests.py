"""Every public name has an example, and every example in a docstring runs as it stands and shows what it says."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest
from helpers import ROOT

import rankwise

plt = pytest.importorskip("matplotlib.pyplot", reason="pip install 'rankwise[plots]' brings matplotlib")
pytest.importorskip("pandas", reason="pip install 'rankwise[io]' brings pandas")

# `rankwise.__main__` runs the command when it is imported.
MODULES = [
    found.name for found in pkgutil.walk_packages(rankwise.__path__, "rankwise.") if "__main__" not in found.name
]
SPACES = {"rankwise": rankwise, "rankwise.objectives": importlib.import_module("rankwise.objectives")}
SPACES |= {f"rankwise.{name}": found for name in rankwise.__all__ if inspect.ismodule(found := getattr(rankwise, name))}
NEED_A_NETWORK = {"rankwise.datasets.download", "rankwise.datasets.fetch"}


PUBLIC = {f"{space}.{name}": getattr(module, name) for space, module in SPACES.items() for name in module.__all__}
PUBLIC = {name: found for name, found in PUBLIC.items() if inspect.isclass(found) or inspect.isfunction(found)}


@pytest.fixture(autouse=True)
def no_pictures_left():
    yield
    plt.close("all")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name):
    for example in doctest.DocTestFinder().find(importlib.import_module(name)):
        example.globs = {}  # an example brings its own imports, as it must in the hands of a reader
        said = []
        failed = doctest.DocTestRunner().run(example, out=said.append).failed
        assert not failed, "".join(said)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name):
    shown = doctest.DocTestParser().get_examples(inspect.getdoc(PUBLIC[name]) or "")
    assert shown
    assert name in NEED_A_NETWORK or not any(doctest.SKIP in each.options for each in shown)


def test_every_public_name_is_in_the_reference():
    elsewhere = ("objectives.MultitaskRegression", "objectives.Problem", "objectives.Ridged", "solvers.Checkpoint")
    listed = {f"rankwise.{name}" for name in elsewhere}  # as rankwise.Problem
    for page in (ROOT / "docs/api").glob("*.md"):
        for space, names in re.findall(r"currentmodule:: (\S+)\n.*?generated/\n\n(.*?)```", page.read_text(), re.S):
            listed |= {f"{space}.{name}" for name in names.split()}
    assert listed == set(PUBLIC)
