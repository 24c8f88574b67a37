"""One BLAS thread for the reference computations: small matrices gain nothing from two, and busy machines lose much."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_blas_thread():
    with threadpool_limits(limits=1, user_api="blas"):
        yield
