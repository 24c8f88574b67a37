"""Losses that users write: one Python function, compiled in this process, checked before it is used."""

import inspect
import itertools
import math
from collections.abc import Callable
from functools import cached_property
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from .._checks import is_number
from .._digests import checksum
from .._errors import LossError
from ..kernels import formulas
from ..kernels.jit import INLINED, uncached
from .base import BUILT_IN, Loss

Formula = Callable[[float, float], float]

UNCACHED = ("evaluate", "plane", "plane_curve", "curve", "values_at", "solve_rows", "expected_loss")
# One set of kernels for all user losses: the type of the formula picks the specialisation, never a disk cache.
_KERNELS = SimpleNamespace(**{name: uncached(getattr(BUILT_IN, name)) for name in UNCACHED})
_numbers = itertools.count()
_STEP = float(np.cbrt(np.finfo(float).eps))  # best for a first difference
_WIDE_STEP = float(np.finfo(float).eps ** 0.25)  # best for a second
N_POINTS = 201  # predictions that a loss is looked at for each target


class CustomLoss(Loss):
    """A loss made from a user's function ``value(x, o)``; see `loss`.

    Examples
    --------
    >>> import rankwise as rw
    >>> cube = rw.loss(lambda x, o: abs(x - o) ** 3)
    >>> cube.value([0.0, 2.0], 1.0), cube.smooth
    (array([1., 1.]), False)
    """

    name = "custom"

    def __init__(
        self,
        value: Formula,
        *,
        slope: Formula | None = None,
        curvature: Formula | None = None,
        smooth: bool = False,
        lipschitz: float | None = None,
    ) -> None:
        if lipschitz is not None and not (is_number(lipschitz) and 0 < lipschitz < np.inf):
            raise LossError(f"`lipschitz` must be a positive number, got {lipschitz!r}; leave it out if unknown.")
        if not isinstance(smooth, bool | np.bool_):
            raise LossError(f"`smooth` must be True or False, got {smooth!r}.")
        if lipschitz is not None and not smooth:
            raise LossError("`lipschitz` bounds the slope's change, so it needs `smooth=True`.")
        self.title = getattr(value, "__name__", "loss")
        self.smooth, self.lipschitz = smooth, lipschitz
        self._functions = (value, slope, curvature)
        self.__doc__ = value.__doc__

    def __repr__(self) -> str:
        """Name and declared facts."""
        return f"CustomLoss({self.title}, smooth={self.smooth}, lipschitz={self.lipschitz})"

    def __call__(self, x: Any, o: Any) -> Any:
        """Values of the user's function, entry by entry."""
        return self.value(x, o)

    def __getstate__(self) -> dict[str, Any]:
        """All but what is compiled, which lives in its process alone."""
        return {name: part for name, part in self.__dict__.items() if name != "formula"}

    @cached_property
    def formula(self) -> Any:
        """A tuple type of its own, registered with the kernels."""
        # Numba tells types apart by their names, so each loss needs one of its own.
        kind: Any = type(f"CustomFormula{next(_numbers)}", (formulas.SquareFormula,), {})
        formulas.FORMULAS[kind] = _complete(self.title, *self._functions)
        return kind()

    @property
    def compiled(self) -> Any:
        """Kernels that are never cached on disk."""
        return _KERNELS

    def checksum(self) -> bytes:
        """Tells whether another loss is the same, by the code of its functions."""
        return checksum(self.title, self.smooth, self.lipschitz, *(_said_by(each) for each in self._functions))

    def check_targets(self, targets: NDArray[Any]) -> None:
        """Check the targets, then the loss itself on a grid around them."""
        super().check_targets(targets)
        check_on_grid(self, targets)


def loss(
    value: Formula | None = None,
    *,
    slope: Formula | None = None,
    curvature: Formula | None = None,
    smooth: bool = False,
    lipschitz: float | None = None,
) -> Any:
    """Make a loss from a function of a prediction and a target; usable as a decorator.

    Parameters
    ----------
    value : callable (x, o) -> float
        Convex in x. Plain arithmetic on two floats; Numba compiles it.
    slope, curvature : callable (x, o) -> float, optional
        First and second derivative in x. Missing ones are central differences in float64.
    smooth : bool, default=False
        Declares that the slope is continuous, which the refinements need.
    lipschitz : float, optional
        Lipschitz constant of the slope. Without it steps are found by backtracking.

    Returns
    -------
    CustomLoss

    Examples
    --------
    >>> import rankwise as rw
    >>> @rw.loss
    ... def pinball(x, o):
    ...     return max(0.9 * (o - x), 0.1 * (x - o))
    >>> pinball.value([0.0, 2.0], 1.0)
    array([0.9, 0.1])
    """
    options: dict[str, Any] = {"slope": slope, "curvature": curvature, "smooth": smooth, "lipschitz": lipschitz}
    if value is None:
        return lambda function: CustomLoss(function, **options)
    return CustomLoss(value, **options)


