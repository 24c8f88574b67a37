"""The points of a run, and the model made of them."""

from itertools import pairwise
from typing import Any

import numpy as np

from .._arrays import Array
from .._checks import all_finite
from ..model import LowRankModel, Seen
from ..objectives import Entrywise, Movable, Objective
from .base import Solver

LEFT_OUT = 1e-4  # singular values below this fraction of the largest are left out of a truncated model


class Iterates:
    """Coefficients and values of the points passed so far, and the factors of the last one.

    Parameters
    ----------
    objective : Objective
    solver : Solver
    thetas : list of ndarray
        Coefficients of every point, the first at the start of the run.
    values : list of float
        Value of every point.
    """

    def __init__(
        self, objective: Objective, solver: Solver[Any, Any], thetas: list[Array], values: list[float]
    ) -> None:
        self.objective, self.solver, self.thetas, self.values = objective, solver, thetas, values
        self._store_place()

    @classmethod
    def begun(cls, objective: Objective, solver: Solver[Any, Any], start: LowRankModel | None = None) -> "Iterates":
        """Return the iterates before the first step, with the path of the model that a warm start begins from."""
        iterates = cls(objective, solver, [np.zeros(0)], [objective.value()])
        if start is not None and solver.keeps_path:
            iterates._store_path(start)
        return iterates

    def is_sound(self) -> bool:
        """Return whether coefficients restored from a checkpoint form a path to the current point."""
        lengths = [theta.size for theta in self.thetas if theta.ndim == 1 and all_finite(theta)]
        rank = self.objective.point.rank if self.solver.keeps_path or len(lengths) > 1 else 0
        ascending = not self.solver.keeps_path or lengths == sorted(lengths)
        return len(lengths) == len(self.thetas) == len(self.values) and lengths[-1:] == [rank] and ascending

    def _store_path(self, start: LowRankModel) -> None:
        """Prepend the path of a model; of its values, only those at its rank and at its end are known."""
        self.thetas += [start.path[k, : k + 1] for k in range(start.longest)]
        self.values = [np.inf] * start.longest + self.values
        if start.rank < start.longest and isinstance(self.objective, Movable):
            self.objective.move(np.pad(start.theta, (0, start.longest - start.rank)), start.U, start.V)
            self.values[start.rank] = self.objective.value()
            self.objective.move(start.path[-1], start.U, start.V)

    def append(self, value: float) -> None:
        """Store the current point."""
        self.thetas.append(self.objective.point.theta.copy())
        self.values.append(value)
        self._store_place()

    def replace_last(self) -> None:
        """Store the current point in place of the last one."""
        self.thetas[-1] = self.objective.point.theta.copy()
        self._store_place()

    def _store_place(self) -> None:
        """Store offsets and factors, which a step that diverges may overwrite."""
        self.offsets = self.objective.offsets if isinstance(self.objective, Entrywise) else None
        if not self.solver.keeps_path:
            self.last = self.objective.point.copy()

    def model(self, extras: dict[str, Any]) -> LowRankModel:
        """Return the model, with the coefficients of every rank if the solver keeps a path or allows truncation."""
        fields = {**self._description(), **extras}
        if "scale" not in fields:
            fields["scale"] = self._scale()
        if self.solver.keeps_path:
            return self._with_path(fields)
        theta, U, V = self.thetas[-1], self.last.U, self.last.V
        if self.solver.truncates:
            theta, U, V = truncatable(theta, U, V)
            return LowRankModel(np.tril(np.tile(theta, (theta.size, 1))), U, V, **fields)
        path = np.zeros((theta.size, theta.size))
        path[-1:] = theta
        return LowRankModel(path, U, V, only_by=type(self.solver).__name__, **fields)

    def _description(self) -> dict[str, Any]:
        """Return labels, loss, offsets and pattern of the model."""
        if not isinstance(self.objective, Entrywise):
            return {}
        observations, loss = self.objective.observations, self.objective.loss
        return {
            "row_labels": observations.row_labels,
            "col_labels": observations.col_labels,
            "link": loss.link,
            "offsets": None if self.offsets is None else self.offsets.loaded(),
            "loss": loss.original,
            "seen": Seen.of(observations),
            "cells": getattr(self.objective, "cells", None),
        }

    def _scale(self) -> float:
        """Return the scale of the loss that makes the mean loss likeliest: one over the noise variance for squares."""
        if not isinstance(self.objective, Entrywise):
            return 1.0
        mean = self.objective.fit_value() / self.objective.observations.total_weight
        return float(self.objective.loss.best_scale(max(mean, 1e-30))) if np.isfinite(mean) else 1.0

    def _with_path(self, fields: dict[str, Any]) -> LowRankModel:
        """Return the model of a path; ranks between those of two steps have the later step's leading terms."""
        longest = self.thetas[-1].size
        path = np.zeros((longest, longest))
        for before, theta in pairwise(self.thetas):
            for k in range(before.size, theta.size):
                path[k, : k + 1] = theta[: k + 1]
        best = longest if self.solver.descends else self.thetas[int(np.argmin(self.values))].size
        point = self.objective.point
        U, V = (np.ascontiguousarray(side[:, :longest]) for side in (point.U, point.V))
        return LowRankModel(path, U, V, chosen=None if best == longest else best, **fields)


def truncatable(theta: Array, U: Array, V: Array) -> tuple[Array, Array, Array]:
    """Return singular values and vectors of ``U diag(theta) V.T``, without negligible ones.

    Costs O((n_rows + n_cols) rank**2).
    """
    (left, A), (right, B) = (np.linalg.qr(side.astype(np.float64)) for side in (U * theta, V))
    inner, values, outer = np.linalg.svd(A @ B.T, full_matrices=False)
    large = values > LEFT_OUT * max(values[:1].sum(), 1e-300)
    new_U, new_V = (np.ascontiguousarray(side, U.dtype) for side in (left @ inner[:, large], right @ outer[large].T))
    return values[large], new_U, new_V
