"""Sweeps with penalties on the factors: checks, units, and starts that fit the shape."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator

from .._arrays import Array
from .._errors import SettingError
from ..losses.units import Units
from ..objectives import Objective, Problem
from ..penalties import Fixed, OneHot, Penalty, Ridge, factor_units
from ..spectral import block_svd
from .steps import bisect, tilted
from .validation import Need

Penalties = tuple[Penalty | None, Penalty | None]  # of the rows and of the columns
OVERSAMPLED = 4  # additional directions in the block power iterations
N_POWERS = 3
N_LLOYD = 5  # rounds of k-means on the leading directions


def check_penalties(penalties: Penalties, offsets: tuple[bool, bool]) -> None:
    """Raise `SettingError` for penalties that exclude offsets of their side."""
    for name, each, offset in zip(("rows", "cols"), penalties, offsets, strict=True):
        if isinstance(each, OneHot) and offset:
            raise SettingError(f'`{name}`="onehot" excludes offsets of these {name}; set offsets="none" or "global".')


def needs_of(penalties: Penalties) -> tuple[Need, ...]:
    """Requirements of given factors on the shape of the matrix."""
    return tuple(
        Need(
            f"as many {('rows', 'columns')[k]} as `Fixed` has lines, {each.factors.shape[0]},",
            partial(_fits, each, k),
            "give a line of factors for each, and no more factors than the smaller side of the matrix",
        )
        for k, each in enumerate(penalties)
        if isinstance(each, Fixed)
    )


def _fits(fixed: Fixed, k: int, objective: Objective) -> bool:
    lines, rank = fixed.factors.shape
    return bool(objective.shape[k] == lines and rank <= min(objective.shape))


def given_rank(penalties: Penalties, rank: int) -> int:
    """Number of given factors, if a side has them; else `rank`."""
    return next((int(each.factors.shape[1]) for each in penalties if isinstance(each, Fixed)), rank)


def penalties_in_units(penalties: Penalties, ridge: float, units: Units) -> tuple[Penalty, Penalty]:
    """Penalties of stored numbers, each with its ridge."""
    filled = (each if each is not None else Ridge() for each in penalties)
    owned = (each if isinstance(each, Fixed) else replace(each, ridge=each.own_ridge(ridge)) for each in filled)
    scales = factor_units(penalties, units.unit)
    rows, cols = (each.in_units(scale, units.size) for each, scale in zip(owned, scales, strict=True))
    return rows, cols


def shaped_start(problem: Problem, rng: Generator, n: int, penalties: Penalties, attempt: int) -> tuple[Array, Array]:
    """Return n factors of rows and of columns that satisfy the constraints, from the leading pairs of the gradient.

    Non-negative sides take the larger of the positive and the negative part of each pair (Boutsidis and Gallopoulos,
    2008); attempts after the first are random. Clusters come from k-means++ on the leading directions. The product of
    both sides has the best multiple.
    """
    U, s, V = _leading(problem, rng, n)
    pairs = [-U * np.sqrt(s), V * np.sqrt(s)]
    own = next((k for k, each in enumerate(penalties) if each is not None and each.fixes_scale), None)
    if own is not None:
        penalty = penalties[own]
        given = (
            penalty.feasible(pairs[own]) if isinstance(penalty, Fixed) else _clusters(pairs[own] * np.sqrt(s), n, rng)
        )
        sides = [given, given]
        sides[1 - own] = pairs[1 - own] @ np.linalg.lstsq(given, pairs[own], rcond=None)[0].T
    elif attempt:
        sides = [np.abs(side).mean() * np.abs(rng.standard_normal(side.shape)) for side in pairs]
    else:
        sides = _parts(pairs, [each is not None and each.nonnegative for each in penalties])
    sides = [_feasible(each, side.astype(problem.dtype)) for each, side in zip(penalties, sides, strict=True)]
    fixed = [each is not None and each.fixes_scale for each in penalties]
    multiple = 1.0 if all(fixed) else best_multiple(problem, sides[0], sides[1])
    powers = (0.5, 0.5) if not any(fixed) else (float(fixed[1]), float(fixed[0]))
    scaled = ((multiple**power * side).astype(problem.dtype) for side, power in zip(sides, powers, strict=True))
    rows, cols = (_feasible(each, side) for each, side in zip(penalties, scaled, strict=True))
    return rows, cols


def best_multiple(problem: Problem, U: Array, V: Array) -> float:
    """Multiple of ``U V.T``, at least zero, that has the least value with the offsets as they are; 1 if it is zero."""
    if not (U.any() and V.any()):
        return 1.0
    return bisect(tilted(problem.along(U, V, np.ones(U.shape[1])), 0.0))[0] or 1.0


def _feasible(penalty: Penalty | None, factors: Array) -> Array:
    return factors if penalty is None else penalty.feasible(factors)


def _leading(problem: Problem, rng: Generator, n: int) -> tuple[Array, Array, Array]:
    """Leading singular triplets of the gradient."""
    start = rng.standard_normal((problem.shape[1], min(n + OVERSAMPLED, *problem.shape)))
    U, s, V, _ = block_svd(problem.gradient(), start, N_POWERS)
    return U[:, :n], s[:n], V[:, :n]


def _parts(pairs: list[Array], nonnegative: list[bool]) -> list[Array]:
    """Positive or negative part of each pair, whichever is larger, on sides that are non-negative, without zeros.

    A zero becomes the mean of its part: factors of zero on both sides would stay zero.
    """

    def part(side: Array, sign: int, clip: bool) -> Array:
        return np.maximum(sign * side, 0) if clip else sign * side

    both = [[part(side, sign, clip) for side, clip in zip(pairs, nonnegative, strict=True)] for sign in (1, -1)]
    sizes = [np.prod([np.linalg.norm(side, axis=0) for side in sides], axis=0) for sides in both]
    larger = [np.where(sizes[0] >= sizes[1], *sides) for sides in zip(*both, strict=True)]
    return [
        np.where(side > 0, side, side.mean(axis=0)) if clip else side
        for side, clip in zip(larger, nonnegative, strict=True)
    ]


def _clusters(lines: Array, n: int, rng: Generator) -> Array:
    """Clusters of the lines by k-means++ and a few rounds of k-means, as unit vectors of shape (len(lines), n)."""
    centers = lines[rng.integers(len(lines), size=1)]
    while len(centers) < n:
        distances = _distances(lines, centers).min(axis=1)
        total = distances.sum()
        chosen = rng.choice(len(lines), p=distances / total) if total > 0 else rng.integers(len(lines))
        centers = np.vstack((centers, lines[chosen]))
    for _ in range(N_LLOYD):
        members = np.eye(n)[_distances(lines, centers).argmin(axis=1)]
        counts = members.sum(axis=0)[:, None]
        centers = np.where(counts > 0, members.T @ lines / np.maximum(counts, 1), centers)
    return np.asarray(np.eye(n)[_distances(lines, centers).argmin(axis=1)])


def _distances(lines: Array, centers: Array) -> Array:
    squares = (lines**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1) - 2 * lines @ centers.T
    return np.asarray(np.maximum(squares, 0.0))
