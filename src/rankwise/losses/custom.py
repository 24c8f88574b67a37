"""Losses written by users: Python functions of two numbers, compiled in the process that uses them."""

import inspect
import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from .._arrays import Array
from .._checks import is_number, one_of
from .._digests import checksum
from .._errors import LossError
from ..kernels.formulas import Formulas, declare
from .base import Loss, takes_signs
from .custom_check import check_on_grid
from .custom_formulas import CustomFormula, Function, Kinks, complete
from .density import Measured
from .domains import REALS, Domain
from .links import LINKS
from .units import UNCHANGED, Units

_numbers = itertools.count()
_COMPILED: dict[Any, Formulas] = {}  # by smoothness and the definitions of value, slope, curvature and kinks
_STEP = float(np.cbrt(np.finfo(float).eps))  # best for a first difference
_WIDE_STEP = float(np.finfo(float).eps ** 0.25)  # best for a second difference
N_MEASURED = 1000  # targets among which those are chosen at which a loss is measured
LEVEL_MATTERS = 1e-5  # relative change of a loss by a level that shows that it is no function of the error alone
ORDINARY = 2.0**12  # sizes of losses between its inverse and itself are left as they are


@dataclass(frozen=True)
class Declaration:
    """Everything about a custom loss but its value; see `loss`."""

    slope: Function | None = None
    curvature: Function | None = None
    kinks: Kinks | None = None
    smooth: bool = False
    lipschitz: float | None = None
    quadratic: bool = False
    link: str = "identity"
    domain: Domain = REALS

    def __post_init__(self) -> None:
        """Raise `LossError` for facts that cannot be true."""
        if self.lipschitz is not None and not (is_number(self.lipschitz) and 0 < self.lipschitz < np.inf):
            raise LossError(f"`lipschitz` must be a positive number, got {self.lipschitz!r}; leave it out if unknown.")
        for name, fact in (("smooth", self.smooth), ("quadratic", self.quadratic)):
            if not isinstance(fact, bool | np.bool_):
                raise LossError(f"`{name}` must be True or False, got {fact!r}.")
        if self.lipschitz is not None and not self.smooth:
            raise LossError("`lipschitz` bounds the change of the slope, so it needs `smooth=True`.")
        if self.quadratic and not self.smooth:
            raise LossError("A quadratic loss has a continuous slope: `quadratic=True` needs `smooth=True`.")
        if self.kinks is not None and self.smooth:
            raise LossError("A loss with kinks is not smooth; leave out `kinks` or `smooth=True`.")
        if self.link not in LINKS:
            raise LossError(f"`link` must be {one_of(LINKS)}, got {self.link!r}.")
        if not isinstance(self.domain, Domain):
            raise LossError(
                "`domain` must be a `rankwise.losses.Domain`, such as `rankwise.losses.SIGNS` or "
                f"`rankwise.losses.COUNTS`, got {self.domain!r}."
            )


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
    _measured: Measured | None = None
    _spread = 1.0  # of the targets, in the units of x and o; known once the loss has been measured
    _level = 0.0  # added to what the function is called with

    def __init__(self, value: Function, declaration: Declaration) -> None:
        self.title = getattr(value, "__name__", "loss")
        self.smooth, self.lipschitz = declaration.smooth, declaration.lipschitz
        self.quadratic, self.link, self.domain = declaration.quadratic, declaration.link, declaration.domain
        self._value, self._declared = value, declaration
        self.__doc__ = value.__doc__

    def __repr__(self) -> str:
        """Name and declared facts."""
        return f"CustomLoss({self.title}, smooth={self.smooth}, lipschitz={self.lipschitz})"

    def __call__(self, x: Any, o: Any) -> Any:
        """Values of the user's function, entry by entry."""
        return self.value(x, o)

    def __getstate__(self) -> dict[str, Any]:
        """All attributes but the compiled functions, which cannot leave their process."""
        return {name: part for name, part in self.__dict__.items() if name != "formulas"}

    @property
    def formula(self) -> Any:
        """Units, and the steps of differences, which are wider where a large level has eaten digits."""
        _, unit, size = self.units
        rounding = float(np.finfo(float).eps) * abs(self._level) / (unit * self._spread)  # of x and o, in spreads
        steps = max(_STEP, rounding**0.5), max(_WIDE_STEP, rounding ** (1 / 3))
        return self.formulas.parameters(self._level, unit, 1.0 / size, *(self._spread * step for step in steps))

    @property
    def has_units(self) -> bool:
        """Whether predictions are in the unit of the targets."""
        return self.link == "identity" and not takes_signs(self)

    def in_units(self, units: Units) -> Loss:
        """Return the loss of numbers stored in these units; the function itself is called in those of the targets.

        A function of the error alone is called without the level, which would cost it digits.
        """
        original: CustomLoss = self.original  # type: ignore[assignment]
        if units == UNCHANGED:
            return original
        level = 0.0 if original._ignores(units.level, units.unit) else units.level
        changed = original._with(units=units, _original=original, _level=level)
        if changed.lipschitz is not None:
            changed.lipschitz *= units.unit**2 / units.size
        return changed  # type: ignore[no-any-return]

    def _ignores(self, level: float, unit: float) -> bool:
        """Return whether a level added to prediction and target changes no value."""
        x, o = (unit * part for part in np.mgrid[-4:4:9j, -2:2:5j])
        with np.errstate(all="ignore"):
            plain, raised = self.value(x, o), self.value(level + x, level + o)
            changes = np.abs(raised - plain)
        return bool(level and np.all(changes <= LEVEL_MATTERS * np.abs(plain).max()))

    def measured(self, entries: Any) -> "CustomLoss":
        """Return the loss with its density measured at the targets, if it has one."""
        if not self.has_units:
            return self
        spread = entries.target_facts().spread / self.units.unit or 1.0
        targets = self.units.stored(entries.few_targets(N_MEASURED), np.float64)
        if not self.in_domain(entries.few_targets(N_MEASURED)).all():  # refused by `check_targets`
            return self
        known = self._with(_spread=spread if spread < np.inf else 1.0, _original=self.original)
        return known._with(_measured=Measured.of(known, targets, spread))  # type: ignore[no-any-return]

    def unit_size(self, unit: float, entries: Any) -> float:
        """Return the power of two next to the typical loss of the entries; 1 for ordinary sizes."""
        known = self.original.measured(entries)._measured  # type: ignore[attr-defined]
        if known is None or 1 / ORDINARY < known.size < ORDINARY:
            return 1.0
        return float(2.0 ** round(math.log2(known.size)))

    def typical(self, spread: float, order: int = 0) -> float:
        """Return the measured size of the losses over a power of the spread; 1 if there is none."""
        return 1.0 if self._measured is None else self._measured.size / spread**order

    def log_normaliser(self, scale: float) -> float:
        """Return the measured log normalizer; zero if the loss is no density or has not been measured."""
        return 0.0 if self._measured is None else self._measured.log_normaliser(scale)

    def best_scale(self, mean: float) -> float:
        """Return the maximum-likelihood scale under the measured density; 1 if there is none."""
        return 1.0 if self._measured is None else self._measured.best_scale(mean)

    @cached_property
    def formulas(self) -> Formulas:
        """The user's functions in the kernels' form, under a tuple type of their own.

        Numba never releases machine code, some megabytes for each loss, so losses with equal code share it.
        """
        declared = self._declared
        functions = (self._value, declared.slope, declared.curvature, declared.kinks)
        key = (bool(self.smooth), *map(_definition, functions))
        if key not in _COMPILED:
            # Numba tells types apart by their names, so each loss needs one of its own.
            kind = type(f"CustomFormula{next(_numbers)}", (CustomFormula,), {"__module__": "outside"})
            _COMPILED[key] = declare(complete(kind, self.title, self._value, declared))
        return _COMPILED[key]

    @property
    def piecewise_linear(self) -> bool:
        """Whether kinks are declared."""
        return self._declared.kinks is not None

    @property
    def built_in(self) -> bool:
        """Always False, because neither caches nor files keep code of users."""
        return False

    def parameters(self) -> dict[str, Any]:
        """None: constants are part of the function."""
        return {}

    def checksum(self) -> bytes:
        """Digest of the code of the functions and of the declared facts."""
        declared = self._declared
        functions = (self._value, declared.slope, declared.curvature, declared.kinks)
        facts = (self.smooth, self.lipschitz, self.quadratic, self.link, str(self.domain))
        return checksum(self.title, *self.units, *facts, *map(_code_and_constants, functions))

    def check_targets(self, targets: Array) -> None:
        """Check the targets, then the loss itself on a grid around them."""
        super().check_targets(targets)
        if targets.size:
            check_on_grid(self, self.units.stored(targets, np.float64))


