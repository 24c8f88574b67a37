"""A solver of one's own, written in a user's file: needs, checkpoints and resume follow from what it declares."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from fits import Killed, digest, entries, killed_after

from rankwise import Checkpoint, CheckpointError, LossError, MultitaskRegression, Problem, Ridged, SettingError, solve
from rankwise.losses import Absolute, Logistic, Square
from rankwise.objectives import Objective
from rankwise.solvers import METHODS, SMOOTH, Solver, StepReport
from rankwise.spectral import DenseSVD


@dataclass
class Gaps:
    values: list[float] = field(default_factory=list)


@dataclass
class Progress:
    step: int
    gaps: Gaps
    mean: np.ndarray


class FrankWolfe(Solver[Objective, Progress]):
    """Conditional gradient steps over the matrices of nuclear norm at most `radius`."""

    descends = False
    state_types = (Progress, Gaps)

    def __init__(self, radius):
        self.radius, self.oracle = radius, DenseSVD()

    def __repr__(self):
        return f"FrankWolfe({self.radius})"

    @property
    def needs(self):
        return (SMOOTH,)

    def init(self, objective, rank):
        objective.reset()
        return Progress(0, Gaps(), np.zeros(objective.shape[0]))

    def step(self, objective, rng, state):
        gradient = objective.gradient()
        u, sigma, v, n_products = self.oracle(gradient, rng=rng)
        state.gaps.values.append(gradient.inner + self.radius * sigma)
        state.mean = 0.5 * state.mean + u
        length = 2.0 / (state.step + 2.0)
        objective.add(1.0 - length, -length * self.radius, u, v)
        state.step += 1
        return StepReport(sigma, gradient.norm, gradient.inner, n_products)

    def finish(self, state):
        return {"facts": {"gaps": state.gaps.values, "mean": float(state.mean.sum())}}


def multitask():
    rng = np.random.default_rng(3)
    designs = [rng.normal(size=(9, 6)) for _ in range(5)]
    return MultitaskRegression(designs, [design @ rng.normal(size=6) for design in designs])


OBJECTIVES = {
    "entries": lambda: Problem(entries(Square()), Square()),
    "signs with a ridge": lambda: Ridged(Problem(entries(Logistic()), Logistic()), 0.1),
    "tasks": multitask,
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_is_killed_after_any_step_and_resumes_to_the_same_bits(name, tmp_path):
    def run(**options):
        return solve(OBJECTIVES[name](), FrankWolfe(8.0), rank=6, **options)

    whole = run()
    assert len(whole.history) == 6 and len(whole.model.facts["gaps"]) == 6
    for k in range(1, 6):
        with pytest.raises(Killed):
            run(checkpoint=Checkpoint(tmp_path / str(k), every=1), callback=killed_after(k))
        resumed = run(checkpoint=Checkpoint(tmp_path / str(k), every=1, resume=True))
        assert digest(resumed) == digest(whole) and resumed.model.facts == whole.model.facts


def test_it_is_as_close_to_the_minimum_as_its_theorem_says():
    """At most 2 L (2 R)**2 / (t + 2) above the minimum over the ball (Jaggi, 2013), which is zero here."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(12, 2)) @ rng.normal(size=(2, 9))
    radius = float(np.linalg.norm(truth, "nuc"))
    problem = Problem(np.where(rng.random(truth.shape) < 0.7, truth, np.nan), Square(), dtype="float64")
    history = solve(problem, FrankWolfe(radius), rank=40).history
    bounds = 2 * (2 * radius) ** 2 / (history.column("step") + 2)
    assert (history.column("value") <= bounds).all() and history[-1].value < 0.1 * history.initial_value


def test_other_settings_of_it_are_another_fit(tmp_path):
    problem = Problem(entries(Square()), Square())
    solve(problem, FrankWolfe(8.0), rank=2, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=r"solver is 'FrankWolfe\(9.0\)' and was 'FrankWolfe\(8.0\)'"):
        solve(problem, FrankWolfe(9.0), rank=2, checkpoint=Checkpoint(tmp_path, resume=True))


def test_its_needs_are_checked_by_its_name():
    with pytest.raises(LossError, match=r"FrankWolfe requires a smooth objective, got Problem with loss Absolute\(\)"):
        solve(Problem(entries(Absolute()), Absolute()), FrankWolfe(8.0))


def test_a_state_that_it_does_not_declare_is_refused_by_name(tmp_path):
    class Undeclared(FrankWolfe):
        state_types = (Progress,)

    with pytest.raises(SettingError, match=r"The state of Undeclared contains a Gaps, .*`state_types`"):
        solve(Problem(entries(Square()), Square()), Undeclared(8.0), rank=2, checkpoint=tmp_path)


def test_two_types_of_one_name_are_refused(tmp_path):
    class Journal:
        """A problem's snapshot has a class of this name."""

    class Twice(FrankWolfe):
        state_types = (Progress, Gaps, Journal)

    with pytest.raises(SettingError, match="`state_types` of Twice must have names of their own, got Journal twice"):
        solve(Problem(entries(Square()), Square()), Twice(8.0), rank=2, checkpoint=tmp_path)


def test_every_named_solver_declares_a_summary_and_says_whether_it_grows():
    for name, method in METHODS.items():
        assert method.summary and "." not in method.summary
        assert method.solver.grows or method.solver.max_iter, name
        assert not (method.solver.keeps_path and method.solver.truncates)
        assert len({kind.__name__ for kind in method.solver.state_types}) == len(method.solver.state_types)
