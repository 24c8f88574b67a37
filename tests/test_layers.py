"""Imports point down only, and each optional package enters through one module."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "rankwise"
ROOT = Path(__file__).resolve().parents[1] / "src" / PACKAGE
LAYERS = (
    "cli",
    "report",
    "experiments",
    "estimators",
    "dask",
    "datasets",
    "io",
    "selection",
    "solvers",
    "objectives",
    "model",
    "engines",
    "storage",
    "spectral",
    "losses",
    "penalties",
    "observations",
    "kernels",
)
BASE = "base"  # modules whose name starts with an underscore: below every layer
FACADE = {"__init__", "__main__", "plots"}  # directly under the package: above every layer
OPTIONAL = ("matplotlib", "pandas", "dask", "distributed", "polars", "libmf", "cmfrec")


class Import(NamedTuple):
    line: int
    target: str  # absolute dotted name


def imports(source: str, module: str, is_package: bool = False) -> Iterator[Import]:
    """Every import in `source`, at any depth, by statement or by a call such as ``import_module("x")``."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (Import(node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(names=names):
                base = absolute("." * node.level + (node.module or ""), package)
                targets = [f"{base}.{alias.name}" for alias in names] if base == PACKAGE else [base]
                yield from (Import(node.lineno, target) for target in targets)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if loads_by_name(node.func):
                yield Import(node.lineno, absolute(name, package))


def absolute(name: str, package: str) -> str:
    """`name` with its leading dots resolved against `package`."""
    tail = name.lstrip(".")
    level = len(name) - len(tail)
    if level == 0:
        return tail
    parents = package.split(".")
    if level > len(parents):
        raise ImportError(f"{name!r} in {package} reaches above the top package.")
    return ".".join(parents[: len(parents) - level + 1] + [tail] * bool(tail))


def loads_by_name(function: ast.expr) -> bool:
    """Whether a call of `function` reads as an import: ``import_module``, ``__import__``, ``require_extra``."""
    name = getattr(function, "id", getattr(function, "attr", ""))
    return "import" in name or "require" in name


def layer(module: str) -> str | None:
    """Layer of an absolute dotted name: one of LAYERS, BASE, PACKAGE for the facade, None for other packages."""
    top, _, rest = module.partition(".")
    if top != PACKAGE:
        return None
    first = rest.partition(".")[0]
    if first in LAYERS:
        return first
    # Names that the facade re-exports (`from rankwise import Problem`) are imports of the facade.
    return BASE if first.startswith("_") and first not in FACADE else PACKAGE


def height(name: str) -> int:
    """Place of a layer in the order, larger for higher ones."""
    return (BASE, *reversed(LAYERS), PACKAGE).index(name)


def upward_imports(source: str, module: str, is_package: bool = False) -> list[str]:
    """One sentence for each import in `source` that points to a higher layer than the module's own."""
    own = layer(module)
    return [
        f"{module}, line {line}: {own} must not import {target} ({there})"
        for line, target in imports(source, module, is_package)
        if (there := layer(target)) is not None and height(there) > height(own)
    ]


def modules() -> Iterator[tuple[str, str, bool]]:
    """(dotted name, source, is it a package) of every file in the project's package."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        yield ".".join(parts[:-1] if is_package else parts), path.read_text(encoding="utf-8"), is_package


def optional_imports(source: str, module: str, is_package: bool = False) -> set[str]:
    """Optional packages that `source` imports, by statement or through a call such as ``require("pandas")``."""
    return {target.partition(".")[0] for _, target in imports(source, module, is_package)} & set(OPTIONAL)


def test_imports_point_down_only():
    wrong = [line for name, source, is_package in modules() for line in upward_imports(source, name, is_package)]
    assert not wrong, "\n".join(wrong)


def test_every_module_belongs_to_a_layer():
    tops = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    unknown = sorted(name for name in tops if name not in (*LAYERS, *FACADE) and name[0] != "_")
    assert not unknown, f"Not in LAYERS: {unknown}. Put them in a layer, or add the layer here and in docs/design.md."


def test_each_optional_package_is_imported_in_one_module():
    users = defaultdict(list)
    for name, source, is_package in modules():
        for optional in optional_imports(source, name, is_package):
            users[optional].append(name)
    crowded = {optional: names for optional, names in users.items() if len(names) > 1}
    assert not crowded, f"Imported in more than one module: {crowded}"


@pytest.mark.parametrize(
    "source",
    [
        "import rankwise.solvers",
        "import rankwise",
        "from rankwise import solvers",
        "from rankwise import Problem",
        "from rankwise.solvers.greedy import GreedyPursuit",
        "from .. import solvers",
        "from ..solvers import GreedyPursuit",
        "def late():\n    from ..solvers import greedy",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rankwise.cli import main",
        "import_module('rankwise.solvers')",
        "importlib.import_module('..solvers', __package__)",
    ],
)
def test_the_checker_catches_an_upward_import(source):
    assert len(upward_imports(source, "rankwise.engines.threads")) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import numpy.linalg",
        "import rankwise.kernels.products",
        "from rankwise import kernels, losses",
        "from rankwise._errors import DataError",
        "from .._extras import require",
        "from . import shards",
        "from .shards import Shard",
        "from ..observations import Observations",
    ],
)
def test_the_checker_lets_sideways_and_downward_imports_pass(source):
    assert not upward_imports(source, "rankwise.engines.threads")


def test_the_checker_knows_the_ends_of_the_order():
    assert not upward_imports("from .cli import main", "rankwise", is_package=True)
    assert not upward_imports("from .cli import main", "rankwise.__main__")
    assert upward_imports("from .kernels import products", "rankwise._extras")
    assert upward_imports("from .. import observations", "rankwise.kernels", is_package=True)


@pytest.mark.parametrize(
    "source", ["import pandas as pd", "from pandas import DataFrame", "x = require('pandas', 'io')"]
)
def test_the_checker_sees_optional_packages(source):
    assert optional_imports(source, "rankwise.observations") == {"pandas"}


def definitions(source: str) -> set[str]:
    """Public classes and constants that a module defines."""
    body = ast.parse(source).body
    classes = {node.name for node in body if isinstance(node, ast.ClassDef)}
    targets = (target for node in body if isinstance(node, ast.Assign) for target in node.targets)
    constants = {target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper()}
    return {name for name in classes | constants if not name.startswith("_")}


def test_no_two_modules_define_one_name():
    modules = defaultdict(set)
    for path in ROOT.rglob("*.py"):
        for name in definitions(path.read_text(encoding="utf-8")):
            modules[name].add(str(path.relative_to(ROOT)))
    assert {name: where for name, where in modules.items() if len(where) > 1} == {}
    assert definitions("class A: ...\nB_C = 1\n_D = 2\nlower = 3\n") == {"A", "B_C"}


def test_no_test_file_imports_another():
    tests = Path(__file__).parent
    for path in tests.rglob("test_*.py"):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line.startswith(("from test_", "import test_"))] == [], path
