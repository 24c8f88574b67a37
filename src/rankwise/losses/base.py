"""Base class of all losses, the kernels that take them, and the registry of names."""

import copy
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Array
from .._digests import checksum
from .._errors import DataError, LossError
from ..kernels import entrywise, piecewise
from ..kernels.formulas import Formulas
from ..kernels.jit import uncached
from .domains import REALS, SIGNS, ZERO_ONE, Domain
from .units import UNCHANGED, Units

PACKAGE = __name__.removesuffix("base")


@dataclass(frozen=True)
class Kernels:
    """The compiled loops that take a loss's formula as their first argument."""

    evaluate: Any = entrywise.evaluate
    plane: Any = entrywise.plane
    plane_curve: Any = entrywise.plane_curve
    curve: Any = entrywise.curve
    values_at: Any = entrywise.values_at
    breakpoints: Any = piecewise.breakpoints
    breakpoints_between: Any = piecewise.breakpoints_between


CACHED = Kernels()
# For code from outside the package: the digest in the name of the cache's folder does not cover it.
UNCACHED = Kernels(**{name: uncached(kernel) for name, kernel in vars(CACHED).items()})


class Loss:
    """A convex function of the prediction x, given the target o.

    A loss is declared in one file of `rankwise.losses`: a `NamedTuple` of its parameters, plain scalar functions, and a
    frozen dataclass decorated with `register`, whose fields are the parameters and which sets the attributes below.
    Look-up by name, the command line, `Mixed` and the tests of all losses' laws follow from the declaration.

    Attributes
    ----------
    name : str
        Its name in ``loss=``.
    formulas : Formulas
        Value, slope and curvature as scalar functions that kernels inline; kinks if the loss is piecewise linear; a
        bound on the expected loss if it has one.
    smooth : bool
        Whether the slope is continuous.
    lipschitz : float or None
        Lipschitz constant of the slope, the paper's L; None if there is none, or none is known.
    quadratic : bool
        Whether the curvature is the same everywhere, so that refitting coefficients is a least-squares problem.
    domain : Domain
        The targets it accepts.
    link : str
        How predictions relate to targets: "identity", "logit" (log-odds of +1) or "log" (log of the rate).
    mean_width : float
        Positive if the best prediction is the mean of the targets, on the link scale, at least of those within this
        distance of it; zero if it is another statistic, such as the median.
    symmetric : bool
        For real targets: whether the loss is the same above and below the target, so that a prediction is both mean
        and median of its targets.
    degree : float
        For real targets: the power of c by which the loss grows if predictions, targets and parameters are multiplied
        by c; zero for other targets.
    units : Units
        Level and unit of the numbers that the loss is a function of; see `in_units`.

    Methods that a loss overrides if they apply: `log_normaliser` and `best_scale` (losses that are negative log
    densities of the target), `rescaled` (losses with parameters in the unit of the targets), `least_value` (losses
    whose minimum over x is not zero), `formula` and `restore` (losses whose parameters are not plain numbers).

    Examples
    --------
    >>> import rankwise as rw
    >>> huber = rw.losses.get("huber")
    >>> print(huber.smooth, huber.lipschitz, huber.domain)
    True 1.0 any real number
    >>> huber.slope([-5.0, 0.5], 0.0)
    array([-1. ,  0.5])
    """

    name: ClassVar[str]
    smooth: bool = True
    lipschitz: float | None = None
    quadratic: bool = False
    domain: Domain = REALS
    link: str = "identity"
    mean_width: float = 0.0
    symmetric: bool = True
    degree: float = 0.0
    units: Units = UNCHANGED
    _original: "Loss | None" = None

    @property
    def original(self) -> "Loss":
        """The loss in the units of the targets."""
        return self if self._original is None else self._original

    @property
    def has_units(self) -> bool:
        """Whether targets may be stored in other units."""
        return self.degree > 0

    def in_units(self, units: Units) -> "Loss":
        """Return the loss of numbers stored in these units: ``loss(level + unit x, level + unit o) / size``."""
        if units == UNCHANGED:
            return self.original
        scaled: Loss = self.original.rescaled(units.unit)._with(units=units, _original=self.original)
        return scaled

    def rescaled(self, unit: float) -> "Loss":
        """Return the loss with its parameters divided by `unit`."""
        return self

    def measured(self, entries: Any) -> "Loss":
        """Return the loss with what must be measured at the targets; this loss itself if nothing must."""
        return self

    def unit_size(self, unit: float, entries: Any) -> float:
        """Return the size of the losses of entries whose targets have this unit, a power of two."""
        return float(unit**self.degree)

    def typical(self, spread: float, order: int = 0) -> float:
        """Return the order of magnitude of the loss at errors of `spread`, or of a derivative; 1 if not known."""
        return float(spread ** (self.degree - order)) if self.degree and spread > 0 else 1.0

    def _with(self, **attributes: Any) -> Any:
        """Return a copy with other attributes; losses are frozen."""
        changed = copy.copy(self)
        for name, value in attributes.items():
            object.__setattr__(changed, name, value)
        return changed

    @property
    def formulas(self) -> Formulas:
        """The scalar functions of the loss, as declared to the kernels."""
        raise NotImplementedError(f"{type(self).__name__} declares no formulas.")

    @property
    def formula(self) -> Any:
        """The parameters as the tuple that the kernels dispatch on."""
        return self.formulas.parameters(*map(float, self.parameters().values()))

    @property
    def compiled(self) -> Kernels:
        """The kernels that accept this loss's formula."""
        return CACHED if self.built_in else UNCACHED

    @property
    def built_in(self) -> bool:
        """Whether the loss is declared in this package, so that compiled code may be cached and files may name it."""
        return in_package(self.formulas.parameters)

    @property
    def piecewise_linear(self) -> bool:
        """Whether the loss consists of straight lines with known kinks; the best step is then a weighted median."""
        return self.formulas.kinks is not None

    def parameters(self) -> dict[str, Any]:
        """Parameters by name, as the constructor takes them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def restore(cls, parameters: dict[str, Any]) -> "Loss":
        """Loss with parameters that were read from a file."""
        return cls(**parameters)

    def column_parameters(self) -> NDArray[np.float64]:
        """Parameters as one flat array, as `Mixed` stores those of a column; raises `LossError` if it cannot be one."""
        return np.concatenate([np.ravel(part) for part in self.formula]).astype(np.float64)

    def checksum(self) -> bytes:
        """Digest of the name and the parameters."""
        return checksum(type(self).__name__, *self.formula, *self.units)

    def in_domain(self, targets: Array) -> NDArray[np.bool_]:
        """Mask of the targets that this loss accepts."""
        return self.domain.contains(targets)

    def log_normaliser(self, scale: float) -> float:
        """Log of the integral of ``exp(-scale * loss)`` over the target; zero if the loss is no density of it."""
        return 0.0

    def best_scale(self, mean: float) -> float:
        """Maximum-likelihood scale for a mean loss: minimizes ``scale * mean + log_normaliser``; 1 if no density."""
        return 1.0

    def least_value(self, targets: Array) -> NDArray[np.float64]:
        """Minimum of the loss over all predictions, for each target."""
        return np.zeros(targets.shape)

    def check_targets(self, targets: Array) -> None:
        """Raise `DataError` naming the first target outside the domain."""
        wrong = np.flatnonzero(~self.in_domain(targets))
        if wrong.size:
            self.refuse(wrong.size, targets.size, targets[wrong[0]], int(wrong[0]))

    def refuse(self, n_wrong: int, n: int, first: Any, entry: int) -> None:
        """Raise `DataError`: `n_wrong` of `n` targets are outside the domain, the first of them at `entry`."""
        raise DataError(
            f"{type(self).__name__} needs targets that are {self.domain}; {n_wrong} of {n} are not "
            f"(first: {first:g} at entry {entry}). {self.domain.remedy}"
        )

    def _at(self, x: ArrayLike, o: ArrayLike) -> NDArray[np.float64]:
        """Value, slope and curvature, shape (3, ...)."""
        x, o = np.broadcast_arrays(np.asarray(x, float), np.asarray(o, float))
        out = np.empty((3, x.size))
        self.compiled.values_at(self.formula, x.ravel(), o.ravel(), out)
        return out.reshape((3, *x.shape))

    def value(self, x: ArrayLike, o: ArrayLike) -> NDArray[np.float64]:
        """Loss at predictions `x` and targets `o`, entry by entry."""
        values: NDArray[np.float64] = self._at(x, o)[0]
        return values

    def slope(self, x: ArrayLike, o: ArrayLike) -> NDArray[np.float64]:
        """Derivative in x (a subgradient at a kink), entry by entry."""
        slopes: NDArray[np.float64] = self._at(x, o)[1]
        return slopes

    def curvature(self, x: ArrayLike, o: ArrayLike) -> NDArray[np.float64]:
        """Second derivative in x where it exists, entry by entry."""
        curvatures: NDArray[np.float64] = self._at(x, o)[2]
        return curvatures


def in_package(parameters: type) -> bool:
    """Whether the type of a loss's parameters is declared in this package."""
    return parameters.__module__.startswith(PACKAGE)


def takes_signs(loss: Loss | None) -> bool:
    """Whether the targets of `loss` are one of two classes, -1 and +1 or 0 and 1; False for None."""
    return loss is not None and loss.domain in (SIGNS, ZERO_ONE)


def classes_of(loss: Loss | None) -> tuple[float, float]:
    """Targets of the two classes, the positive one last: 0 and 1 if `loss` takes these, else -1 and +1."""
    return (0.0, 1.0) if loss is not None and loss.domain == ZERO_ONE else (-1.0, 1.0)


BY_NAME: dict[str, type[Loss]] = {}
Kind = TypeVar("Kind", bound=type[Loss])


def register(kind: Kind) -> Kind:
    """Make a loss available under its `name`; a class decorator.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.losses.register(rw.losses.Huber) is rw.losses.BY_NAME["huber"]
    True
    """
    if BY_NAME.setdefault(kind.name, kind) is not kind:
        raise LossError(f"The name {kind.name!r} belongs to the loss {BY_NAME[kind.name].__name__}; choose another.")
    return kind
