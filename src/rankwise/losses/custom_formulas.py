"""Functions written by users, compiled and in the form in which kernels take losses."""

import inspect
import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

from .._errors import LossError
from ..kernels import formulas
from ..kernels.expected import mirrored_expected
from ..kernels.formulas import Formulas
from ..kernels.jit import INLINED

if TYPE_CHECKING:
    from .custom import Declaration

Function = Callable[[float, float], float]
Kinks = Callable[[float], tuple[float, float, float, float, float]]

_LEAST_STEPS = 1e-9, 1e-6  # of first and second differences, relative to x


class CustomFormula(NamedTuple):
    """Parameters of every custom loss: ``f(level + unit x, level + unit o) * per_size``."""

    level: float
    unit: float
    per_size: float
    step: float  # of first differences, in the units of x and o
    wide_step: float  # of second differences


def complete(kind: type[Any], title: str, value: Function, declared: "Declaration") -> Formulas:
    """Formulas in the kernels' form ``(p, x, o)``, with central differences for missing derivatives."""
    f, (narrow, wide) = _jit(value, title), _LEAST_STEPS

    def value_of(p, x, o):  # type: ignore[no-untyped-def]
        return f(p.level + p.unit * x, p.level + p.unit * o) * p.per_size

    def difference(p, x, o):  # type: ignore[no-untyped-def]
        h, at = max(p.step, narrow * abs(x)), p.level + p.unit * o
        return (f(p.level + p.unit * (x + h), at) - f(p.level + p.unit * (x - h), at)) / (2.0 * h) * p.per_size

    def second_difference(p, x, o):  # type: ignore[no-untyped-def]
        h, at, middle = max(p.wide_step, wide * abs(x)), p.level + p.unit * o, p.level + p.unit * x
        outer = f(p.level + p.unit * (x + h), at) + f(p.level + p.unit * (x - h), at)
        return (outer - 2.0 * f(middle, at)) / (h * h) * p.per_size

    return Formulas(
        kind,
        value_of,
        _with_parameters(declared.slope, title, 1) if declared.slope else difference,
        _with_parameters(declared.curvature, title, 2) if declared.curvature else second_difference,
        kinks=_kinks(declared.kinks, title) if declared.kinks else None,
        expected=None if declared.smooth else mirrored_expected,
        bound=False,
    )


def _with_parameters(function: Function, title: str, order: int) -> Any:
    compiled = _jit(function, title)

    def first(p, x, o):  # type: ignore[no-untyped-def]
        return compiled(p.level + p.unit * x, p.level + p.unit * o) * (p.unit * p.per_size)

    def second(p, x, o):  # type: ignore[no-untyped-def]
        return compiled(p.level + p.unit * x, p.level + p.unit * o) * (p.unit * p.unit * p.per_size)

    return first if order == 1 else second


def _kinks(function: Kinks, title: str) -> Any:
    compiled = _jit(function, title, kinks=True)

    def kinks(p, o):  # type: ignore[no-untyped-def]
        slope, first, jump, second, other = compiled(p.level + p.unit * o)
        factor = p.unit * p.per_size
        places = (first - p.level) / p.unit, (second - p.level) / p.unit
        return slope * factor, places[0], jump * factor, places[1], other * factor

    return kinks


def _jit(function: Callable[..., Any], title: str, *, kinks: bool = False) -> Any:
    """Compile a user's function, with calls of `math` and `numpy` replaced by our own, which vectorize."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType):
        raise LossError(f"The loss `{title}` must be made of Python functions of two numbers, got {function!r}.")
    swapped = {name: _vectorizing(part) for name, part in function.__globals__.items()}
    fresh = FunctionType(function.__code__, swapped, function.__name__, function.__defaults__, function.__closure__)
    fresh.__kwdefaults__ = function.__kwdefaults__
    compiled = numba.njit(**INLINED)(fresh)

    def call(x, o):  # type: ignore[no-untyped-def]
        return compiled(x, o)

    def five(o):  # type: ignore[no-untyped-def]
        slope, first, jump, second, other = compiled(o)
        return float(slope), float(first), float(jump), float(second), float(other)

    whole = numba.njit(**INLINED)(five if kinks else call)
    try:
        inspect.signature(function).bind(*(0.0,) if kinks else (0.0, 0.0))
        whole.compile("UniTuple(float64, 5)(float64)" if kinks else "float64(float64, float64)")
    except (numba.core.errors.NumbaError, TypeError) as error:
        raise LossError(
            f"The loss `{title}` cannot be compiled: {_reason(error)}. "
            "Use plain arithmetic, abs, min, max, `if` and functions of `math` on "
            + ("one number, and return five." if kinks else "two numbers.")
        ) from error
    return whole if kinks else compiled


def _reason(error: Exception) -> str:
    lines = [line.strip().rstrip(".:") for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), lines[0])


_OWN = {"exp": formulas.exp, "log": formulas.log, "log1p": formulas.log1p}
_BY_FUNCTION = {getattr(module, name): own for module in (math, np) for name, own in _OWN.items()}


def _vectorizing(part: Any) -> Any:
    """A global of the user's function, with exp, log and log1p replaced by our own."""
    if part is math or part is np:
        module = ModuleType(part.__name__)
        module.__dict__.update(part.__dict__)
        module.__dict__.update(_OWN)
        return module
    if isinstance(part, type(math.exp) | np.ufunc):
        return _BY_FUNCTION.get(part, part)
    return part
