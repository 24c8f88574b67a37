"""One BLAS thread for the reference computations: small matrices gain nothing from two, and busy machines lose much."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    with threadpool_limits(limits=1, user_api="blas"):
        yield


# Row solves compile for 3 to 8 s for each loss: what holds for every loss is tested for these in `make test-all` alone.
SLOW_LOSSES = {"CustomLoss", "EpsilonInsensitive", "Mixed", "OrdinalHinge", "Quantile", "SmoothHinge", "SquaredHinge"}
SLOW_FILES = {"test_expected.py", "test_fold_in.py", "test_sweeps.py", "test_warm_start.py", "test_weights.py"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark tests slow that would make the row solves compile for one more loss."""
    for item in items:
        given = getattr(getattr(item, "callspec", None), "params", {}).get("loss")
        if item.path.name in SLOW_FILES and type(given).__name__ in SLOW_LOSSES:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def record_property(record_property):
    """Notes as text: what a test notes down travels between processes, and NumPy's numbers do not."""
    return lambda name, value: record_property(name, str(value))