def loss(
    value: Function | None = None,
    *,
    slope: Function | None = None,
    curvature: Function | None = None,
    kinks: Kinks | None = None,
    smooth: bool = False,
    lipschitz: float | None = None,
    quadratic: bool = False,
    link: str = "identity",
    domain: Domain = REALS,
) -> Any:
    """Make a loss from a function of a prediction and a target; usable as a decorator.

    Parameters
    ----------
    value : callable (x, o) -> float
        Convex in x. Plain arithmetic on two floats; Numba compiles it.
    slope, curvature : callable (x, o) -> float, optional
        First and second derivative in x. Missing ones are central differences in float64.
    kinks : callable (o) -> 5 floats, optional
        For a loss that consists of two or three straight lines: the slope of the first, then the x and the increase of
        the slope of the first kink and of the second (increase 0 if there is none). The pursuit of nonsmooth losses
        then takes exact best steps.
    smooth : bool, default=False
        Declares that the slope is continuous, which the refinements need.
    lipschitz : float, optional
        Lipschitz constant of the slope. Without it step sizes are found by backtracking.
    quadratic : bool, default=False
        Declares that the curvature is the same everywhere, so that coefficients are refitted by least squares.
    link : {"identity", "logit", "log"}, default="identity"
        How predictions relate to targets: the value itself, the log-odds of +1, or the log of the rate.
    domain : Domain, default=REALS
        The targets that the loss accepts, such as `rankwise.losses.SIGNS` or `rankwise.losses.COUNTS`.

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
    declaration = Declaration(slope, curvature, kinks, smooth, lipschitz, quadratic, link, domain)
    if value is None:
        return lambda function: CustomLoss(function, declaration)
    return CustomLoss(value, declaration)


def _code_and_constants(function: Any) -> Any:
    """Byte code of a function, its defaults, and the numbers it takes from enclosing scopes."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType):
        return repr(function)
    near, far = inspect.getclosurevars(function)[:2]
    numbers = [(name, part) for name, part in sorted({**far, **near}.items()) if is_number(part)]
    return _code(function.__code__), numbers, function.__defaults__


def _code(code: CodeType) -> Any:
    consts = tuple(_code(part) if isinstance(part, CodeType) else part for part in code.co_consts)
    return code.co_code, consts, code.co_names


def _definition(part: Any, depth: int = 0) -> Any:
    """Return a key that is equal for functions with the same machine code: code, defaults, and what they refer to.

    A function that refers to anything but numbers, text, modules, built-in functions and functions of these kinds is
    equal to itself only.
    """
    if part is None or isinstance(part, bool | int | float | np.number | str):
        return type(part), repr(part)
    if isinstance(part, ModuleType | type(math.exp) | np.ufunc):
        return part
    function = getattr(part, "py_func", part)
    if not isinstance(function, FunctionType) or depth > 5:
        return object()
    near, far = inspect.getclosurevars(function)[:2]
    outside = tuple((name, _definition(value, depth + 1)) for name, value in sorted({**far, **near}.items()))
    return repr((_code(function.__code__), function.__defaults__, function.__kwdefaults__)), outside
