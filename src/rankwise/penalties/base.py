"""Base class of the penalties on factors, and the registry of their names."""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from .._arrays import Array
from .._checks import is_number, one_of
from .._errors import SettingError
from ..kernels.row_penalties import PenaltyFormulas, RowPenalty, row_penalty


@dataclass(frozen=True)
class Penalty:
    """A penalty or a constraint on the factors of every row of one side, beside their ridge.

    A penalty is declared in one place: a NamedTuple of its parameters, the functions that `PenaltyFormulas` lists, and
    a frozen dataclass decorated with `register`, whose fields are the parameters and the ridge.

    Attributes
    ----------
    ridge : float, optional
        Ridge of this side's factors; by default the solver's, and none for penalties that fix the scale.
    name : str
        Its name in ``rows=`` and ``cols=``.
    formulas : PenaltyFormulas or None
        Functions that the row solver calls; None if the ridge is all.
    nonnegative : bool
        Whether no factor is below zero.
    fixes_scale : bool
        Whether the factors of a row cannot be multiplied by a number, so that the other side has the unit of the
        targets.

    Examples
    --------
    >>> import rankwise as rw
    >>> sorted(rw.penalties.BY_NAME)
    ['l1', 'nonnegative', 'nonnegative_l1', 'onehot', 'ridge', 'simplex']
    """

    name: ClassVar[str] = ""
    nonnegative: ClassVar[bool] = False
    fixes_scale: ClassVar[bool] = False
    ridge: float | None = None

    def __post_init__(self) -> None:
        for name in self.numbers():
            self._check(name, getattr(self, name))
        if self.ridge is not None:
            self._check("ridge", self.ridge)

    def _check(self, name: str, number: Any) -> None:
        if not (is_number(number) and 0 <= number < np.inf):
            raise SettingError(f"`{name}` of {type(self).__name__} must be a number of at least zero, got {number!r}.")

    @property
    def formulas(self) -> PenaltyFormulas | None:
        """Functions that the row solver calls; None if the ridge is all."""
        return None

    @property
    def has_units(self) -> bool:
        """Whether `in_units` converts the penalty."""
        return True

    def numbers(self) -> dict[str, float]:
        """Parameters of the formulas by name."""
        return {part.name: getattr(self, part.name) for part in fields(self) if part.name != "ridge"}

    def own_ridge(self, default: float) -> float:
        """Ridge of this side's factors, given the solver's."""
        if self.ridge is not None:
            return float(self.ridge)
        return 0.0 if self.fixes_scale else default

    def compiled(self, size: int) -> RowPenalty:
        """Return the penalty on `size` factors as the row solver takes it."""
        formulas = self.formulas
        assert formulas is not None
        parameters = formulas.parameters(float(size), *map(float, self.numbers().values()))
        return row_penalty(formulas, parameters, cached=formulas.parameters.__module__.startswith(f"{__package__}."))

    def feasible(self, factors: Array) -> Array:
        """Return factors near the given ones that satisfy the constraint, shape (n, rank)."""
        return np.maximum(factors, 0) if self.nonnegative else factors

    def in_units(self, unit: float, size: float) -> "Penalty":
        """Return the penalty on factors divided by `unit`, beside a loss divided by `size`."""
        return self if self.ridge is None else replace(self, ridge=self.ridge * unit**2 / size)

    def to_plain(self) -> dict[str, Any]:
        """Return name and parameters in JSON types, for a model's file."""
        return {"name": self.name, "ridge": self.ridge, **self.numbers()}


BY_NAME: dict[str, type[Penalty]] = {}
KindT = TypeVar("KindT", bound=type[Penalty])


def register(kind: KindT) -> KindT:
    """Make a penalty without required parameters available under its `name`; a class decorator.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.penalties.register(rw.penalties.NonNegative) is rw.penalties.BY_NAME["nonnegative"]
    True
    """
    if BY_NAME.setdefault(kind.name, kind) is not kind:
        raise SettingError(f"The name {kind.name!r} belongs to the penalty {BY_NAME[kind.name].__name__}.")
    return kind


def get(penalty: "str | Penalty | None", parameter: str = "penalty") -> Penalty | None:
    """Return a penalty by name; penalties and None pass through.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.penalties.get("nonnegative")
    NonNegative(ridge=None)
    """
    if penalty is None or isinstance(penalty, Penalty):
        return penalty
    if not isinstance(penalty, str) or penalty not in BY_NAME:
        known = one_of(sorted(BY_NAME))
        raise SettingError(f"`{parameter}` must be None, {known}, or one of `rankwise.penalties`, got {penalty!r}.")
    return BY_NAME[penalty]()


@dataclass(frozen=True)
class UnknownPenalty(Penalty):
    """A penalty of which a file has the title only, a user's or `Fixed`: solving with it raises `SettingError`."""

    title: str = "penalty"

    def __post_init__(self) -> None:
        """Check nothing."""

    @property
    def formulas(self) -> PenaltyFormulas:
        """Raise, because the functions are not known."""
        raise SettingError(
            f"The model was fitted with the penalty `{self.title}`, which its file does not contain; fit it again to "
            "fold in new rows."
        )

    def to_plain(self) -> dict[str, Any]:
        """Return the title."""
        return {"name": "custom", "title": self.title}


def from_plain(plain: Any) -> Penalty | None:
    """Return the penalty that `to_plain` wrote; None stays None."""
    if plain is None:
        return None
    settings = dict(plain)
    name = settings.pop("name")
    if name not in BY_NAME:
        return UnknownPenalty(title=str(settings.get("title", name)))
    return BY_NAME[name](**settings)


@register
@dataclass(frozen=True)
class Ridge(Penalty):
    """``ridge / 2 * sum(x**2)``: what the sweeps have by default.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.FactorSweeps(rows=rw.penalties.Ridge(0.5)).ridges
    (0.5, 2.0)
    """

    name = "ridge"


def allow_units(penalties: tuple[Penalty | None, Penalty | None]) -> bool:
    """Whether a fit may store targets in other units: not if both sides fix the scale, or a penalty has no units."""
    given = [each for each in penalties if each is not None]
    return all(each.has_units for each in given) and sum(each.fixes_scale for each in given) < 2


def factor_units(penalties: tuple[Penalty | None, Penalty | None], unit: float) -> tuple[float, float]:
    """Units of the factors of rows and columns: the root of the targets' unit, or all of it on one side."""
    rows, cols = (each is not None and each.fixes_scale for each in penalties)
    return (1.0, unit) if rows else (unit, 1.0) if cols else (float(np.sqrt(unit)), float(np.sqrt(unit)))
