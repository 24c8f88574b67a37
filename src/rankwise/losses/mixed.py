"""A loss per column."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._errors import DataError, LossError
from ..kernels import mixed as formulas
from .base import Loss
from .nonsmooth import Absolute, Hinge, Quantile
from .ordinal import Ordinal, OrdinalHinge, ProportionalOdds
from .smooth import Huber, Logistic, Poisson, Square

KINDS: dict[type[Loss], int] = {
    Square: formulas.SQUARE,
    Huber: formulas.HUBER,
    Absolute: formulas.ABSOLUTE,
    Quantile: formulas.QUANTILE,
    Hinge: formulas.HINGE,
    Logistic: formulas.LOGISTIC,
    Poisson: formulas.POISSON,
    Ordinal: formulas.ORDINAL,
    OrdinalHinge: formulas.ORDINAL_HINGE,
    ProportionalOdds: formulas.ODDS,
}
MOST_CODES = 2**24  # float32 holds whole numbers up to here


class Mixed(Loss):
    """A loss per column: ``scales[j] * losses[j](x + shifts[j], o)`` for an entry of column j.

    Targets are codes 0, 1, 2 and so on, each standing for a column and a target of its loss, so that everything that
    takes one loss takes many. `encode` makes one from columns and targets.

    Parameters
    ----------
    losses : sequence of Loss, one per column
        Square, huber, l1, quantile, hinge, logistic, poisson and those of ordered levels.
    columns, values : array-like of shape (n_codes,)
        Column and target that each code stands for.
    scales, shifts : array-like of shape (n_columns,), optional
        Weight of each column's loss, 1 by default, and what is added to its predictions, 0 by default.

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
        wrong = [loss for loss in self.losses if type(loss) not in KINDS]
        if wrong or not self.losses:
            names = ", ".join(kind.name for kind in KINDS)
            raise LossError(f"Mixed takes at least one loss, of {names}; got {wrong[0] if wrong else 'none'!r}.")
        self.columns, self.values = np.array(columns, np.int64), np.array(values, np.float64)
        self.scales, self.shifts = (
            np.full(len(self.losses), usual) if given is None else np.array(given, np.float64)
            for given, usual in ((scales, 1.0), (shifts, 0.0))
        )
        self._check()
        self.smooth = all(loss.smooth for loss in self.losses)
        self.quadratic = all(loss.quadratic for loss in self.losses) and np.ptp(self.scales) == 0
        known = [loss.lipschitz for loss in self.losses]
        self.lipschitz = None if None in known else float(np.max(self.scales * np.array(known, float)))
        self.domain = f"codes: whole numbers from 0 to {self.values.size - 1}"

    @classmethod
    def encode(
        cls, losses: Sequence[Loss], columns: ArrayLike, targets: ArrayLike, **options: Any
    ) -> tuple["Mixed", NDArray[np.float64]]:
        """Make the loss for entries in these columns with these targets; return it, and the entries' codes."""
        pairs = np.stack((np.asarray(columns, float), np.asarray(targets, float)))
        known, codes = np.unique(pairs, axis=1, return_inverse=True)
        return cls(losses, known[0].astype(np.int64), known[1], **options), codes.ravel().astype(float)

    @property
    def formula(self) -> formulas.MixedFormula:
        """All look-up tables."""
        own = [np.array(getattr(loss, "thresholds", ())) for loss in self.losses]
        parameters = [getattr(loss, "delta", getattr(loss, "q", 0.0)) for loss in self.losses]
        arrays = (
            self.columns,
            self.values,
            np.array([KINDS[type(loss)] for loss in self.losses]),
            self.scales,
            self.shifts,
            np.array(parameters, float),
            np.cumsum([0, *(each.size for each in own)]),
            np.concatenate(own) if own else np.zeros(0),
        )
        for array in arrays:
            array.flags.writeable = False
        return formulas.MixedFormula(*arrays)

    def in_domain(self, targets: NDArray[Any]) -> NDArray[np.bool_]:
        """Mask of the targets that are codes."""
        return np.asarray((targets >= 0) & (targets < self.values.size) & (targets == np.floor(targets)))

    def __repr__(self) -> str:
        """How many columns of which kind."""
        names = [loss.name for loss in self.losses]
        kinds = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
        return f"Mixed({kinds})"

    def _check(self) -> None:
        if self.columns.shape != self.values.shape or self.columns.ndim != 1 or not self.columns.size:
            raise DataError("Mixed needs one column for each value, and at least one of them.")
        if self.columns.size > MOST_CODES:
            raise DataError(
                f"There are {self.columns.size:,} different values, more than the {MOST_CODES:,} that a loss per "
                "column can number; round the real columns, or learn from fewer rows and fold the others in."
            )
        if self.columns.min() < 0 or self.columns.max() >= len(self.losses):
            raise DataError(f"Mixed has {len(self.losses)} losses, got columns up to {self.columns.max()}.")
        for name in ("scales", "shifts"):
            given = getattr(self, name)
            if given.shape != (len(self.losses),) or not np.isfinite(given).all():
                raise LossError(f"`{name}` must hold one finite number for each of the {len(self.losses)} columns.")
        if not (self.scales > 0).all():
            raise LossError("`scales` must be positive.")
        for j, loss in enumerate(self.losses):
            loss.check_targets(self.values[self.columns == j])
