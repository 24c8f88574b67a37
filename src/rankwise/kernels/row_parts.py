"""Parts of a row's problem, each picked by its type inside the kernels.

Given the other side, row i minimizes over its factors x, and over their variances if these are estimated,

    scale * (expected loss at its entries) + shared quadratic + prior + penalty.

The last three parts are NamedTuples, or None if absent, which compiles to nothing. `QUADRATICS` and `PRIOR_RULES` hold
the functions that `solve_rows` compiles for each type of quadratic and prior; penalties are in `row_penalties`.

To add a type, in this package or another: write a NamedTuple of arrays and numbers, and the scalar functions that
`QuadraticRules` or `PriorRules` lists, in Python that Numba compiles; enter both into the matching dictionary, with the
names of the fields that have a line per row; and give an instance to `RowProblem`. A type that is listed in `BUILT_IN`
has its compiled code cached on disk; do not list types of other packages there, because Numba's cache tells types apart
by name only. `tests/kernels/test_row_problem.py` adds one of each.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import float64, types, uint64
from numba.extending import overload

from .._arrays import Array
from .jit import PART, part
from .lanes import pad_columns, padded
from .ldl import factor_positive

MapArray = Callable[[Any], Any]
Rule = Callable[..., Any]  # a scalar function that Numba compiles


NO_KEYS = np.zeros(0, np.uint32)


class Design(NamedTuple):
    """The other side as the regressors of a row: ``prediction = base[j] + factors[j] @ x``."""

    factors: Array  # (n_cols, width); a column of ones for this side's offset, then zeros up to a multiple of eight
    variances: Array  # (n_cols, width)
    base: Array  # (n_cols,)
    base_variances: Array  # (n_cols,)
    keys: Array = NO_KEYS  # (n_cols,), uint32, if some entries count as absent, see `Absent`

    def padded(self) -> "Design":
        """Factors and variances with columns of zeros up to a multiple of eight, as the kernels need them."""
        factors, variances = (pad_columns(part, part.dtype) for part in self[:2])
        return self._replace(factors=factors, variances=variances)


class SideDesign(NamedTuple):
    """Factors of the other side from which each process computes the `Design`."""

    means: Array  # (n_cols, rank), or (n_cols, rank + 1) if that side has offsets
    variances: Array
    keys: Array
    rank: int
    constant: float
    ones: bool  # whether this side has offsets
    smoothing: float

    def padded(self) -> Design:
        """Compute the regressors."""
        means, spreads, rank = np.asarray(self.means), np.asarray(self.variances), self.rank
        (size, width), dtype = means.shape, means.dtype
        factors, variances = (np.zeros((size, padded(rank + int(self.ones))), dtype) for _ in range(2))
        factors[:, :rank], variances[:, :rank] = means[:, :rank], spreads[:, :rank]
        if self.ones:
            factors[:, rank] = 1.0
        none = np.zeros(size, dtype)
        base, spread = (part[:, -1] if width > rank else none for part in (means, spreads))
        base, spread = (self.constant + base).astype(dtype), (spread + self.smoothing).astype(dtype)
        return Design(factors, variances, base, spread, self.keys)


class GaussianPrior(NamedTuple):
    """Gaussian prior on the factors of each row: mean, precision per component, and a multiplier per row."""

    means: Array  # (n_rows, d)
    precisions: Array  # (d,)
    multipliers: Array  # (n_rows,): factor of each row's precisions


class SharedFactor(NamedTuple):
    """LDL factor of ``S + diag(precisions)`` and the design's rows solved with it, for rows with few entries."""

    factor: Array  # (width, width), as `ldl.factor` leaves it
    solved: Array  # (n_cols, width)


class SharedQuadratic(NamedTuple):
    """``multipliers[i] * (x @ matrix @ x / 2 - vector @ x)``: one quadratic for all rows, a factor for each.

    The expected value adds half of ``diag(matrix) @ variance``.
    """

    matrix: Array  # (d, d), symmetric positive semidefinite, float64
    vector: Array  # (d,), float64
    multipliers: Array  # (n_rows,)
    factored: SharedFactor | None = None  # None if rows with few entries are solved like all others

    def prepared(self, design: Design, prior: Any) -> "SharedQuadratic":
        """Return the quadratic with `factored` set, once per half sweep, if rows with few entries can use it.

        They need a system that is the same for all rows up to a factor before their entries are added: a Gaussian prior
        whose multipliers are those of the shared quadratic, and no variances in the design.
        """
        usable = isinstance(prior, GaussianPrior) and np.array_equal(self.multipliers, prior.multipliers)
        if not usable or design.variances.any():
            return self
        d, width = self.vector.size, design.factors.shape[1]
        whole = np.zeros((width, width))
        whole[:d, :d] = self.matrix + np.diag(prior.precisions)
        solved = np.zeros_like(design.factors)
        solved[:, :d] = np.linalg.solve(whole[:d, :d], design.factors[:, :d].T).T
        factor_positive(whole, np.uint64(d), np.uint64(width))
        return self._replace(factored=SharedFactor(whole, solved))


class Absent(NamedTuple):
    """Entries that count as absent: those whose keys of row and column, added modulo 2**32, are below `limit`."""

    keys: Array = NO_KEYS  # (n_rows,), uint32
    limit: int = 0


