"""Prior means of rows that are a regression on their features, and sums of several prior means."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._arrays import Array
from .._checks import all_finite
from ..model import PriorArrays
from ..model.effects import side_weights
from ..objectives.sides import Side
from ..observations import Features
from .row_priors import PRIORS, PatternPrior, RowPrior, restored_prior

MOST_DENSE = 500  # features up to which the weights are solved for exactly, with an eigendecomposition per sweep
CG_STEPS, COLD_STEPS = 4, 50  # of conjugate gradients, for more features: per sweep, and for rows without entries
INTERCEPT_RIDGE = 1e-6  # of the intercept of rows without entries
FIRST_RIDGE = 20.0  # in units of the mean square of a group's nonzero features: as if 20 more rows had a weight of zero
RIDGE_RANGE = (1e-3, 1e6)  # least and largest ridge, in the same units


@dataclass
class FeaturePrior:
    """Prior mean of row i: ``features[i] @ weights``, with a ridge that is learned for every group of features.

    A priori the weight of a feature of group g is normal, with ``ridges[g]`` times the rows' own precision. Weights and
    ridges maximize the evidence with the rows' factors averaged out: a row of which the entries say little about
    component k, so that its posterior variance is that of the prior, counts little for the weights of k. The share of
    what is known from entries is approximated by a number for the row times one for the component. The ridges follow
    MacKay's fixed point, the number of well-determined weights over their squares.

    Costs O(n n_features rank + n_features**3) a sweep for up to 500 features, else a few products with the features,
    linear in those stored.
    """

    kind: ClassVar[str] = "features"
    weights: Array  # (n_features, width)
    deviations: Array  # (n_features, width): posterior standard deviations of the weights
    ridges: Array  # (n_groups,): in units of the rows' precisions
    cold: Array  # (n_features + 1, width): weights and the intercept for rows without entries

    @classmethod
    def zero(cls, side: Side) -> "FeaturePrior":
        """Weights of zero, for the rows of `side`."""
        features = _features(side)
        shape = features.shape[1], side.means.shape[1]
        return cls(np.zeros(shape), np.zeros(shape), FIRST_RIDGE * _units(features), np.zeros((shape[0] + 1, shape[1])))

    @classmethod
    def from_arrays(cls, saved: PriorArrays, ridge: float) -> "FeaturePrior":
        """The prior of a model; `ridge` is not used, because the model has the ridges."""
        parts = saved.arrays["weights"], saved.arrays["deviations"], saved.constants["ridges"], saved.arrays["cold"]
        return cls(*(np.asarray(part, np.float64) for part in parts))

    def to_arrays(self) -> PriorArrays:
        """Weights, deviations and ridges, for a model."""
        arrays = {"weights": self.weights, "deviations": self.deviations, "cold": self.cold}
        return PriorArrays(self.kind, arrays, {"ridges": self.ridges})

    def is_sound(self, side: Side, other: Side) -> bool:
        """Return whether all parts are finite and fit the side and its features, if it has any."""
        (n_features, width), features = self.weights.shape, side.features
        sizes = (
            (self.weights, (n_features, width)),
            (self.deviations, (n_features, width)),
            (self.cold, (n_features + 1, width)),
        )
        fits = features is None or (n_features, self.ridges.size) == (features.shape[1], features.n_groups)
        return (
            int(side.offset) <= width <= side.means.shape[1]
            and all(part.shape == size and all_finite(part) for part, size in sizes)
            and fits
            and all_finite(self.ridges)
            and bool((self.ridges > 0).all() and (self.deviations >= 0).all())
        )

    def improve(self, side: Side, other: Side) -> None:
        """Take a Newton step for the weights, update the ridges, and update ``side.prior_means``."""
        features = _features(side)
        self._widen(side)
        means, prior_means = (np.asarray(part, np.float64) for part in (side.means, side.prior_means))
        variances, counts = (np.asarray(part, np.float64) for part in (side.variances, side.multipliers))
        residuals = counts[:, None] * (means - prior_means)
        known = _known_shares(residuals, side.precisions * counts[:, None] * variances)
        by_row, by_component = counts * known.mean(axis=1), known.mean(axis=0) / max(known.mean(), 1e-30)
        ridges = self.ridges[features.groups]
        gradient = features.matrix.T @ residuals - ridges[:, None] * self.weights
        solve = _exact if features.shape[1] <= MOST_DENSE else _by_conjugate_gradients
        change, inverse = solve(features, by_row, by_component, ridges, gradient)
        self.weights = self.weights + change
        side.prior_means = (prior_means + features.matrix @ change).astype(side.means.dtype)
        left = counts @ ((means - side.prior_means) ** 2 + variances)
        precisions = means.shape[0] / np.maximum(left + self.penalty(side), 1e-30)
        self.deviations = np.sqrt(inverse / precisions)
        self._learn_ridges(features, precisions, inverse)

    def penalty(self, side: Side) -> NDArray[np.float64]:
        """Sum of the squared weights of each component, times the ridges of their groups."""
        ridges = self.ridges[_features(side).groups]
        squares = ridges @ self.weights**2
        missing = side.means.shape[1] - squares.size
        return np.insert(squares, [squares.size - int(side.offset)] * missing, 0.0)

    def row_means(self, side: Side) -> Array:
        """Prior means of a side's rows; zeros if nothing is known of them."""
        if side.features is None:
            return np.zeros((side.means.shape[0], self.weights.shape[1]), side.means.dtype)
        return np.asarray(side.features.matrix @ self.weights).astype(side.means.dtype)

    def narrow(self, places: Array) -> None:
        """Keep the components at `places` only."""
        self.weights, self.deviations = self.weights[:, places], self.deviations[:, places]
        self.cold = self.cold[:, places]

    def renumber(self, places: Array, dtype: Any) -> None:
        """Nothing depends on the rows of the other side."""

    def place_cold(self, side: Side, counts: Array) -> bool:
        """Regress the rows on their features with their numbers of entries as weights, for rows without entries.

        Rows with many entries differ from others, as popular films do in their ratings. The prior counts rows alike,
        and leaves that to the pattern, which rows without entries do not have. Moves these rows to the regression, and
        returns whether there are any.
        """
        features, cold = _features(side), counts == 0
        matrix = features.matrix
        ones = np.ones((features.shape[0], 1))
        matrix = sp.hstack((matrix, ones), format="csr") if features.is_sparse else np.hstack((matrix, ones))
        wider = Features(matrix, np.append(features.groups, features.n_groups))
        ridges = np.append(self.ridges[features.groups], INTERCEPT_RIDGE)
        by_row, means = counts / max(counts[~cold].mean(), 1e-30), np.asarray(side.means, np.float64)
        gradient = np.asarray(matrix.T @ (by_row[:, None] * means))
        solve = _exact if features.shape[1] <= MOST_DENSE else partial(_by_conjugate_gradients, n_steps=COLD_STEPS)
        self.cold = solve(wider, by_row, np.ones(means.shape[1]), ridges, gradient)[0]
        if not cold.any():
            return False
        prior_means = np.where(cold[:, None], matrix @ self.cold, np.asarray(side.prior_means))
        side.prior_means = prior_means.astype(side.means.dtype)
        side.means = np.where(cold[:, None], prior_means, means).astype(side.means.dtype)
        return True

    def _widen(self, side: Side) -> None:
        """Insert weights of zero for new factors, before the offset."""
        width = self.weights.shape[1]
        new = [width - int(side.offset)] * (side.means.shape[1] - width)
        parts = self.weights, self.deviations, self.cold
        self.weights, self.deviations, self.cold = (np.insert(part, new, 0.0, axis=1) for part in parts)

    def _learn_ridges(self, features: Features, precisions: Array, inverse: Array) -> None:
        """Update the ridges from the precisions of the rows and the diagonal of the inverse Hessian."""
        width = self.weights.shape[1]
        sizes = width * features.by_group(np.ones(features.shape[1]))
        determined = sizes - self.ridges * features.by_group(inverse.sum(axis=1))
        squares = features.by_group(self.weights**2 @ precisions)
        units = _units(features)
        learned = np.maximum(determined, 0.0) / np.maximum(squares, 1e-30)
        self.ridges = np.clip(learned, RIDGE_RANGE[0] * units, RIDGE_RANGE[1] * units)


