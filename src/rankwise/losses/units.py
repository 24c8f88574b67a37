"""Level and unit in which a fit stores targets, so that its results do not depend on those of the data."""

import math
from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array
from .._errors import DataError

FAR = 64.0  # spreads outside [1 / FAR, FAR] are taken out of the stored numbers
HIGH = 8.0  # levels above this many spreads are taken out, before they cost float32 a digit
WIDEST = 1e150  # largest spread, and the inverse of the smallest, whose square float64 can represent


class Units(NamedTuple):
    """Stored number = (target - level) / unit, and stored loss = loss / size.

    `unit` and `size` are powers of two, so that a change of unit loses no digit; `unit` is also a power of four, so
    that its square root, the unit of the factors, is one.
    """

    level: float = 0.0
    unit: float = 1.0
    size: float = 1.0

    @classmethod
    def of(cls, loss: Any, entries: Any, level: bool) -> "Units":
        """Return units for a fit of `loss` to `entries`; ordinary data have a level of 0 and a unit of 1.

        Parameters
        ----------
        loss : Loss
        entries : Observations or Entries
        level : bool
            Whether the fit has a constant, which can hold a level.
        """
        if not loss.has_units:
            return cls()
        facts = entries.target_facts()
        near = cls.near(facts.mean, facts.spread, loss, level)
        return near._replace(size=loss.unit_size(near.unit, entries))

    @classmethod
    def near(cls, mean: float, spread: float, loss: Any, level: bool) -> "Units":
        """Return units for numbers of this mean and standard deviation."""
        centre, width = abs(mean), spread or abs(mean)
        if not centre + width < WIDEST or 0 < width < 1 / WIDEST:
            raise DataError(
                f"The targets (mean {mean:g}, standard deviation {spread:g}) cannot be squared in float64; "
                "multiply or divide them by a constant."
            )
        removed = level and centre > HIGH * width
        width = width if removed else max(width, centre / FAR)
        unit = 1.0 if width == 0 or 1 / FAR <= width <= FAR else 4.0 ** round(math.log2(width) / 2)
        return cls(unit * round(mean / unit) if removed else 0.0, unit, unit**loss.degree if loss.degree else 1.0)

    def stored(self, targets: Array, dtype: Any) -> Array:
        """Return targets as the shards store them; without a copy where nothing changes."""
        if self.level == 0.0 and self.unit == 1.0:
            return targets.astype(dtype, copy=False)
        return np.asarray((targets.astype(np.float64) - self.level) / self.unit).astype(dtype)

    def original(self, stored: Array) -> Array:
        """Return numbers in the units of the targets."""
        return stored if self.level == 0.0 and self.unit == 1.0 else self.level + self.unit * stored

    def inverse(self) -> "Units":
        """Return the units that lead back."""
        return Units(-self.level / self.unit, 1.0 / self.unit, 1.0 / self.size)


UNCHANGED = Units()