class RowProblem(NamedTuple):
    """Everything of the rows' problems but their entries and the design."""

    prior: Any
    scale: float = 1.0  # factor of the expected loss
    estimate_variances: bool = False
    shared: Any = None
    penalty: Any = None  # a `SizedPenalty`; a `RowPenalty` in the kernels
    absent: Absent = Absent()

    @property
    def built_in(self) -> bool:
        """Whether all parts are of types declared in this module, so that compiled code may be cached on disk."""
        return all(part is None or type(part) in BUILT_IN for part in (self.shared, self.prior))

    def map_arrays(self, by_row: MapArray, others: MapArray) -> "RowProblem":
        """Apply `by_row` to all arrays with a line per row of the matrix, and `others` to the rest.

        Fields of parts are arrays, or what stands for one in a message, numbers, or None.
        """
        shared, prior = (_mapped(part, by_row, others) for part in (self.shared, self.prior))
        absent = Absent(by_row(self.absent.keys), self.absent.limit)
        return self._replace(shared=shared, prior=prior, absent=absent)


class QuadraticRules(NamedTuple):
    """Functions that the kernels call for a type of shared quadratic."""

    add: Rule  # (part, i, rhs, diagonal, matrix): add its gradient, Hessian diagonal, and Hessian above the diagonal
    value: Rule  # (part, i, mean, variance) -> float: expected value, zero at a certain row of zeros
    by_row: tuple[str, ...] = ("multipliers",)  # fields with a line per row


class PriorRules(NamedTuple):
    """Function that the kernels call for a type of prior: its Gaussian for row i."""

    row: Rule  # (part, i) -> mean of shape (d,), precisions of shape (d,), and a factor of these
    by_row: tuple[str, ...] = ("means", "multipliers")


def gaussian_prior_row(prior, i):
    """Mean, precisions and multiplier of row i."""
    return prior.means[i], prior.precisions, float64(prior.multipliers[i])


def shared_add(shared, i, rhs, diagonal, matrix):
    """Add ``b_i S`` and ``b_i q`` to the normal equations; the diagonal of S goes to `diagonal`."""
    S, q, b = shared.matrix, shared.vector, float64(shared.multipliers[i])
    for a in range(uint64(q.size)):
        rhs[a] += b * q[a]
        diagonal[a] += b * S[a, a]
        for c in range(a + uint64(1), uint64(q.size)):
            matrix[a, c] += b * S[a, c]


def shared_value(shared, i, mean, variance):
    """Expected value of the shared quadratic at a row."""
    S, q, total = shared.matrix, shared.vector, 0.0
    for a in range(uint64(q.size)):
        x, product = float64(mean[a]), 0.0
        for c in range(uint64(q.size)):
            product += S[a, c] * float64(mean[c])
        total += x * (0.5 * product - q[a]) + 0.5 * S[a, a] * float64(variance[a])
    return float64(shared.multipliers[i]) * total


BUILT_IN = (SharedQuadratic, GaussianPrior)
QUADRATICS: dict[type, QuadraticRules] = {SharedQuadratic: QuadraticRules(shared_add, shared_value)}
PRIOR_RULES: dict[type, PriorRules] = {GaussianPrior: PriorRules(gaussian_prior_row)}


def _rules(kind: type) -> Any:
    """Rules of a type of part."""
    return {**QUADRATICS, **PRIOR_RULES}[kind]


class SizedPenalty(NamedTuple):
    """A penalty on the first `size` components of every row."""

    penalty: Any  # a `rankwise.penalties.Penalty`
    size: int

    def compiled(self) -> Any:
        """Return the `RowPenalty` of this process."""
        return self.penalty.compiled(self.size)


def _mapped(piece: Any, by_row: MapArray, others: MapArray) -> Any:
    """A part with its arrays changed."""
    if piece is None:
        return None
    names = _rules(type(piece)).by_row

    def changed(name: str, value: Any) -> Any:
        change = by_row if name in names else others
        if isinstance(value, SharedFactor):
            return SharedFactor(*map(change, value))
        return value if value is None or isinstance(value, bool | int | float) else change(value)

    return type(piece)(*(changed(name, value) for name, value in zip(piece._fields, piece, strict=True)))


# Dispatch by type: each function below is plain Python, and has a twin that compiled code gets instead.

_compiled = cache(part)


def gaussian_row(prior, i, zeros):
    """Mean and precisions of row i's prior, and a factor of the precisions; `zeros` without a prior."""
    return (zeros, zeros, 0.0) if prior is None else PRIOR_RULES[type(prior)].row(prior, i)


@overload(gaussian_row, jit_options=PART)
def _gaussian_row(prior, i, zeros):
    if isinstance(prior, types.NoneType):
        return lambda prior, i, zeros: (zeros, zeros, 0.0)
    rule = _compiled(PRIOR_RULES[prior.instance_class].row)
    return lambda prior, i, zeros: rule(prior, i)


def quadratic_add(shared, i, rhs, diagonal, matrix):
    """Add the shared quadratic of row i to the normal equations."""
    QUADRATICS[type(shared)].add(shared, i, rhs, diagonal, matrix)


@overload(quadratic_add, jit_options=PART)
def _quadratic_add(shared, i, rhs, diagonal, matrix):
    rule = _compiled(QUADRATICS[shared.instance_class].add)
    return lambda shared, i, rhs, diagonal, matrix: rule(shared, i, rhs, diagonal, matrix)


def quadratic_value(shared, i, mean, variance):
    """Expected value of row i's shared quadratic."""
    return QUADRATICS[type(shared)].value(shared, i, mean, variance)


@overload(quadratic_value, jit_options=PART)
def _quadratic_value(shared, i, mean, variance):
    rule = _compiled(QUADRATICS[shared.instance_class].value)
    return lambda shared, i, mean, variance: rule(shared, i, mean, variance)


def factored_of(shared):
    """Return the factorization that `SharedQuadratic.prepared` stored for rows with few entries, or None."""
    return shared.factored if isinstance(shared, SharedQuadratic) else None


@overload(factored_of, jit_options=PART)
def _factored_of(shared):
    if isinstance(shared, types.NoneType) or shared.instance_class is not SharedQuadratic:
        return lambda shared: None
    return lambda shared: shared.factored
