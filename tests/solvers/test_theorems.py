"""Section 3 of the paper, asserted at every step: float64, an exact SVD, and constants computed from the run.

The proofs use the unconstrained minimum, where the gradient is zero, so X* and f(X*) come from one-dimensional solves.
In them d1 is the least of gamma_0 .. gamma_{T-1} and d2 the largest distance of X_0 .. X_{T-1} from X*; the paper's
statements count from one. Where no L is known (Poisson) L is the largest that backtracking may have used.
"""

import numpy as np
import pytest
from helpers import SMOOTH_LOSSES, make_observations
from reference import Dense, top_pair
from scipy.optimize import brentq

from rankwise import Problem, Ridged, solve
from rankwise.losses import Huber, Logistic, Poisson, SmoothHinge, Square, SquaredHinge
from rankwise.solvers import GreedyPursuit

REFINEMENTS = ("none", "economic", "coefficients")
every_refinement = pytest.mark.parametrize("refine", REFINEMENTS)
every_loss = pytest.mark.parametrize("loss", SMOOTH_LOSSES, ids=repr)
N_STEPS = 25


class Run:
    """A pursuit with an exact SVD, and everything about it recomputed densely from its path."""

    def __init__(self, loss, refine, ridge=0.0, weights=False, n_steps=N_STEPS, shape=(12, 9)):
        observations = make_observations(loss, np.random.default_rng(8), shape, density=0.5, weights=weights)
        self.f = Dense(observations, loss, ridge)
        problem = Problem(observations, loss, dtype=np.float64, n_jobs=1)
        objective = Ridged(problem, ridge) if ridge else problem
        self.result = solve(objective, GreedyPursuit(refine, "dense"), rank=n_steps)
        self.history, self.model = self.result.history, self.result.model
        self.X = [self.model.to_dense(rank) for rank in range(self.model.rank + 1)]
        self.values = np.array([self.f.value(X) for X in self.X])
        self.gradients = [self.f.gradient(X) for X in self.X]
        self.sigma = np.array([np.linalg.norm(G, 2) for G in self.gradients])
        self.norms = np.array([np.linalg.norm(G) for G in self.gradients])
        self.gamma = np.divide(self.sigma, self.norms, out=np.ones_like(self.norms), where=self.norms > 0)
        known = objective.lipschitz
        self.L = np.array([self.backtracked(t) for t in range(len(self.X))]) if known is None else known
        self.slack = 1e-11 * (1 + abs(self.values[0]))

    def backtracked(self, t):
        """The largest L that halving or doubling may stop at: twice the least with which Proposition 1 holds."""
        u, sigma, v = top_pair(self.gradients[t])

        def excess(length):
            return self.f.value(self.X[t] - length * np.outer(u, v)) - self.values[t] + 0.5 * sigma * length

        far = 1e-3
        while excess(far) < 0:
            far *= 2
        return 2 * sigma / brentq(excess, far / 2, far) if far > 1e-3 else np.inf

    def gaps(self):
        """``f(X_t) - f(X*)`` at every t, and the distances from X*."""
        best = self.f.minimiser()
        assert np.abs(self.f.gradient(best)).max() < 1e-12
        return self.values - self.f.value(best), np.array([np.linalg.norm(X - best) for X in self.X])

    def so_far(self, what, reduce):
        """`reduce` over t = 0 .. T - 1, for every T >= 1."""
        return reduce.accumulate(np.broadcast_to(what, len(self.X)))[:-1]


@every_loss
@every_refinement
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
def test_each_step_descends_as_proposition_1_promises(loss, refine, ridge, weights):
    run = Run(loss, refine, ridge, weights)
    promised = run.gamma**2 * run.norms**2 / (2 * run.L)
    assert np.all(run.values[1:] <= (run.values - promised)[:-1] + run.slack)
    assert run.values[-1] < 0.9 * run.values[0] + 0.1 * run.values.min()  # and the promise was worth something
    assert promised[0] > 1e-3 * abs(run.values[0])


@every_loss
@every_refinement
@pytest.mark.parametrize("shape", [(12, 9), (5, 14), (1, 7), (7, 1)], ids=str)
def test_alignment_is_between_the_proposition_s_limits(loss, refine, shape):
    run = Run(loss, refine, n_steps=6, shape=shape)
    alignment = run.history.column("alignment")
    assert np.all(alignment >= 1 / np.sqrt(min(shape)) - 1e-12) and np.all(alignment <= 1 + 1e-12)
    visible = run.sigma[: len(alignment)] > 1e-6 * run.sigma[0]  # beyond, the gradient is rounding
    np.testing.assert_allclose(alignment[visible], run.gamma[: len(alignment)][visible], rtol=1e-6)


@every_loss
@every_refinement
def test_the_history_is_the_dense_truth(loss, refine):
    run = Run(loss, refine, ridge=0.2, weights=True)
    np.testing.assert_allclose(run.history.initial_value, run.values[0], rtol=1e-12)
    np.testing.assert_allclose(run.history.column("value"), run.values[1:], rtol=1e-10)
    np.testing.assert_allclose(run.history.column("sigma"), run.sigma[:-1], rtol=1e-6, atol=1e-9 * run.sigma[0])


