"""Multitask regression: an objective that is not a sum over entries."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator

from .._arrays import Array
from .._checks import all_finite
from .._digests import checksum
from .._errors import DataError
from ..model import Factors, as_terms
from .snapshot import MultitaskSnapshot


class MultitaskRegression:
    """``f(W) = 1/2 sum_t ||A_t w_t - y_t||**2``, column t of W being task t's coefficients.

    A low-rank W lets tasks share features (Argyriou et al., 2006).

    Parameters
    ----------
    designs : sequence of array-like, shapes (n_t, n_features)
        One design matrix per task.
    responses : sequence of array-like, shapes (n_t,)

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> rng = np.random.default_rng(0)
    >>> weights = np.outer(rng.normal(size=5), rng.normal(size=3))  # three tasks that share one direction
    >>> designs = [rng.normal(size=(20, 5)) for _ in range(3)]
    >>> objective = rw.MultitaskRegression(designs, [A @ w for A, w in zip(designs, weights.T)])
    >>> model = rw.solve(objective, "r1mp", rank=3).model
    >>> print(bool(np.abs(model.to_dense() - weights).max() < 0.1))
    True
    """

    smooth, quadratic, piecewise_linear = True, True, False
    snapshot_types: ClassVar[tuple[type, ...]] = (MultitaskSnapshot,)

    def __init__(self, designs: Sequence[ArrayLike], responses: Sequence[ArrayLike]) -> None:
        try:
            self.designs = [np.asarray(design, float) for design in designs]
            vectors = [np.asarray(response, float) for response in responses]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"Designs and responses must be arrays of real numbers: {error}.") from None
        _check(self.designs, vectors)
        self.responses = np.concatenate(vectors)
        self._ends = np.cumsum([vector.size for vector in vectors])[:-1]
        self.shape = (self.designs[0].shape[1], len(self.designs))
        self.point = Factors(self.shape)
        spectra = [np.linalg.svd(design, compute_uv=False) for design in self.designs]
        self.lipschitz = max(float(values.max()) ** 2 for values in spectra)
        tall = all(design.shape[0] >= self.shape[0] for design in self.designs)
        self.strong_convexity = min(float(values.min()) ** 2 for values in spectra) if tall else 0.0
        self.reset()

    def reset(self) -> None:
        """Set W = 0."""
        self.point.clear()
        self._images = np.zeros((self.responses.size, 0))

    def value(self) -> float:
        """Return half the sum of squared residuals."""
        residual = self._residual()
        return 0.5 * float(residual @ residual)

    def gradient(self) -> "DenseGradient":
        """Return the gradient, whose column t is ``A_t.T (A_t w_t - y_t)``."""
        pieces = np.split(self._residual(), self._ends)
        return DenseGradient(np.column_stack([A.T @ r for A, r in zip(self.designs, pieces, strict=True)]), self.point)

    def along(self, u: Array, v: Array, theta: Array | None = None) -> "LeastSquares":
        """Return ``(shrink, weight) -> f(shrink W + weight u diag(theta) v.T)``."""
        scales, left, right = as_terms(u, v, theta)
        both = self._images @ self.point.theta, self._image(left, right) @ scales
        return LeastSquares(np.column_stack(both), self.responses)

    def along_terms(self) -> "LeastSquares":
        """Return ``theta -> f(sum_k theta[k] u_k v_k.T)``."""
        return LeastSquares(self._images, self.responses)

    def add(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """Set ``W = shrink W + weight u diag(theta) v.T``; u and v are vectors or matrices."""
        self.point.append(shrink, weight, u, v, theta)
        self._images = np.column_stack((self._images, self._image(*as_terms(u, v)[1:])))

    def replace(self, theta: Array) -> None:
        """Set the coefficients of the terms of W."""
        self.point.replace(theta)

    def fingerprint(self) -> dict[str, object]:
        """Return values and checksums that identify the regression."""
        return {"shape": list(self.shape), "tasks": checksum(*self.designs, self.responses).hex()}

    def snapshot(self) -> MultitaskSnapshot:
        """Return the current point, for a checkpoint."""
        return MultitaskSnapshot(self.point.theta, self.point.U, self.point.V, self._images)

    def restore(self, snapshot: MultitaskSnapshot) -> None:
        """Move to the point of a snapshot."""
        rank = snapshot.theta.size
        parts = (snapshot.theta, (rank,)), (snapshot.U, (self.shape[0], rank)), (snapshot.V, (self.shape[1], rank))
        sizes = (*parts, (snapshot.images, (self.responses.size, rank)))
        if not all(part.shape == size and all_finite(part) for part, size in sizes):
            raise DataError("The snapshot is of another regression.")
        self.point.clear()
        self.point.append(1.0, 1.0, snapshot.U, snapshot.V, snapshot.theta)
        self._images = snapshot.images

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def _image(self, left: Array, right: Array) -> Array:
        return np.concatenate([(A @ left) * right[t] for t, A in enumerate(self.designs)])

    def _residual(self) -> Array:
        return np.asarray(self._images @ self.point.theta - self.responses)


class LeastSquares:
    """``c -> 1/2 ||images c - responses||**2``."""

    def __init__(self, images: Array, responses: Array) -> None:
        self.images, self.responses = images, responses

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient at c."""
        residual = self.images @ c - self.responses
        return 0.5 * float(residual @ residual), self.images.T @ residual

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Return the Hessian times `direction`."""
        return np.asarray(self.images.T @ (self.images @ direction))

    def hessian(self) -> NDArray[np.float64]:
        """Return the Hessian, the inner products of the images."""
        return np.asarray(self.images.T @ self.images)

    def best_weight(self, tilt: float = 0.0, curvature: float = 0.0) -> float:
        """Minimize over the second coefficient at or above zero, the first being one."""
        _, gradient = self(np.array([1.0, 0.0]))
        return max(0.0, float(-(gradient[1] + tilt) / (self.hessian()[1, 1] + curvature)))


class DenseGradient(LinearOperator):
    """A gradient stored as a dense matrix."""

    def __init__(self, matrix: Array, point: Factors) -> None:
        super().__init__(matrix.dtype, matrix.shape)
        self.matrix, self.norm = matrix, float(np.linalg.norm(matrix))
        self.inner = float(np.sum(matrix * ((point.U * point.theta) @ point.V.T)))

    def _matvec(self, v: Array) -> Array:
        return np.asarray(self.matrix @ v)

    def _rmatvec(self, u: Array) -> Array:
        return np.asarray(self.matrix.T @ u)


def _check(designs: list[Array], answers: list[Array]) -> None:
    if not designs or len(designs) != len(answers):
        raise DataError(f"One response per design is needed, got {len(designs)} designs and {len(answers)} responses.")
    n_features = designs[0].shape[-1] if designs[0].ndim else 0
    for t, (design, answer) in enumerate(zip(designs, answers, strict=True)):
        fits = design.ndim == 2 and design.size > 0 and design.shape == (*answer.shape, n_features)
        if not fits:
            raise DataError(
                f"Task {t} has a design of shape {design.shape} and a response of shape {answer.shape}; needed are "
                f"(n, {n_features or 'features'}) and (n,), with at least one of each."
            )
        if not (np.isfinite(design).all() and np.isfinite(answer).all()):
            raise DataError(f"Task {t} has values that are not finite; remove or correct them.")
