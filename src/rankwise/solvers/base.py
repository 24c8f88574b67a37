"""Base class of the solvers: the steps that the loop runs, and what each solver declares about itself."""

from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from numpy.random import Generator

from .._errors import SettingError
from ..losses.units import Units
from ..model import LowRankModel
from .history import StepReport
from .validation import Need

ObjectiveT = TypeVar("ObjectiveT")
StateT = TypeVar("StateT")


class NamedSolver(NamedTuple):
    """A solver that ``method=`` finds by a name.

    Attributes
    ----------
    solver : Solver
    summary : str
        One line for ``rankwise methods``.
    needs : tuple of Need
        Requirements on the objective under this name, beside those of the solver itself.

    Examples
    --------
    >>> import rankwise as rw
    >>> rw.solvers.METHODS["r1mp"].summary
    'rank-one matrix pursuit, square loss, all coefficients refitted'
    """

    solver: "Solver[Any, Any]"
    summary: str
    needs: tuple[Need, ...] = ()


class Solver(Generic[ObjectiveT, StateT]):
    """Base of the solvers, which minimize an objective f(X) over low-rank matrices X.

    The objective holds its current point, ``X = U diag(theta) V.T``: a sum of terms ``theta[k] u_k v_k.T``, as many as
    its rank. `init` moves it to the start, and each `step` moves it once more and returns a `StepReport`. What a solver
    must remember between steps is its state: `init` returns it, and every `step` receives it and may change it.

    A subclass implements `init` and `step`, and declares, where its answer is not the default one:

    - `grows`: each step adds terms, and the run ends at the requested rank; other solvers work at a fixed rank.
    - `keeps_path`: steps change only coefficients of earlier terms, not their vectors, so that the model can keep the
      coefficients after every step, and predict with any lower rank.
    - `truncates`: the factors may be rotated into singular vectors, so that a model of lower rank has the largest ones.
      Without `keeps_path` and `truncates`, the model has the factors as they are, and one rank.
    - `descends`: no step raises the value f(X), so the last point is the best one.
    - `compares_values`: points are accepted by the values of f, which float32 tells apart only if the points differ by
      the root of its rounding, 2e-4; estimators then compute in float64 whatever their `dtype`.
    - `max_iter`: default limit on the number of steps; None for solvers that stop at the rank. `most_steps`: the limit
      if a step reports that the run is not settled (`StepReport.moving`). `most_rank`: the rank that a model may have
      instead of a lower one that was requested.
    - `default_offsets`: the offsets that an estimator fits first if none are requested, "global" or "none".
    - `checkpoints`: whether the state can be stored in a checkpoint; `state_types`: the dataclasses that the state
      consists of, beside numbers, strings, arrays, lists, tuples and dicts.
    - `needs`: requirements on the objective, such as a smooth loss, checked once before any work.
    - `methods`: named instances, found by ``method=`` and listed by ``rankwise methods``.

    A solver's `repr` identifies its settings: a checkpoint can be resumed only by a solver with the same `repr`.

    Examples
    --------
    >>> import rankwise as rw
    >>> [name for name, method in rw.solvers.METHODS.items() if method.solver.grows]
    ['r1mp', 'r1mp-economic', 'glrl', 'eglrl', 'glrl-none', 'glrl-nonsmooth', 'geco']
    """

    grows: ClassVar[bool] = True
    keeps_path: ClassVar[bool] = True
    default_offsets: ClassVar[str] = "global"
    descends: ClassVar[bool] = True
    compares_values: ClassVar[bool] = False
    checkpoints: ClassVar[bool] = True
    state_types: ClassVar[tuple[type, ...]] = ()
    max_iter: int | None = None
    most_steps: ClassVar[int] = 0
    most_rank: int = 0

    @classmethod
    def methods(cls) -> dict[str, NamedSolver]:
        """Return the named instances of this class."""
        return {}

    @property
    def truncates(self) -> bool:
        """Whether the factors may be rotated into singular vectors."""
        return False

    @property
    def needs(self) -> tuple[Need, ...]:
        """Requirements on the objective, in the order in which they are checked."""
        return ()

    def init(self, objective: ObjectiveT, rank: int) -> StateT:
        """Move the objective to the start; return the state that is passed to every step."""
        raise NotImplementedError(f"{type(self).__name__} does not implement `init`.")

    def resume(self, objective: ObjectiveT, rank: int, start: LowRankModel) -> StateT:
        """Move the objective to a fitted model, for a warm start; return the state that is passed to every step."""
        raise SettingError(f"{type(self).__name__} cannot be warm-started; set warm_start=False to fit from scratch.")

    def steps_from(self, start: LowRankModel | None, rank: int) -> int | None:
        """Return the default limit on the number of steps, from scratch or from a model."""
        return self.max_iter

    def open_ended(self) -> "Solver[Any, Any]":
        """Return the solver for a run whose number of steps is not given, which it may find out itself."""
        return self

    def complete(self, objective: ObjectiveT, state: StateT) -> bool:
        """Do what is left when a run has ended, at whatever step; return whether the objective's point has moved."""
        return False

    def step(self, objective: ObjectiveT, rng: Generator, state: StateT) -> StepReport:
        """Make one iteration: change the objective's point and the state, and report what was done."""
        raise NotImplementedError(f"{type(self).__name__} does not implement `step`.")

    def accepts(self, objective: ObjectiveT, state: object) -> bool:
        """Return whether a state restored from a checkpoint is valid for this solver and objective."""
        return True

    @property
    def has_constant(self) -> bool:
        """Whether the solver fits a constant beside X, so that targets may be stored without their level."""
        return False

    @property
    def converts_units(self) -> bool:
        """Whether a fit may store targets in other units, see `in_units`."""
        return True

    def in_units(self, units: Units) -> "Solver[Any, Any]":
        """Return the solver with its parameters converted from the units of the targets to stored ones."""
        return self

    def original_value(self, value: float, units: Units, weight: float) -> float:
        """Return a value that a step reports in the units of the targets; `weight` is that of all entries."""
        return value * units.size

    def value_at_zero(self, objective: ObjectiveT) -> float:
        """Return the value relative to which `tol` measures changes, so that it does not depend on units."""
        return 0.0

    def finish(self, state: StateT) -> dict[str, Any]:
        """Return fields of the model beside its terms, labels, loss and offsets."""
        return {}