@every_loss
@every_refinement
@pytest.mark.parametrize("ridge", [0.1, 1.0])
def test_theorem_1_linear_rate_when_strongly_convex(loss, refine, ridge):
    run = Run(loss, refine, ridge)
    gaps, _ = run.gaps()
    rate = 1 - run.so_far(run.gamma, np.minimum) ** 2 * ridge / run.so_far(run.L, np.maximum)
    assert np.all((rate > 0) & (rate < 1))
    assert np.all(gaps >= -run.slack)
    assert np.all(gaps[1:] <= rate ** np.arange(1, len(gaps)) * gaps[0] + run.slack)
    assert gaps[-1] < 0.5 * gaps[0]


@pytest.mark.parametrize(
    ("loss", "ridge"),
    [
        *((loss, 0.0) for loss in (Square(), Huber(), Huber(0.3), SquaredHinge(), SmoothHinge())),
        *((loss, ridge) for loss in (Square(), Logistic(), Poisson()) for ridge in (1e-3, 0.1)),
    ],
    ids=str,
)
@every_refinement
def test_theorem_2_rate_one_over_t_when_convex(loss, ridge, refine):
    run = Run(loss, refine, ridge)
    gaps, distances = run.gaps()
    d1, d2, L = run.so_far(run.gamma, np.minimum), run.so_far(distances, np.maximum), run.so_far(run.L, np.maximum)
    T = np.arange(1, len(gaps))
    bound = 2 * d2**2 * L * gaps[0] / (d1**2 * T * gaps[0] + 2 * d2**2 * L)
    assert np.all(gaps >= -run.slack)
    assert np.all(gaps[1:] <= bound + run.slack)
    assert gaps[-1] < 0.5 * gaps[0] and bound[-1] < gaps[0]


@every_refinement
def test_theorem_3_linear_rate_under_the_square_loss(refine):
    run = Run(Square(), refine)
    gaps, _ = run.gaps()
    bound = (1 - run.so_far(run.gamma, np.minimum) ** 2) ** np.arange(1, len(gaps)) * gaps[0]
    assert np.all(gaps[1:] <= bound + run.slack)
    assert bound[-1] < 0.1 * gaps[0]


@every_refinement
def test_the_first_bound_of_theorem_3_is_nearly_met_by_a_step_that_fits_nothing_more(refine):
    """One observed row: gamma is 1, one step is exact, and the theorem says so."""
    run = Run(Square(), refine, shape=(1, 9), n_steps=1)
    assert run.gamma[0] == pytest.approx(1) and run.values[1] == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("shape", [(12, 9), (9, 12), (30, 4)], ids=str)
@every_refinement
def test_residuals_fall_at_the_rate_of_wang_et_al(refine, shape):
    """``||R_t||**2 <= (1 - 1/min(m, n))**(t - 1) ||P(O)||**2`` with R_t the residual before step t."""
    run = Run(Square(), refine, shape=shape)
    squared = run.norms**2
    rate = (1 - 1 / min(shape)) ** np.arange(len(squared))
    assert squared[0] == pytest.approx(np.sum(run.f.targets**2))
    assert np.all(squared <= rate * squared[0] * (1 + 1e-12) + 1e-20)


def project(X, radius):
    """Nearest matrix of nuclear norm at most `radius`."""
    left, values, right = np.linalg.svd(X, full_matrices=False)
    if values.sum() > radius:
        excess = (np.cumsum(values) - radius) / np.arange(1, values.size + 1)
        values = np.maximum(values - excess[np.flatnonzero(values > excess)[-1]], 0)
    return (left * values) @ right


def least_in_ball(f, radius, start, n_iter=400):
    """A point of the nuclear-norm ball with nearly the least f: accelerated projected gradient with backtracking."""
    X = Z = project(start, radius)
    L, momentum = 1.0, 1.0
    for _ in range(n_iter):
        value, G = f.value(Z), f.gradient(Z)
        while True:
            Y = project(Z - G / L, radius)
            D = Y - Z
            if f.value(Y) <= value + np.sum(G * D) + 0.5 * L * np.sum(D * D) + 1e-14:
                break
            L *= 2
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        Z, X, momentum = Y + (momentum - 1) / following * (Y - X), Y, following
    return X


@pytest.mark.parametrize("loss", [Square(), Logistic(), Huber(0.3), SquaredHinge(), Poisson()], ids=repr)
@every_refinement
def test_the_gap_bounds_the_distance_to_the_best_in_the_nuclear_norm_ball(loss, refine):
    run = Run(loss, refine, shape=(8, 6), n_steps=8)
    for t, record in enumerate(run.history, start=1):
        radius = np.abs(run.model.coefficients(t)).sum()
        drop = run.values[t - 1] - run.values[t]
        formula = np.sum(run.gradients[t - 1] * run.X[t - 1]) + run.sigma[t - 1] * radius - drop
        assert record.gap == pytest.approx(max(formula, 0), rel=1e-8, abs=run.slack)
        if t in (1, 3, 8):
            best = least_in_ball(run.f, radius, run.X[t])
            assert np.linalg.norm(best, "nuc") <= radius * (1 + 1e-9)
            assert run.values[t] - run.f.value(best) <= record.gap + run.slack
    assert run.history.column("gap").min() < run.values[0]
