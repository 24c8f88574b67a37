"""Oracles for the leading singular triplet: the paper's rank1SVD."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import is_number, is_whole, one_of
from .._errors import SettingError
from .blocks import orthonormal
from .operators import Operator, as_operator


class Triplet(NamedTuple):
    """Unit vectors ``u`` and ``v`` with ``sigma = u.T A v >= 0``, and the number of products with A that were used.

    For a zero matrix, sigma is zero and u is a zero vector.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> triplet = rw.spectral.DenseSVD()(np.diag([3.0, 1.0]), rng=np.random.default_rng(0))
    >>> print(abs(triplet.u).round(2), round(triplet.sigma, 2))
    [1. 0.] 3.0
    """

    u: NDArray[np.float64]
    sigma: float
    v: NDArray[np.float64]
    n_products: int


class Oracle(Protocol):
    """A callable that computes the leading singular triplet of an operator.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> oracle: rw.spectral.Oracle = rw.spectral.DenseSVD()
    >>> print(round(oracle(np.eye(2), rng=np.random.default_rng(0)).sigma, 4))
    1.0
    """

    def __call__(self, operator: Any, *, rng: Generator) -> Triplet:
        """Return the triplet; `rng` draws the start vector."""


@dataclass(frozen=True)
class PowerMethod:
    """Power iterations on ``A.T A`` from a random start.

    Costs ``2 * n_iter + 1`` products, two per pass over the observations. Sigma approaches the largest singular value
    from below.

    Parameters
    ----------
    n_iter : int, default=30
        The paper fixes 30 (Section 5.1).

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> u, sigma, v, n_products = rw.spectral.PowerMethod()(np.diag([3.0, 1.0, 0.5]), rng=np.random.default_rng(0))
    >>> print(round(sigma, 4))
    3.0
    """

    n_iter: int = 30

    def __post_init__(self) -> None:
        if not is_whole(self.n_iter) or self.n_iter < 1:
            raise SettingError(f"`n_iter` must be a positive integer, got {self.n_iter!r}.")

    def __call__(self, operator: Any, *, rng: Generator) -> Triplet:
        """Return the leading singular triplet of `operator`."""
        operator = as_operator(operator)
        v = _random_unit(operator.shape[1], rng)
        n_products = 0
        for _ in range(self.n_iter):
            w = operator.twice(v)
            n_products += 2
            norm = _norm(w)
            if norm == 0.0:  # the operator maps v to zero
                break
            v = w / norm
        return _finish(operator, v, n_products)


@dataclass(frozen=True)
class Lanczos:
    """Lanczos' method on ``A.T A`` with full reorthogonalization, restarted from its best vectors.

    Each pass over the observations multiplies a vector, or a block of them, by A and by A.T. Stops when the residual
    ``||A.T A v - sigma**2 v||`` is below ``tol * sigma**2``; sigma is then off by about the square of that.

    Parameters
    ----------
    tol : float, default=1e-6
        0.01 is as accurate as 30 power iterations, in a quarter of the passes in early steps and less than half later.
    block : int, default=1
        Vectors per pass. Larger blocks need fewer passes and more orthogonalization: for data on disk or on a cluster.
    max_blocks : int, default=20
        Blocks stored before a restart.
    max_restarts : int, default=25

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> triplet = rw.spectral.Lanczos(tol=0.01)(np.diag([3.0, 1.0, 0.5]), rng=np.random.default_rng(0))
    >>> print(round(triplet.sigma, 4))
    3.0
    """

    tol: float = 1e-6
    block: int = 1
    max_blocks: int = 20
    max_restarts: int = 25

    def __post_init__(self) -> None:
        counts = (self.block, 1), (self.max_blocks, 2), (self.max_restarts, 0)
        sound = is_number(self.tol) and self.tol > 0
        if not sound or not all(is_whole(count) and count >= least for count, least in counts):
            raise SettingError(
                f"Lanczos requires tol > 0, block >= 1, max_blocks >= 2 and max_restarts >= 0, got {self}."
            )

    def __call__(self, operator: Any, *, rng: Generator) -> Triplet:
        """Return the leading singular triplet of `operator`."""
        operator = as_operator(operator)
        block = orthonormal(rng.standard_normal((operator.shape[1], min(self.block, *operator.shape)))).T
        n_products = 0
        for _ in range(self.max_restarts + 1):
            u, block, converged, used = self._krylov(operator, block)
            n_products += used
            if converged:
                break
        sigma = _norm(u)
        return Triplet(u / sigma if sigma > 0.0 else u, sigma, block[0], n_products)

    def _krylov(self, operator: Operator, block: Array) -> tuple[Array, Array, bool, int]:
        """Build a Krylov space from a block; blocks and bases have one vector per row.

        Returns the image of the best right vector, the best block, whether it converged, and the number of products.
        """
        n_vectors, converged, scale = block.shape[0], False, 0.0
        V, Z = (np.zeros((self.max_blocks * n_vectors, size)) for size in operator.shape[::-1])
        inner, n = np.zeros((V.shape[0], V.shape[0])), 0
        for _ in range(self.max_blocks):
            z, w = (part.reshape(block.shape[0], -1) for part in _gram_rows(operator, block))
            scale = scale or float(np.abs(z).max()) or 1.0  # so that squares neither overflow nor underflow
            before, n = n, n + block.shape[0]
            V[before:n], Z[before:n], w = block, z / scale, w / scale / scale
            inner[:n, before:n] = Z[:n] @ Z[before:n].T
            values, vectors = np.linalg.eigh(inner[:n, :n], UPLO="U")
            w = _outside(_outside(w, V[:n]), V[:n])
            converged = not _norm(vectors[before:, -1] @ w) > self.tol * values[-1]
            block = _independent(w, values[-1])
            if converged or block.shape[0] == 0:  # without a new direction, the space is invariant
                converged = True
                break
            block = orthonormal(_outside(block, V[:n]).T).T
        return scale * (vectors[:, -1] @ Z[:n]), vectors[:, : -n_vectors - 1 : -1].T @ V[:n], converged, 2 * n


@dataclass(frozen=True)
class DenseSVD:
    """LAPACK's SVD of the dense matrix: exact, for small matrices and tests.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> triplet = rw.spectral.DenseSVD()(np.diag([3.0, 1.0, 0.5]), rng=np.random.default_rng(0))
    >>> print(round(triplet.sigma, 4))
    3.0
    """

    def __call__(self, operator: Any, *, rng: Generator) -> Triplet:
        """Return the leading singular triplet of `operator`; `rng` is not used."""
        operator = as_operator(operator)
        left, values, right = np.linalg.svd(operator.matmat(np.eye(operator.shape[1])), full_matrices=False)
        if values[0] == 0.0:
            return Triplet(np.zeros(operator.shape[0]), 0.0, right[0], operator.shape[1])
        return Triplet(left[:, 0], float(values[0]), right[0], operator.shape[1])


ORACLES: dict[str, type[PowerMethod | Lanczos | DenseSVD]] = {
    "power": PowerMethod,
    "lanczos": Lanczos,
    "dense": DenseSVD,
}


def get(oracle: str | Oracle) -> Oracle:
    """Return an oracle itself, or the one of that name with its default settings.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.spectral.get("power")
    PowerMethod(n_iter=30)
    """
    if isinstance(oracle, str):
        if oracle not in ORACLES:
            raise SettingError(f"`oracle` must be {one_of(ORACLES)}, or a callable, got {oracle!r}.")
        return ORACLES[oracle]()
    if not callable(oracle):
        raise SettingError(f"`oracle` must be a name or a callable, got {type(oracle).__name__}.")
    return oracle


def _norm(vector: Array) -> float:
    """Return the Euclidean norm, scaled if squares would overflow or underflow."""
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(vector))
    if 1e-140 < norm < 1e140:
        return norm
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(np.linalg.norm(vector / largest)) if largest > 0.0 else 0.0


def _random_unit(size: int, rng: Generator) -> NDArray[np.float64]:
    v = rng.standard_normal(size)
    return v / np.linalg.norm(v)


def _finish(operator: Operator, v: NDArray[np.float64], n_products: int) -> Triplet:
    """Return the triplet of v and its image, so that sigma equals u.T A v."""
    u = operator.matvec(v)
    sigma = _norm(u)
    return Triplet(u / sigma if sigma > 0.0 else u, sigma, v, n_products + 1)


def _gram_rows(operator: Operator, block: Array) -> tuple[Array, Array]:
    """Return ``A v`` and ``A.T A v`` for the rows v of a block, as rows."""
    if block.shape[0] == 1:
        return operator.gram(block[0])
    z, w = operator.gram(block.T)
    return z.T, w.T


def _outside(w: Array, V: Array) -> Array:
    """Return the rows of w minus their projections on the orthonormal rows of V."""
    return np.asarray(w - (w @ V.T) @ V)


def _independent(w: Array, scale: float) -> Array:
    """Return unit rows with the span of those of w, without directions that are rounding errors relative to `scale`."""
    squares, vectors = np.linalg.eigh(w @ w.T)
    large = squares > max((1e-12 * scale) ** 2, 1e-13 * squares[-1])
    return np.asarray((vectors[:, large] / np.sqrt(squares[large])).T @ w)
