"""A square loss at every cell of the matrix, observed or not: its parameters, and its sums over low-rank matrices."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import is_number
from .._errors import SettingError
from ..losses.units import Units
from ..spectral.tall import Each, blocks_of, by_turns

LARGEST_POWER = 4.0  # of a count, so that no weight overflows


@dataclass(frozen=True)
class Everywhere:
    """``weight / 2 * sum over all cells (i, j) of n_i**row_power * n_j**col_power * (x_ij - value)**2``.

    n_i and n_j are the numbers of entries of row i and of column j, at least 1; with weights, the sums of their
    weights. The term counts at observed cells too, beside their loss. With both powers zero, value 0, the square loss
    and method="factors" the fit is that of Hu, Koren and Volinsky, 2008 (iALS).

    Parameters
    ----------
    weight : float
        Weight of a cell, in units of an observed entry; 0 for none.
    row_power, col_power : float, default=0
        Negative powers reduce the weight of the cells of rows or columns with many entries.
    value : float, default=0
        Prediction that absence stands for, on the link scale.
    slope : float, default=0
        Adds ``slope * sum over all cells of the powers of the counts times (x_ij - value)``: what a zero costs under
        the Kullback-Leibler loss.

    Examples
    --------
    >>> import rankwise as rw
    >>> clicks = rw.Observations.from_coo([0, 0, 1], [0, 1, 1], [1.0, 1.0, 1.0], (2, 3))
    >>> problem = rw.Problem(clicks, "square", everywhere=rw.Everywhere(0.1, value=0.5))
    >>> round(problem.value(), 6)  # at X = 0: 3 / 2 + 0.1 / 2 * 6 * 0.5**2
    1.575
    """

    weight: float
    row_power: float = 0.0
    col_power: float = 0.0
    value: float = 0.0
    slope: float = 0.0

    def __post_init__(self) -> None:
        if not (is_number(self.weight) and 0 <= self.weight < np.inf):
            raise SettingError(f"`weight` of Everywhere must be a number of at least zero, got {self.weight!r}.")
        for name in ("row_power", "col_power"):
            power = getattr(self, name)
            if not (is_number(power) and abs(power) <= LARGEST_POWER):
                raise SettingError(f"`{name}` must be a number from -4 to 4, got {power!r}.")
        if not (is_number(self.value) and np.isfinite(self.value)):
            raise SettingError(f"`value` of Everywhere must be a finite number, got {self.value!r}.")
        if not (is_number(self.slope) and np.isfinite(self.slope)):
            raise SettingError(f"`slope` of Everywhere must be a finite number, got {self.slope!r}.")

    def in_units(self, units: Units) -> "Everywhere":
        """Return the term of stored numbers, in units of their loss."""
        weight, value = self.weight * units.unit**2 / units.size, (self.value - units.level) / units.unit
        return replace(self, weight=weight, value=value, slope=self.slope * units.unit / units.size)


@dataclass(frozen=True, eq=False)
class Cells:
    """``weight / 2 * sum over (i, j) of rows[i] * cols[j] * (x_ij - value)**2``, for one matrix.

    A prediction is ``x_ij - value = g_i @ h_j`` with ``g_i = (u_i, a_i, 1)`` and ``h_j = (v_j, 1, b_j + constant -
    value)``, for factors u and v and offsets a and b. The expected term is therefore half the inner product of the
    weighted second moments of all g and of all h, and in the problem of one row a quadratic that all rows share.

    Attributes
    ----------
    everywhere : Everywhere
    rows, cols : ndarray of float64, shape (n_rows,) and (n_cols,)
        Powers of the counts.
    """

    everywhere: Everywhere
    rows: NDArray[np.float64]
    cols: NDArray[np.float64]

    @classmethod
    def of(cls, everywhere: Everywhere, row_counts: Array, col_counts: Array) -> "Cells":
        """Return the term of a matrix with these numbers of entries per row and column."""
        rows, cols = _power(row_counts, everywhere.row_power), _power(col_counts, everywhere.col_power)
        return cls(everywhere, rows, cols)

    @property
    def weight(self) -> float:
        """Weight of a cell whose row and column have a count of one."""
        return self.everywhere.weight

    @property
    def value(self) -> float:
        """Prediction that absence stands for."""
        return self.everywhere.value

    @property
    def total(self) -> float:
        """Sum of the weights of all cells."""
        return float(self.weight * self.rows.sum() * self.cols.sum())

    @property
    def row_totals(self) -> NDArray[np.float64]:
        """Sum of the weights of the cells of each row."""
        return np.asarray(self.weight * self.cols.sum() * self.rows)

    def transposed(self) -> "Cells":
        """Return the term of the transpose."""
        given = self.everywhere
        flipped = replace(given, row_power=given.col_power, col_power=given.row_power)
        return Cells(flipped, self.cols, self.rows)

    def in_units(self, units: Units) -> "Cells":
        """Return the term of stored numbers."""
        return replace(self, everywhere=self.everywhere.in_units(units))

    def for_new_rows(self, counts: Array) -> "Cells":
        """Return the term of new rows with these numbers of entries, and the same columns."""
        return replace(self, rows=_power(counts, self.everywhere.row_power))

    def row_moments(self, factors: Array, variances: Array, offsets: Array, each: Each = by_turns) -> Array:
        """Return the weighted sum of ``E g_i g_i.T``; `variances` are those of factors and offset, or of factors."""
        return _moments(self.rows, factors, variances, (offsets, 1.0), each)

    def col_moments(
        self, means: Array, variances: Array, offset: bool, constant: float, each: Each = by_turns
    ) -> Array:
        """Return the weighted sum of ``E h_j h_j.T``; the last column is the offset's if there is an `offset`."""
        rank = means.shape[1] - int(offset)
        base = means[:, rank:].sum(axis=1, dtype=np.float64) + (constant - self.value)
        moments = _moments(self.cols, means[:, :rank], variances[:, :rank], (1.0, base), each)
        moments[-1, -1] += float(np.sum(self.cols @ variances[:, rank:]))
        return moments

    def row_quadratic(self, col_moments: Any, width: int, scale: float) -> tuple[Array, Array]:
        """Return S and q of the term in the problem of a row of unit weight, ``x @ S @ x / 2 - q @ x`` for x = (u, a).

        `width` is the size of x, without a if rows have no offset; `scale` is a factor of the term.
        """
        own, moments = slice(width), scale * self.weight * col_moments
        vector = moments[own, -1] + scale * self.everywhere.slope * col_moments[own, -2]
        return np.ascontiguousarray(moments[own, own]), np.ascontiguousarray(-vector)

    def expected(self, row_moments: Array, col_moments: Any) -> float:
        """Return the expected term."""
        linear = self.everywhere.slope * float(row_moments[:, -1] @ col_moments[:, -2])
        return float(0.5 * self.weight * np.sum(row_moments * col_moments)) + linear

    def is_sound(self, shape: tuple[int, int]) -> bool:
        """Return whether there is one positive number per row and column."""
        sides = zip((self.rows, self.cols), shape, strict=True)
        return all(
            part.shape == (n,) and part.dtype == np.float64 and bool(np.isfinite(part).all() and (part > 0).all())
            for part, n in sides
        )

    def to_arrays(self) -> dict[str, Array]:
        """Return plain arrays, for a model's file."""
        given = self.everywhere
        numbers = np.array([given.weight, given.row_power, given.col_power, given.value, given.slope])
        return {"numbers": numbers, "rows": self.rows, "cols": self.cols}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> "Cells":
        """Inverse of `to_arrays`."""
        return cls(Everywhere(*map(float, arrays["numbers"])), arrays["rows"], arrays["cols"])


def _power(counts: Array, power: float) -> NDArray[np.float64]:
    return np.asarray(np.maximum(np.asarray(counts, np.float64), 1.0) ** power)


def _moments(weights: Array, factors: Array, variances: Array, columns: tuple[Any, Any], each: Each) -> Array:
    """Sum of ``weights[i] * E y_i y_i.T``, y_i a row of factors with two more numbers; in float64, by blocks of rows.

    `variances` are those of the first numbers of y_i.
    """
    k, n_variances = factors.shape[1], variances.shape[1]
    wide = [np.broadcast_to(np.asarray(column, np.float64), weights.shape) for column in columns]

    def of_block(rows: slice) -> Array:
        y = np.empty((weights[rows].size, k + 2))
        y[:, :k], y[:, k], y[:, k + 1] = factors[rows], wide[0][rows], wide[1][rows]
        y *= np.sqrt(weights[rows])[:, None]
        moments = y.T @ y
        moments[range(n_variances), range(n_variances)] += weights[rows] @ variances[rows]
        return np.asarray(moments)

    return np.asarray(reduce(np.add, each(of_block, blocks_of(factors))))
