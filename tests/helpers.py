"""What several test files share: every smooth loss, targets in its domain, small random observed matrices."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rankwise.cli import main
from rankwise.losses import BY_NAME, COUNTS, REALS, SIGNS, Huber, Loss, Mixed
from rankwise.losses.levels import LevelsLoss
from rankwise.observations import Observations

FILMS = ("Toy Story (1995)", "Babe (1995)", "Matrix, The (1999)", *(f"Film {k}, The" for k in range(37)))
ROOT = Path(__file__).resolve().parents[1]
# What holds whatever the loss is runs for these in `make test-all` alone.
RARE = {"CustomLoss", "EpsilonInsensitive", "Mixed", "OrdinalHinge", "Quantile", "SmoothHinge", "SquaredHinge"}
# Every registered one: a new loss takes part in all laws.
SMOOTH_LOSSES = [kind() for kind in BY_NAME.values() if kind.smooth and not issubclass(kind, LevelsLoss)]
SMOOTH_LOSSES.append(Huber(0.3))


def examples_of(page: str, language: str = "python") -> list[str]:
    """The blocks of code of one of our pages, which are meant to run."""
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)


def write_ratings(folder: Path) -> None:
    """The three files that our pages read, with stars of planted tastes of 80 users."""
    rng = np.random.default_rng(4)
    tastes = rng.normal(size=(80, 2)) @ rng.normal(size=(2, len(FILMS)))
    stars = np.clip(np.round(3.3 + tastes + 0.3 * rng.normal(size=tastes.shape)), 1, 5).astype(int)
    places = zip(*np.nonzero(rng.random(stars.shape) < 0.6), strict=True)
    lines = [(user + 1, FILMS[film], stars[user, film]) for user, film in places]
    pairs = [(42, film) for film in FILMS[:2]]
    parts = {"new_ratings": lines[::10], "ratings": [line for k, line in enumerate(lines) if k % 10], "pairs": pairs}
    for name, part in parts.items():
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("user", "film", "stars")[: len(part[0])], *part])


def rarely(*case):
    """A case that `make test` leaves out, as kernels would compile for it alone."""
    return pytest.param(*case, marks=pytest.mark.slow)


def but_rarely(losses, rare=RARE):
    """The losses, those of rare kinds as cases that `make test` leaves out."""
    return [rarely(loss) if type(loss).__name__ in rare else loss for loss in losses]


def targets_for(loss: Loss, rng: np.random.Generator, size) -> np.ndarray:
    """Random targets in the domain of `loss`: signs, counts, levels, codes, real numbers, or a selection of these."""
    if loss.domain == SIGNS:
        return rng.choice([-1.0, 1.0], size)
    if isinstance(loss, LevelsLoss):
        return rng.integers(0, loss.levels, size).astype(float)
    if isinstance(loss, Mixed):
        return rng.integers(0, loss.values.size, size).astype(float)
    if loss.domain == COUNTS:
        return rng.poisson(3.0, size).astype(float)
    if loss.domain == REALS:
        return rng.normal(0.0, 2.0, size)
    candidates = np.concatenate((rng.normal(0.0, 2.0, 500), rng.random(500), rng.poisson(3.0, 500).astype(float)))
    return rng.choice(candidates[loss.in_domain(candidates)], size)


def random_pattern(rng: np.random.Generator, shape: tuple[int, int], density: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of distinct entries, at least one, in row order; some rows and columns may stay empty."""
    seen = rng.random(shape) < density
    seen[rng.integers(shape[0]), rng.integers(shape[1])] = True
    return np.nonzero(seen)


def make_observations(
    loss: Loss, rng: np.random.Generator, shape: tuple[int, int] = (12, 9), density: float = 0.4, weights: bool = False
) -> Observations:
    """Random entries of a matrix with targets that `loss` takes, weights in [0.5, 2) if asked for."""
    rows, cols = random_pattern(rng, shape, density)
    weight_of = rng.uniform(0.5, 2.0, rows.size) if weights else None
    return Observations.from_coo(rows, cols, targets_for(loss, rng, rows.size), shape, weights=weight_of)


def outliers(
    shape: tuple[int, int] = (30, 20), rank: int = 2, density: float = 0.7, seed: int = 0
) -> tuple[np.ndarray, Observations]:
    """A low-rank matrix, and entries of it of which a tenth is grossly wrong."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(shape[0], rank)) @ rng.normal(size=(shape[1], rank)).T
    rows, cols = np.nonzero(rng.random(shape) < density)
    wrong = rng.random(rows.size) < 0.1
    targets = truth[rows, cols] + wrong * rng.choice([-1, 1], rows.size) * rng.uniform(5, 10, rows.size)
    return truth, Observations.from_coo(rows, cols, targets, shape)


def run(*arguments, code=0):
    """Run a command in this process; fail unless it ends with this exit code."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done
