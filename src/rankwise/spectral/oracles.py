"""The paper's rank1SVD: ways to find the leading singular triplet."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .._errors import SettingError
from .operators import as_operator, gram


class Triplet(NamedTuple):
    """``u`` and ``v`` of unit length with ``sigma = u.T A v >= 0``, and how many products with A it took.

    For a zero matrix sigma is zero and u is a zero vector.
    """

    u: NDArray[np.float64]
    sigma: float
    v: NDArray[np.float64]
    n_products: int


class Oracle(Protocol):
    """Anything that finds the leading singular triplet of an operator."""

    def __call__(self, operator: Any, *, rng: Generator) -> Triplet:
        """Return the triplet; `rng` draws the start vector."""
        ...


@dataclass(frozen=True)
class PowerMethod:
    """Power iterations on ``A.T A`` from a random start.

    Costs ``2 * n_iter + 1`` products, two by two in one pass over the observations. Sigma approaches the largest
    singular value from below.

    Parameters
    ----------
    n_iter : int, default=30
        The paper fixes 30 (Section 5.1).
    """

    n_iter: int = 30

    def __post_init__(self) -> None:
        """Refuse to iterate less than once."""
        if not isinstance(self.n_iter, int | np.integer) or self.n_iter < 1:
            raise SettingError(f"PowerMethod needs n_iter >= 1, got {self.n_iter}.")

    def __call__(self, operator: Any, *, rng: Generator) -> Triplet:
        """Leading singular triplet of `operator`."""
        operator = as_operator(operator)
        v = _random_unit(operator.shape[1], rng)
        n_products = 0
        for _ in range(self.n_iter):
            _, w = gram(operator, v)
            n_products += 2
            norm = _norm(w)
            if norm == 0.0:  # the operator maps v to zero
                break
            v = w / norm
        return _finish(operator, v, n_products)


@dataclass(frozen=True)
class Lanczos:
    """Golub-Kahan bidiagonalisation with full reorthogonalisation, restarted from its best vector.

    Stops when the residual ``||A.T u - sigma v||`` is below ``tol * sigma``. Two products per iteration.

    Parameters
    ----------
    tol : float, default=1e-6
    max_basis : int, default=40
        Vectors kept before a restart.
    max_restarts : int, default=25
    """

    tol: float = 1e-6
    max_basis: int = 40
    max_restarts: int = 25

    def __post_init__(self) -> None:
        """Refuse settings that cannot find anything."""
        whole = isinstance(self.max_basis, int | np.integer) and isinstance(self.max_restarts, int | np.integer)
        if not whole or not self.tol > 0 or self.max_basis < 2 or self.max_restarts < 0:
            raise SettingError(f"Lanczos needs tol > 0, max_basis >= 2 and max_restarts >= 0, got {self}.")

    def __call__(self, operator: Any, *, rng: Generator) -> Triplet:
        """Leading singular triplet of `operator`."""
        operator = as_operator(operator)
        v, n_products = _random_unit(operator.shape[1], rng), 0
        for _ in range(self.max_restarts + 1):
            v, converged, used = self._bidiagonalise(operator, v)
            n_products += used
            if converged:
                break
        return _finish(operator, v, n_products)

    def _bidiagonalise(self, operator: Any, v: NDArray[Any]) -> tuple[NDArray[Any], bool, int]:
        """Best right vector in the Krylov space of v, whether its residual is small, products used."""
        size = min(self.max_basis, operator.shape[1])
        V, U = np.zeros((size + 1, operator.shape[1])), np.zeros((size, operator.shape[0]))
        B = np.zeros((size, size + 1))
        V[0] = v
        for k in range(size):
            u = _orthogonalise(operator.matvec(V[k]), U[:k])
            B[k, k] = _norm(u)
            if B[k, k] <= _tiny(B):  # the space is invariant: what is known so far is exact
                return (np.linalg.svd(B[:k, : k + 1])[2][0] @ V[: k + 1] if k else v), True, 2 * k + 1
            U[k] = u / B[k, k]
            w = _orthogonalise(operator.rmatvec(U[k]), V[: k + 1])
            B[k, k + 1] = _norm(w)
            left, values, right = np.linalg.svd(B[: k + 1, : k + 1])
            best = right[0] @ V[: k + 1]
            if B[k, k + 1] * abs(left[k, 0]) <= self.tol * values[0] or B[k, k + 1] <= _tiny(B):
                return best, True, 2 * k + 2
            V[k + 1] = w / B[k, k + 1]
        return best, False, 2 * size


@dataclass(frozen=True)
class DenseSVD:
    """LAPACK's SVD of the formed matrix: exact, for small matrices and for checking the others."""

    def __call__(self, operator: Any, *, rng: Generator) -> Triplet:
        """Leading singular triplet of `operator`; `rng` is not used."""
        operator = as_operator(operator)
        left, values, right = np.linalg.svd(operator.matmat(np.eye(operator.shape[1])), full_matrices=False)
        if values[0] == 0.0:
            return Triplet(np.zeros(operator.shape[0]), 0.0, right[0], operator.shape[1])
        return Triplet(left[:, 0], float(values[0]), right[0], operator.shape[1])


BY_NAME: dict[str, type[Any]] = {"power": PowerMethod, "lanczos": Lanczos, "dense": DenseSVD}


def get(oracle: Any) -> Oracle:
    """Return an oracle itself, or the one of that name with its default settings."""
    if isinstance(oracle, str):
        if oracle not in BY_NAME:
            raise SettingError(f"Unknown oracle {oracle!r}: use one of {', '.join(BY_NAME)}, or an object.")
        made: Oracle = BY_NAME[oracle]()
        return made
    if not callable(oracle):
        raise SettingError(f"An oracle must be a name or callable, got {type(oracle).__name__}.")
    called: Oracle = oracle
    return called


def _norm(vector: NDArray[Any]) -> float:
    """Euclidean norm, scaled where its squares would overflow or underflow."""
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(vector))
    if 1e-140 < norm < 1e140:
        return norm
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(np.linalg.norm(vector / largest)) if largest > 0.0 else 0.0


def _random_unit(size: int, rng: Generator) -> NDArray[np.float64]:
    v = rng.standard_normal(size)
    return v / np.linalg.norm(v)


def _finish(operator: Any, v: NDArray[np.float64], n_products: int) -> Triplet:
    """Pair v with its image, so that sigma equals u.T A v."""
    u = operator.matvec(v)
    sigma = _norm(u)
    return Triplet(u / sigma if sigma > 0.0 else u, sigma, v, n_products + 1)


def _orthogonalise(w: NDArray[Any], basis: NDArray[Any]) -> NDArray[Any]:
    """Remove the components of w along the rows of `basis`; twice is enough."""
    for _ in range(2):
        w = w - basis.T @ (basis @ w)
    return w


def _tiny(B: NDArray[Any]) -> float:
    return 1e-14 * float(np.abs(B).max())