@dataclass
class JointPrior:
    """Sum of the prior means of several priors, each of which is improved given the others; zero without any."""

    kind: ClassVar[str] = "joint"
    parts: list[Any]

    @classmethod
    def from_arrays(cls, saved: PriorArrays, ridge: float) -> "JointPrior":
        """Priors of a model, whose arrays are named after their kinds."""
        kinds = dict.fromkeys(name.partition("_")[0] for name in saved.arrays)
        return cls([restored_prior(saved.part(kind), ridge) for kind in kinds])

    def to_arrays(self) -> PriorArrays:
        """Arrays of all parts, named after their kinds."""
        return PriorArrays.joined(self.kind, [part.to_arrays() for part in self.parts])

    def improve(self, side: Side, other: Side) -> None:
        """Improve each part given the others; ``side.prior_means`` is the sum of all."""
        for part in self.parts:
            part.improve(side, other)

    def penalty(self, side: Side) -> NDArray[np.float64]:
        """Sum of the penalties, shape (width,)."""
        return np.asarray(sum((part.penalty(side) for part in self.parts), np.zeros(side.means.shape[1])))

    def row_means(self, side: Side) -> Array:
        """Sum of the prior means of a side's rows."""
        zero = np.zeros((side.means.shape[0], side.means.shape[1]), side.means.dtype)
        return sum((np.asarray(part.row_means(side)) for part in self.parts), zero)

    def narrow(self, places: Array) -> None:
        """Keep the components at `places` only."""
        for part in self.parts:
            part.narrow(places)

    def renumber(self, places: Array, dtype: Any) -> None:
        """Give the other side new rows."""
        for part in self.parts:
            part.renumber(places, dtype)

    def is_sound(self, side: Side, other: Side) -> bool:
        """Return whether all parts fit the two sides."""
        return all(isinstance(part, RowPrior) and part.is_sound(side, other) for part in self.parts)


