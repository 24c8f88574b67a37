"""The points a solver passed, made into a model."""

from itertools import pairwise
from typing import Any

import numpy as np

from .._checks import all_finite
from ..model import LowRankModel, Seen
from ..objectives import Objective

NEGLIGIBLE = 1e-4  # share of the largest singular value below which a component has faded out


class Iterates:
    """Remembers what the model needs of the points passed."""

    def __init__(self, objective: Objective, solver: Any, thetas: list[Any], values: list[float]) -> None:
        self.objective, self.solver, self.thetas, self.values = objective, solver, thetas, values
        self._take_place()

    @classmethod
    def begun(cls, objective: Objective, solver: Any, start: LowRankModel | None = None) -> "Iterates":
        """Nothing passed yet, but the path of the model that the run goes on from."""
        found = cls(objective, solver, [np.zeros(0)], [objective.value()])
        if start is not None and solver.keeps_path:
            found._remember(start)
        return found

    def is_sound(self) -> bool:
        """Whether what comes from a file is a path to where the objective is."""
        lengths = [theta.size for theta in self.thetas if theta.ndim == 1 and all_finite(theta)]
        rank = self.objective.point.rank if self.solver.keeps_path or len(lengths) > 1 else 0
        grown = not self.solver.keeps_path or lengths == sorted(lengths)
        return len(lengths) == len(self.thetas) == len(self.values) and lengths[-1:] == [rank] and grown

    def _remember(self, start: LowRankModel) -> None:
        """The path of a model that this run goes on from; of its values, those at its rank and at its end."""
        self.thetas += [start.path[k, : k + 1] for k in range(start.longest)]
        self.values = [np.inf] * start.longest + self.values
        if start.rank < start.longest:
            objective: Any = self.objective
            objective.move(np.pad(start.theta, (0, start.longest - start.rank)), start.U, start.V)
            self.values[start.rank] = objective.value()
            objective.move(start.path[-1], start.U, start.V)

    def keep(self, value: float) -> None:
        """Remember the current point."""
        self.thetas.append(self.objective.point.theta.copy())
        self.values.append(value)
        self._take_place()

    def _take_place(self) -> None:
        """Where the objective is; solvers that keep no path may move away from it for good."""
        point = self.objective.point
        self.offsets = getattr(self.objective, "offsets", None)
        if not self.solver.keeps_path:
            self.last: tuple[Any, Any, Any] = (self.thetas[-1], point.U.copy(), point.V.copy())

    def model(self, extras: dict[str, Any]) -> LowRankModel:
        """The model with the coefficients of every rank, or of the last point if the solver keeps no path."""
        observations, loss = (getattr(self.objective, name, None) for name in ("observations", "loss"))
        about: dict[str, Any] = {
            "row_labels": None if observations is None else observations.row_labels,
            "col_labels": None if observations is None else observations.col_labels,
            "link": "identity" if loss is None else loss.link,
            "offsets": self.offsets,
            "loss": loss,
            "seen": Seen.of(observations),
            **extras,
        }
        if "scale" not in about:
            about["scale"] = _scale(self.objective)
        if self.solver.keeps_path:
            return self._with_path(about)
        theta, U, V = self.last
        if self.solver.truncates:
            theta, U, V = truncatable(theta, U, V)
            return LowRankModel(np.tril(np.tile(theta, (theta.size, 1))), U, V, **about)
        path = np.zeros((theta.size, theta.size))
        path[-1:] = theta
        return LowRankModel(path, U, V, only_by=type(self.solver).__name__, **about)

    def _with_path(self, about: dict[str, Any]) -> LowRankModel:
        """Between two steps' ranks, the path has the later step's leading terms."""
        longest = self.thetas[-1].size
        path = np.zeros((longest, longest))
        for before, theta in pairwise(self.thetas):
            for k in range(before.size, theta.size):
                path[k, : k + 1] = theta[: k + 1]
        best = longest if self.solver.descends else self.thetas[int(np.argmin(self.values))].size
        point = self.objective.point
        U, V = (np.ascontiguousarray(side[:, :longest]) for side in (point.U, point.V))
        return LowRankModel(path, U, V, chosen=None if best == longest else best, **about)


def _scale(objective: Objective) -> float:
    """One over the noise that is left, by the mean loss, if there is such a thing."""
    inner: Any = getattr(objective, "objective", objective)  # without its ridge, if it has one
    loss, observations = getattr(inner, "loss", None), getattr(inner, "observations", None)
    mean = inner.value() / observations.total_weight if loss is not None and observations is not None else np.nan
    return float(loss.best_scale(max(mean, 1e-30))) if loss is not None and np.isfinite(mean) else 1.0


def truncatable(theta: Any, U: Any, V: Any) -> tuple[Any, Any, Any]:
    """Singular values and vectors of ``U diag(theta) V.T``, negligible ones left out; O((n_rows + n_cols) rank**2)."""
    (left, A), (right, B) = (np.linalg.qr(side.astype(np.float64)) for side in (U * theta, V))
    inner, values, outer = np.linalg.svd(A @ B.T, full_matrices=False)
    kept = values > NEGLIGIBLE * max(values[:1].sum(), 1e-300)
    sides = left @ inner[:, kept], right @ outer[kept].T
    return values[kept], *(np.ascontiguousarray(side, U.dtype) for side in sides)
