"""The entrywise objective: a loss summed over the observed entries, on shards."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from .. import losses
from .._digests import checksum
from .._errors import DataError, SettingError
from ..engines import Engine, best_weight, engine_over
from ..kernels.lanes import pad_columns
from ..losses import Loss
from ..model import Factors, Offsets
from ..observations import Observations
from .journal import Journal, Verb
from .sides import Side
from .snapshot import Snapshot

Array = NDArray[Any]


class Problem:
    """``f(X) = sum over observed (i, j) of weight_ij * loss(X_ij + offset_ij, target_ij)``.

    Parameters
    ----------
    observations : Observations
    loss : str or Loss
        A name such as "logistic", or an object of `rankwise.losses`.
    dtype : {float32, float64}, default=float32
        How predictions and factors are stored; sums and loss formulas always run in float64.
    n_jobs : int, optional
        Threads; None means all usable cores. Results do not depend on it.
    offsets : Offsets, optional
        Added to X at every entry; solvers that find offsets of their own refuse them.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.Observations.from_coo([0, 0, 1], [0, 1, 1], [1.0, -1.0, 1.0])
    >>> problem = rw.Problem(seen, "logistic")
    >>> print(problem.shape, problem.lipschitz, round(problem.value(), 4))  # at X = 0: 3 log 2
    (2, 2) 0.25 2.0794
    """

    def __init__(
        self,
        observations: Observations,
        loss: str | Loss,
        *,
        dtype: Any = np.float32,
        n_jobs: int | None = None,
        offsets: Offsets | None = None,
    ) -> None:
        observations = Observations.from_any(observations).weighted()
        self.observations, self.loss, self.dtype = observations, losses.get(loss), _as_dtype(dtype)
        self.engine = engine_over(observations, self.loss, self.dtype, n_jobs)
        self.engine.recover = self.verbs_to_here
        self.journal = Journal()
        self.shape, self.point = observations.shape, Factors(observations.shape, self.dtype)
        self.smooth, self.quadratic = self.loss.smooth, self.loss.quadratic
        self.piecewise_linear = self.loss.piecewise_linear
        self.lipschitz = None if self.loss.lipschitz is None else self.loss.lipschitz * observations.heaviest
        self.strong_convexity = 0.0
        self.given_offsets = self.offsets = offsets
        self._across: Engine | None = None
        self._n_jobs = n_jobs  # an engine has no more threads than shards, and the transpose may have more shards
        self._behind = False  # whether the shards have yet to follow to the point and its offsets
        self.version = 0
        self._aimed: tuple[Array, Array, Array | None] | None = None
        self._summary: Array | None = None
        self._gram = np.zeros((0, 0))
        if offsets is not None:
            if (offsets.rows.size, offsets.cols.size) != self.shape:
                raise DataError(f"The offsets are for {offsets.rows.size} x {offsets.cols.size}, not for {self.shape}.")
            self.engine.run("shift", offsets)

    @property
    def passes(self) -> int:
        """Passes made over the observations so far."""
        return self.engine.rounds + (0 if self._across is None else self._across.rounds)

    @property
    def across(self) -> Engine:
        """The same observations as rows of the transpose, made when first asked for."""
        if self._across is None:
            self._across = engine_over(self.observations.transposed(), self.loss, self.dtype, self._n_jobs)
        return self._across

    def side(self, axis: str, offset: bool = True) -> Side:
        """Rows (``axis="rows"``) or columns (``"columns"``) as a side without factors, with offsets of zero or none."""
        number = ("rows", "columns").index(axis)
        return Side.empty((self.engine, self.across)[number], self.shape[number], offset, self.dtype)

    def place(self, offsets: Offsets | None, U: Array, V: Array) -> None:
        """``X = U V.T`` plus offsets; costs nothing until the observed entries are asked for."""
        self._gram = np.zeros((0, 0))
        self.offsets = offsets
        self.point.clear()
        self.point.append(1.0, 1.0, U, V, np.ones(U.shape[1]))
        self._behind, self._aimed = True, None  # a shard that is made meanwhile knows of no direction
        self._moved()

    def _follow(self) -> None:
        """Let the shards follow to where `place` has put X."""
        if self._behind:
            self._behind = False
            self.journal.restart(self.version, self.point.theta)
            self.engine.run("shift", self.offsets)
            self.engine.run("replace", self.version, *self.point.padded)

    def reset(self) -> None:
        """Move to X = 0, and to the offsets that were given."""
        if self._behind or self.offsets is not self.given_offsets:
            self._behind, self.offsets = False, self.given_offsets
            self.engine.run("shift", self.offsets)
        self.point.clear()
        self._gram = np.zeros((0, 0))
        self._moved()
        self.journal.restart(self.version)
        self.engine.run("zero", self.version)

    def value(self) -> float:
        """Value f(X); refreshes the slopes, so a gradient asked for next costs nothing."""
        return float(self._evaluated()[0])

    def gradient(self) -> "EntrywiseGradient":
        """The sparse gradient at X, as an operator."""
        _, squared, inner = self._evaluated()
        return EntrywiseGradient(self, float(np.sqrt(squared)), float(inner))

    def along(self, u: Array, v: Array, theta: Array | None = None) -> "Plane":
        """``(shrink, weight) -> f(shrink X + weight u v.T)``; each evaluation costs O(n_observed)."""
        self._follow()
        self._aim(u, v, theta)
        return Plane(self)

    def along_terms(self) -> "Terms":
        """``theta -> f(sum_k theta[k] u_k v_k.T)``; each evaluation costs O(rank n_observed)."""
        self._follow()
        return Terms(self)

    def add(self, shrink: float, weight: float, u: Array, v: Array, theta: Array | None = None) -> None:
        """``X = shrink X + weight u v.T``."""
        self._follow()
        self._aim(u, v, theta)
        self._moved()
        self.engine.run("add", self.version, shrink, weight)
        self.point.append(shrink, weight, u, v, theta)
        self.journal.add(self.version, shrink, weight, theta)

    def replace(self, theta: Array) -> None:
        """New coefficients for the terms of X."""
        self._follow()
        self.point.replace(theta)
        self._moved()
        self.journal.restart(self.version, self.point.theta)
        self.engine.run("replace", self.version, *self.point.padded)

    def move(self, theta: Array, U: Array, V: Array) -> None:
        """``X = U diag(theta) V.T``, whatever it was before; O(rank n_observed). Offsets stay."""
        self._follow()
        self._gram = np.zeros((0, 0))
        self.point.clear()
        self.point.append(1.0, 1.0, U, V, theta)
        self.replace(theta)

    def verbs_to_here(self) -> Iterator[Verb]:
        """What brings new shards to where the others are; nothing of X if all have yet to follow it."""
        if self._behind:
            return
        yield "shift", (self.offsets,)
        yield from self.journal.verbs(self.point)
        if self._aimed is not None:
            yield "aim", self._as_stored(*self._aimed)
        if self._summary is not None:
            yield "evaluate", ()

    def fingerprint(self) -> dict[str, Any]:
        """What this problem is, in words and checksums; the same wherever the entries are. One pass over them."""
        given = self.given_offsets
        entries = self.engine.concatenate("checksum")
        return {
            "shape": list(self.shape),
            "number of entries": int(self.observations.n_observed),
            "loss": repr(self.loss),
            "formula of the loss": self.loss.checksum().hex(),
            "dtype": str(self.dtype),
            "labels": checksum(self.observations.row_labels, self.observations.col_labels).hex(),
            "offsets": None if given is None else checksum(given.constant, given.rows, given.cols).hex(),
            "entries": checksum(np.ascontiguousarray(entries, np.uint8)).hex(),
        }

    def snapshot(self) -> Snapshot:
        """Where X is and how the predictions came about, to be restored in a later process."""
        offsets = None if self.offsets is self.given_offsets else self.offsets
        own = offsets is not None or self.given_offsets is None
        point, journal = self.point, self.journal
        place = point.theta, point.U, point.V
        return Snapshot(*place, self.version, journal, self._behind, offsets, own, self._gram)

    def restore(self, found: Snapshot) -> None:
        """Move to where a snapshot was taken: to the bits, what the shards predict is what it was."""
        if not found.fits(self.shape, self.dtype):
            raise DataError("The snapshot is of another problem.")
        self.point.clear()
        self.point.append(1.0, 1.0, found.U, found.V, found.theta)
        self.offsets = found.offsets if found.own_offsets else self.given_offsets
        self.version, self.journal, self._behind, self._gram = found.version, found.journal, found.behind, found.gram
        self._scratched()
        self.engine.run("zero", 0)  # also the shards' step numbers, which would let them pass over the past
        for verb, args in self.verbs_to_here():
            self.engine.run(verb, *args)

    def terms_hessian(self) -> NDArray[np.float64]:
        """Inner products of the terms on the observed entries, each computed once; for quadratic losses."""
        terms = self.along_terms()
        for k in range(self._gram.shape[0], self.point.rank):
            unit = np.zeros(k + 1)
            unit[k] = 1.0
            column = terms.curve(unit, unit)[: k + 1]
            self._gram = np.pad(self._gram, (0, 1))
            self._gram[k, : k + 1] = self._gram[: k + 1, k] = column
        return self._gram

    def rehearsal(self) -> tuple[Any, "Problem"]:
        """Key of the compiled code this problem needs, and a tiny problem that needs the same."""
        some = self.observations.few_targets(6)
        weights = None if self.observations.weights is None else np.ones(6)
        small = Observations.from_coo([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0], some, weights=weights)
        offsets = None if self.given_offsets is None else Offsets.zero(small.shape)
        key = type(self.loss.formula), self.dtype, weights is None, offsets is None
        return key, Problem(small, self.loss, dtype=self.dtype, n_jobs=1, offsets=offsets)

    def close(self) -> None:
        """End the threads."""
        for engine in (self.engine, self._across):
            if engine is not None:
                engine.close()

    def _evaluated(self) -> Array:
        self._follow()
        if self._summary is None:
            self._summary = self.engine.sum("evaluate")
        return self._summary

    def _aim(self, u: Array, v: Array, theta: Array | None) -> None:
        aim = u, v, theta
        if self._aimed is None or any(new is not old for new, old in zip(aim, self._aimed, strict=True)):
            self.engine.run("aim", *self._as_stored(u, v, theta))
            self._aimed = aim

    def _as_stored(self, u: Array, v: Array, theta: Array | None) -> tuple[Array, Array, Array | None]:
        return np.ascontiguousarray(u, self.dtype), np.ascontiguousarray(v, self.dtype), theta

    def _moved(self) -> None:
        self.version += 1
        self._summary = None

    def _scratched(self) -> None:
        """Slopes and direction were used as scratch: neither is what it was."""
        self._summary = self._aimed = None


class EntrywiseGradient(LinearOperator):
    """Slopes of the losses on the observed pattern; products cost O(n_observed)."""

    def __init__(self, problem: Problem, norm: float, inner: float) -> None:
        super().__init__(np.dtype(np.float64), problem.shape)
        self.problem, self.version, self.norm, self.inner = problem, problem.version, norm, inner
        self._no_shift = np.zeros(problem.shape[0])
        self.each = problem.engine.each

    def _matvec(self, v: Array) -> Array:
        return self._engine().concatenate("product", self._stored(v))

    def _rmatvec(self, u: Array) -> Array:
        return self._engine().sum("transposed", self._stored(u))

    def _matmat(self, V: Array) -> Array:
        return self._engine().concatenate("product", pad_columns(V, self.problem.dtype))[:, : V.shape[1]]

    def _rmatmat(self, U: Array) -> Array:
        return self._engine().sum("transposed", pad_columns(U, self.problem.dtype))[:, : U.shape[1]]

    def gram(self, v: Array, shift: Array | None = None) -> tuple[Array, Array]:
        """``z = G v + shift`` and ``G.T z``, for a vector or a block of columns, in one pass over the observations."""
        if v.ndim == 1:
            shift = self._no_shift if shift is None else shift
            return self._engine().concatenate_and_sum("gram", self._stored(v), shift)
        block, n = pad_columns(v, self.problem.dtype), v.shape[1]
        shifts = np.zeros((self.shape[0], block.shape[1]))
        if shift is not None:
            shifts[:, :n] = shift
        z, w = self._engine().concatenate_and_sum("gram", block, shifts)
        return z[:, :n], w[:, :n]

    def twice(self, v: Array) -> Array:
        """``G.T G v`` for a vector or a block of columns, in one pass over the observations."""
        if v.ndim == 1:
            return self._engine().sum("twice", self._stored(v))
        return self._engine().sum("twice", pad_columns(v, self.problem.dtype))[:, : v.shape[1]]

    def _stored(self, vector: Array) -> Array:
        return np.ascontiguousarray(vector.ravel(), self.problem.dtype)

    def _engine(self) -> Engine:
        if self.version != self.problem.version or self.problem._summary is None:
            raise RuntimeError("This gradient was taken at an earlier point; ask the problem for a new one.")
        return self.problem.engine


class Plane:
    """``(shrink, weight) -> f(shrink X + weight D)``, D being what the shards aim at."""

    def __init__(self, problem: Problem) -> None:
        self.engine = problem.engine

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Value and gradient."""
        found = self.engine.sum("plane", c[0], c[1])
        return float(found[0]), found[1:]

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Hessian times `direction`."""
        return np.asarray(self._hessian_at(c) @ direction)

    def hessian(self) -> NDArray[np.float64]:
        """The Hessian of a quadratic f."""
        return self._hessian_at(np.array([1.0, 0.0]))

    def best_weight(self, tilt: float = 0.0, curvature: float = 0.0) -> float:
        """Minimiser over weight >= 0 of ``f(X + weight D)`` for a piecewise-linear loss: a weighted median.

        With ``tilt * weight + curvature * weight**2 / 2`` added, as a ridge does.
        """
        return best_weight(self.engine, tilt, curvature)

    def _hessian_at(self, c: Array) -> NDArray[np.float64]:
        xx, xd, dd = self.engine.sum("plane_curve", c[0], c[1])
        return np.array([[xx, xd], [xd, dd]])


class Terms:
    """``theta -> f(sum_k theta[k] u_k v_k.T)``."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def __call__(self, c: Array) -> tuple[float, NDArray[np.float64]]:
        """Value and gradient."""
        point = self.problem.point
        self.problem._scratched()
        found = self.problem.engine.sum("terms", point.pad(c), *point.padded[1:])
        return float(found[0]), found[1 : 1 + point.rank]

    def curve(self, c: Array, direction: Array) -> NDArray[np.float64]:
        """Hessian times `direction`."""
        point = self.problem.point
        self.problem._scratched()
        found = self.problem.engine.sum("curve_terms", point.pad(c), point.pad(direction), *point.padded[1:])
        return found[: point.rank]

    def hessian(self) -> NDArray[np.float64]:
        """The Hessian of a quadratic f."""
        return self.problem.terms_hessian()


def _as_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise SettingError(f"`dtype` must be float32 or float64, got {dtype!r}.")
    return found