PRIORS |= {FeaturePrior.kind: FeaturePrior, JointPrior.kind: JointPrior}


def side_priors(sides: Sequence[tuple[Side, Side]], pattern_ridge: float | None = None) -> list[RowPrior]:
    """Priors of the rows and of the columns before they are learned; none if all prior means are zero.

    `sides` are the rows beside the columns, and the columns beside the rows; without `pattern_ridge`, patterns have no
    prior.
    """
    priors: list[RowPrior] = []
    for side, other in sides:
        parts: list[RowPrior] = [] if side.features is None else [FeaturePrior.zero(side)]
        parts += [] if pattern_ridge is None else [PatternPrior.zero(side, other, pattern_ridge)]
        priors.append(parts[0] if len(parts) == 1 else JointPrior(parts))
    return priors if any(not isinstance(prior, JointPrior) or prior.parts for prior in priors) else []


def continued_prior(made: RowPrior, saved: PriorArrays, ridge: float, sides: tuple[Side, Side]) -> RowPrior:
    """The prior `made` for a warm start, with the parts of a model in place of its own where these fit."""
    own, known = (
        prior.parts if isinstance(prior, JointPrior) else [prior] for prior in (made, restored_prior(saved, ridge))
    )
    by_kind = {part.kind: part for part in known}
    parts = [by_kind.get(part.kind, part) for part in own]
    parts = [new if _fits(new, sides) else part for new, part in zip(parts, own, strict=True)]
    return parts[0] if len(parts) == 1 else JointPrior(parts)


