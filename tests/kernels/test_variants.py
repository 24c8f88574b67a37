"""A first fit compiles few functions, each in few variants."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.bench_compile import cold

MOST = {"eglrl": 18, "default": 65, "mixed": 118}  # compiled functions, those of Numba included
TWICE = {  # the same function for another type of index, or called by a function with other options of the compiler
    "rankwise.kernels.entrywise.weight_at",
    "rankwise.losses.huber.value",
    "rankwise.losses.huber.slope",
    "rankwise.kernels.mixed.declare_mixed.<locals>.value",
    "rankwise.kernels.mixed.declare_mixed.<locals>.slope",
    "generated.of_column",  # value, slope and expected value of a mixed loss
}


@pytest.mark.parametrize("fit", ["eglrl", *(pytest.param(fit, marks=pytest.mark.slow) for fit in ("default", "mixed"))])
def test_a_first_fit_compiles_no_more_functions_than_it_did(fit):
    """Each costs 10 to 100 ms. Raise a number only with a reason; `bench_compile` lists the functions."""
    _, _, found = cold(fit)
    assert sum(n for n, _ in found.values()) <= MOST[fit], sorted(found)


@pytest.mark.slow
def test_no_function_of_the_package_is_compiled_twice_without_a_reason():
    _, _, found = cold("mixed")
    ours = {name for name, (n, _) in found.items() if n > 1 and not name.startswith("numba.")}
    assert ours <= TWICE
