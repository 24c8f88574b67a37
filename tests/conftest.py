"""What all tests share: how many threads work, and which tests are slow."""

from collections import defaultdict

import numpy as np
import pytest
from helpers import RARE
from threadpoolctl import threadpool_limits

from rankwise.engines import threads
from rankwise.losses import Loss
from rankwise.observations import shards


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    """For the reference computations: small matrices gain nothing from two, and busy machines lose much."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@pytest.fixture(autouse=True, scope="session")
def any_work_is_worth_all_threads():
    """Threads are to meet in tests, where data is so small that one would do it all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "WORTH", 1e-12)
        yield


# A kernel compiles for every loss, number type and weighting that it meets, and a row solve takes seconds. In
# `make test` the laws of the losses themselves run for every loss; what holds whatever the loss is runs for a few of
# them, and single precision and weights for fewer still. `make test-all` runs everything.
OWN_LAWS = ("best_weight", "expected", "kernels", "losses", "nonsmooth_losses", "objectives")
# Of a law with more than `MOST_CASES` cases, `make test` runs so many: the first, the last and those evenly between.
# In the files of `EACH_A_LAW` the cases of a test are different laws, and all of them run.
MOST_CASES = 4
EACH_A_LAW = ("sklearn", "doctests", "pages", "package", "platforms", "refusals", "laws", "losses", "examples")
THOROUGH = {"Absolute", "Logistic", "Square"}
# The longest files, which two processes begin with; neighbours compile different kernels.
FIRST = (
    "sklearn",
    "imputer",
    "doctests",
    "sweeps",
    "nonsmooth_pursuit",
    "losses",
    "expected",
    "cluster",
    "best_weight",
)


def tested(item):
    """What a test's file is named after."""
    return item.path.stem.removeprefix("test_")


def is_rare(item):
    """Whether a test would make kernels compile for one more loss, number type or weighting."""
    given = getattr(getattr(item, "callspec", None), "params", {})
    loss, name = given.get("loss"), type(given.get("loss")).__name__
    unusual = given.get("dtype") is np.float32 or given.get("weights") is True or given.get("weighted") is True
    if not isinstance(loss, Loss):
        return False
    return (name in RARE and tested(item) not in OWN_LAWS) or (unusual and name not in THOROUGH)


def repeats(items):
    """Fast tests beyond `MOST_CASES` of their law; those that stay fast are evenly spread over its cases."""
    laws = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is None and tested(item) not in EACH_A_LAW:
            laws[item.path, item.originalname].append(item)
    for cases in laws.values():
        kept = {round(k * (len(cases) - 1) / (MOST_CASES - 1)) for k in range(MOST_CASES)}
        yield from (item for k, item in enumerate(cases) if len(cases) > MOST_CASES and k not in kept)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests of what is rare or repeated slow, and put the longest files first."""
    for item in items:
        if is_rare(item):
            item.add_marker(pytest.mark.slow)
    for item in repeats(items):
        item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: FIRST.index(tested(item)) if tested(item) in FIRST else len(FIRST))


@pytest.fixture
def record_property(record_property):
    """Notes as text: what a test notes down travels between processes, and NumPy's numbers do not."""
    return lambda name, value: record_property(name, str(value))


@pytest.fixture
def small_shards(monkeypatch):
    """Cut matrices of some 100,000 entries into several shards, as larger ones are."""
    monkeypatch.setattr(shards, "MIN_SHARD", 1 << 15)
