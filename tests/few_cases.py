"""A plugin for pytest that runs a few cases of each test: ``pytest -p few_cases --cases 4``.

Most laws are stated for dozens of combinations of losses, solvers and number types, which reach the same lines again
and again. `make coverage` traces every line that runs, which is slow, and takes some cases of each test, evenly spread.
What it finds is therefore a lower bound.
"""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("few_cases", max_examples=20, deadline=None)


def pytest_addoption(parser):
    parser.addoption("--cases", type=int, default=4, help="cases of each test to run")


def pytest_configure(config):
    settings.load_profile("few_cases")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave all but some cases of each test out; what other options leave out is gone by now."""
    tests = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    most = config.getoption("cases")
    kept = {cases[k] for cases in tests.values() for k in np.linspace(0, len(cases) - 1, most).round().astype(int)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]