def place_cold(side: Side, prior: RowPrior, counts: Array) -> bool:
    """Move the rows of a side that have features and no entries; return whether there are any."""
    parts = prior.parts if isinstance(prior, JointPrior) else [prior]
    moved = [part.place_cold(side, counts) for part in parts if isinstance(part, FeaturePrior)]
    return any(moved)


def regression_means(saved: PriorArrays | None, features: Features | None) -> Array | float:
    """Means of rows with features and no entries, by the weights of a model; zero without features."""
    part = side_weights(saved)
    if part is None or features is None:
        return 0.0
    return np.asarray(features.matrix @ part.arrays["cold"][:-1]) + part.arrays["cold"][-1:]


def _fits(prior: RowPrior, sides: tuple[Side, Side]) -> bool:
    return not isinstance(prior, FeaturePrior) or prior.is_sound(*sides)


def _features(side: Side) -> Features:
    assert side.features is not None
    return side.features


def _units(features: Features) -> NDArray[np.float64]:
    """Mean square of the nonzero features of each group; one for a group of zeros."""
    squares = features.by_group(features.squares(np.ones(features.shape[0])))
    nonzero = features.by_group(np.asarray((features.matrix != 0).sum(axis=0), np.float64).ravel())
    return np.where(squares > 0, squares / np.maximum(nonzero, 1.0), 1.0)


def _known_shares(residuals: Array, variances: Array) -> NDArray[np.float64]:
    """Share of each factor that is known from its row's entries: one minus its variance over that of the prior.

    Without variances it is one, but zero for rows at their prior means, which have no entries.
    """
    if variances.any():
        return np.clip(1.0 - variances, 0.0, 1.0)
    away = np.abs(residuals).max(axis=1, keepdims=True, initial=0.0) > 0
    return np.broadcast_to(away, residuals.shape).astype(np.float64)


def _exact(
    features: Features, by_row: Array, by_component: Array, ridges: Array, gradient: Array
) -> tuple[Array, Array]:
    """Solutions of ``(s_k H + diag(ridges)) x_k = gradient[:, k]`` and the diagonals of the inverses.

    H is the Gram matrix of the features with the weights `by_row`, and s_k is ``by_component[k]``.
    """
    root = 1.0 / np.sqrt(ridges)
    values, vectors = np.linalg.eigh(root[:, None] * features.gram(by_row) * root)
    vectors = root[:, None] * vectors
    shrunk = 1.0 / (1.0 + np.outer(np.maximum(values, 0.0), by_component))
    return vectors @ (shrunk * (vectors.T @ gradient)), vectors**2 @ shrunk


def _by_conjugate_gradients(
    features: Features, by_row: Array, by_component: Array, ridges: Array, gradient: Array, n_steps: int = CG_STEPS
) -> tuple[Array, Array]:
    """Approximation of `_exact` by a few steps from zero, and one over the diagonals of the Hessians."""
    matrix, inverse = features.matrix, 1.0 / (np.outer(features.squares(by_row), by_component) + ridges[:, None])
    solution, residual = np.zeros_like(gradient), gradient
    direction = inverse * residual
    squared = np.sum(residual * direction, axis=0)
    for _ in range(n_steps):
        product = by_component * (matrix.T @ (by_row[:, None] * (matrix @ direction))) + ridges[:, None] * direction
        step = _ratio(squared, np.sum(direction * product, axis=0))
        solution, residual = solution + step * direction, residual - step * product
        scaled, before = inverse * residual, squared
        squared = np.sum(residual * scaled, axis=0)
        direction = scaled + _ratio(squared, before) * direction
    return solution, inverse


def _ratio(above: Array, below: Array) -> Array:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