def check_on_grid(loss: CustomLoss, targets: NDArray[Any]) -> None:
    """Refuse a loss that is visibly not convex, or whose slope or Lipschitz constant is visibly wrong.

    Looks at a grid of predictions around at most 25 of the targets' quantiles: a check, not a proof. Far from zero a
    loss may be infinite, as an exponential is; there the check looks away.
    """
    chosen = np.unique(np.quantile(targets, np.linspace(0, 1, 25), method="nearest")).astype(float)
    reach = max(3.0, 2.0 * float(np.abs(chosen).max()))
    for x in (np.linspace(-3.0, 3.0, N_POINTS), np.linspace(-reach, reach, N_POINTS)):
        for o in chosen:
            with np.errstate(invalid="ignore", over="ignore"):
                _check_one(loss, x, o)


def _check_one(loss: CustomLoss, x: NDArray[np.float64], o: float) -> None:
    value, slope, _ = loss._at(x, o)
    gap = x[1] - x[0]
    near = np.abs(x) <= 3.0

    def refuse(wrong: NDArray[np.bool_], what: str) -> None:
        if wrong.any():
            k = int(np.argmax(wrong))
            raise LossError(
                f"The loss `{loss.title}` {what} near x = {x[k]:.4g} for target {o:g} "
                f"(value {value[k]:.4g}, slope {slope[k]:.4g} there)."
            )

    refuse(near & ~np.isfinite(value), "is not finite")
    refuse(near & ~np.isfinite(slope), "has a slope that is not finite")
    change = np.diff(value) / gap
    left, right = np.r_[-np.inf, change], np.r_[change, np.inf]
    slack = 1e-6 * (1.0 + np.abs(slope)) + 1e-9 * np.abs(value) / gap
    refuse(left > right + slack, "bends down, so it is not convex,")
    refuse((slope < left - slack) | (slope > right + slack), "has a slope that does not fit its values")
    if loss.lipschitz is not None:
        steep = np.abs(np.diff(slope)) > loss.lipschitz * gap + slack[1:]
        refuse(np.r_[False, steep], f"has a slope that changes faster than lipschitz={loss.lipschitz:g} allows")


def _jit(function: Formula, title: str) -> Any:
    """Compile a user's function, with `math` and `numpy` calls replaced by twins that vectorise."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType):
        raise LossError(f"The loss `{title}` must be made of Python functions of two numbers, got {function!r}.")
    swapped = {name: _vectorising(found) for name, found in function.__globals__.items()}
    fresh = FunctionType(function.__code__, swapped, function.__name__, function.__defaults__, function.__closure__)
    fresh.__kwdefaults__ = function.__kwdefaults__
    compiled = numba.njit(**INLINED)(fresh)

    def call(x, o):  # type: ignore[no-untyped-def]
        return compiled(x, o)

    try:
        inspect.signature(function).bind(0.0, 0.0)
        numba.njit(**INLINED)(call).compile("float64(float64, float64)")
    except (numba.core.errors.NumbaError, TypeError) as error:
        raise LossError(
            f"The loss `{title}` cannot be compiled: {_reason(error)}. "
            "Use plain arithmetic, abs, min, max, `if` and functions of `math` on two numbers."
        ) from error
    return compiled


def _said_by(function: Any) -> Any:
    """What a function computes: its code, and the numbers that it takes from elsewhere."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType):
        return repr(function)
    near, far = inspect.getclosurevars(function)[:2]
    numbers = [(name, found) for name, found in sorted({**far, **near}.items()) if is_number(found)]
    return _code(function.__code__), numbers, function.__defaults__


def _code(code: CodeType) -> Any:
    consts = tuple(_code(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.co_code, consts, code.co_names


def _reason(error: Exception) -> str:
    lines = [line.strip().rstrip(".:") for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("Failed in")), lines[0])


_TWINS = {"exp": formulas.exp, "log": formulas.log, "log1p": formulas.log1p}
_SAME = {getattr(module, name): twin for module in (math, np) for name, twin in _TWINS.items()}


def _vectorising(found: Any) -> Any:
    if found is math or found is np:
        twin = ModuleType(found.__name__)
        twin.__dict__.update(found.__dict__)
        twin.__dict__.update(_TWINS)
        return twin
    if isinstance(found, type(math.exp) | np.ufunc):
        return _SAME.get(found, found)
    return found


def _complete(title: str, value: Formula, slope: Formula | None, curvature: Formula | None) -> tuple[Any, Any, Any]:
    """Formulas in the kernels' form ``(p, x, o)``, central differences where one is missing."""
    f = _jit(value, title)

    def value_of(p, x, o):  # type: ignore[no-untyped-def]
        return f(x, o)

    def difference(p, x, o):  # type: ignore[no-untyped-def]
        h = _STEP * max(1.0, abs(x))
        return (f(x + h, o) - f(x - h, o)) / (2.0 * h)

    def second_difference(p, x, o):  # type: ignore[no-untyped-def]
        h = _WIDE_STEP * max(1.0, abs(x))
        return (f(x + h, o) - 2.0 * f(x, o) + f(x - h, o)) / (h * h)

    return (
        value_of,
        _wrap(slope, title) if slope else difference,
        _wrap(curvature, title) if curvature else second_difference,
    )


def _wrap(function: Formula, title: str) -> Any:
    compiled = _jit(function, title)

    def formula(p, x, o):  # type: ignore[no-untyped-def]
        return compiled(x, o)

    return formula
