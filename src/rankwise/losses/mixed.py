"""A loss per column."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import DataError, LossError
from ..kernels.formulas import FORMULAS, Formulas
from ..kernels.mixed import MixedFormula, declare_mixed
from .base import Loss, in_package
from .domains import whole_numbers
from .rates import KullbackLeibler, KullbackLeiblerBeyondZero, SquareBeyondZero

RATES = (KullbackLeibler, KullbackLeiblerBeyondZero, SquareBeyondZero)  # require non-negative factors on both sides

MOST_CODES = 2**24  # float32 represents all integers up to here
ParameterTypes = tuple[type[Any], ...]  # types of the parameters of losses


class Mixed(Loss):
    """A loss per column: ``scales[j] * losses[j](x + shifts[j], o)`` for an entry of column j.

    Targets are codes 0, 1, 2 and so on, each standing for a column and a target of its loss, so that everything that
    takes one loss takes many. `encode` creates the loss and the codes from columns and targets.

    Parameters
    ----------
    losses : sequence of Loss, one per column
        Any losses but `Mixed` ones.
    columns, values : array-like of shape (n_codes,)
        Column and target that each code stands for.
    scales, shifts : array-like of shape (n_columns,), optional
        Weight of each column's loss, 1 by default, and the constant added to its predictions, 0 by default.

    Examples
    --------
    >>> import rankwise as rw
    >>> columns, targets = [0, 0, 1, 1], [2.5, 3.0, 1.0, -1.0]  # numbers in column 0, signs in column 1
    >>> loss, codes = rw.losses.Mixed.encode([rw.losses.Huber(), rw.losses.Logistic()], columns, targets)
    >>> loss.value([2.5, 2.0, 0.0, 0.0], codes).round(3)
    array([0.   , 0.5  , 0.693, 0.693])
    """

    name = "mixed"

    def __init__(
        self,
        losses: Sequence[Loss],
        columns: ArrayLike,
        values: ArrayLike,
        *,
        scales: ArrayLike | None = None,
        shifts: ArrayLike | None = None,
    ) -> None:
        self.losses = tuple(losses)
        if not self.losses:
            raise LossError("`losses` must contain at least one loss, got none.")
        wrong = [loss for loss in self.losses if not isinstance(loss, Loss)]
        if wrong:
            raise LossError(f"`losses` must contain objects of `rankwise.losses`, got {wrong[0]!r}.")
        rates = [loss for loss in self.losses if isinstance(loss, RATES)]
        if rates:
            raise LossError(
                f"{type(rates[0]).__name__} cannot be the loss of a column: it requires non-negative factors of "
                "rows and columns."
            )
        self._parameters = [loss.column_parameters() for loss in self.losses]
        self.columns, self.values = np.array(columns, np.int64), np.array(values, np.float64)
        n = len(self.losses)
        self.scales = np.ones(n) if scales is None else np.array(scales, np.float64)
        self.shifts = np.zeros(n) if shifts is None else np.array(shifts, np.float64)
        self._check()
        self.smooth = all(loss.smooth for loss in self.losses)
        self.quadratic = all(loss.quadratic for loss in self.losses) and np.ptp(self.scales) == 0
        constants = [loss.lipschitz for loss in self.losses]
        self.lipschitz = None if None in constants else float(np.max(self.scales * np.array(constants, float)))
        self.domain = whole_numbers(self.values.size, "codes: ")

    @classmethod
    def encode(
        cls, losses: Sequence[Loss], columns: ArrayLike, targets: ArrayLike, **options: Any
    ) -> tuple["Mixed", NDArray[np.float64]]:
        """Make the loss for entries in these columns with these targets; return it, and the entries' codes."""
        pairs = np.stack((np.asarray(columns, float), np.asarray(targets, float)))
        known, codes = np.unique(pairs, axis=1, return_inverse=True)
        return cls(losses, known[0].astype(np.int64), known[1], **options), codes.ravel().astype(float)

    @property
    def piecewise_linear(self) -> bool:
        """Always False, because kinks are not looked up by column."""
        return False

    @property
    def built_in(self) -> bool:
        """Whether all columns have losses that are declared in this package."""
        return all(loss.built_in for loss in self.losses)

    @property
    def kinds(self) -> ParameterTypes:
        """Types of parameters that the compiled code distinguishes, all of the package or those of the columns."""
        if self.built_in:  # one compiled variant for all tables
            rates = {loss.formulas.parameters for loss in RATES}
            return tuple(kind for kind in FORMULAS if in_package(kind) and kind not in rates)
        return tuple(dict.fromkeys(loss.formulas.parameters for loss in self.losses))

    @property
    def formulas(self) -> Formulas:
        """Functions that look up the loss of a code's column."""
        return formulas_for(self.kinds, self.built_in)

    @property
    def formula(self) -> Any:
        """All look-up tables."""
        kinds = self.kinds
        tables = (
            self.columns,
            self.values,
            [kinds.index(loss.formulas.parameters) for loss in self.losses],
            self.scales,
            self.shifts,
            np.cumsum([0, *(part.size for part in self._parameters)]),
            np.concatenate(self._parameters),
        )
        arrays = [np.array(table, np.float64) for table in tables]
        for array in arrays:
            array.flags.writeable = False
        return self.formulas.parameters(*arrays)

    def column_parameters(self) -> NDArray[np.float64]:
        """Raise `LossError`: a mixed loss cannot be a column of another."""
        raise LossError(
            "Mixed cannot be a column of Mixed: its targets are codes; list the losses of its columns instead."
        )

    def __repr__(self) -> str:
        """Number of columns with each loss."""
        names = [loss.name for loss in self.losses]
        kinds = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
        return f"Mixed({kinds})"

    def _check(self) -> None:
        n = len(self.losses)
        if self.columns.shape != self.values.shape or self.columns.ndim != 1 or not self.columns.size:
            raise DataError(
                "`columns` and `values` must have the same length, at least 1, "
                f"got shapes {self.columns.shape} and {self.values.shape}."
            )
        if self.columns.size > MOST_CODES:
            raise DataError(
                f"There are {self.columns.size:,} different values, more than the {MOST_CODES:,} that a loss per "
                "column can number; round the real columns, or learn from fewer rows and fold the others in."
            )
        if self.columns.min() < 0 or self.columns.max() >= n:
            ends = f"{self.columns.min()} to {self.columns.max()}"
            raise DataError(f"`columns` must lie between 0 and {n - 1}, as there are {n} losses; got {ends}.")
        for name, numbers in (("scales", self.scales), ("shifts", self.shifts)):
            if numbers.shape != (n,) or not np.isfinite(numbers).all():
                raise LossError(f"`{name}` must hold one finite number for each of the {n} columns, got {numbers}.")
        if not (self.scales > 0).all():
            raise LossError(f"`scales` must be positive, got {self.scales}.")
        for j, loss in enumerate(self.losses):
            loss.check_targets(self.values[self.columns == j])


@cache
def formulas_for(kinds: ParameterTypes, built_in: bool) -> Formulas:
    """Formulas of mixed losses over these types of parameters, in a tuple type of their own if not all are built in."""
    if built_in:
        return declare_mixed(MixedFormula, kinds)
    name = "_".join(("Mixed", *(kind.__name__ for kind in kinds)))
    return declare_mixed(type(name, (MixedFormula,), {"__module__": "outside"}), kinds)
