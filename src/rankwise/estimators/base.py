"""Common base of the estimators: parameter validation, seeds, and their form in files."""

import inspect
import os
from dataclasses import dataclass, is_dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from .. import losses, solvers, spectral
from .._errors import ModelFileError, NotFittedError, SettingError
from ..losses import Loss
from ..model import Everywhere, LowRankModel
from ..model import load as load_model

PUBLIC: dict[str, Any] = {name: getattr(module, name) for module in (solvers, spectral) for name in module.__all__}
PARAMETER_CLASSES: dict[str, Any] = {
    name: part for name, part in PUBLIC.items() if is_dataclass(part) or part is solvers.NonsmoothPursuit
} | {"Everywhere": Everywhere}
ATTRIBUTES = {"step": "step_rule"}  # of NonsmoothPursuit, whose method `step` leaves the parameter another name
RandomState = int | np.random.RandomState | np.random.Generator | None
RUNTIME_PARAMS = ("verbose", "checkpoint")  # do not affect the fitted model


class EstimatorNotFittedError(NotFittedError, SklearnNotFittedError):
    """Raised by methods that need a fitted estimator; also an instance of scikit-learn's NotFittedError."""


class LowRankEstimator(BaseEstimator):
    """Base of all estimators. Subclasses declare their parameters in ``__init__`` and `_parameter_constraints`."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
    }
    n_jobs: int | None
    random_state: RandomState

    def _validate_params(self) -> None:
        """Check the types of the parameters against `_parameter_constraints`; raise `SettingError`."""
        try:
            super()._validate_params()
        except ValueError as error:
            raise SettingError(str(error)) from None

    def _seed(self) -> int:
        """Integer seed; None means 0, so that fits repeat. Generators advance, as in scikit-learn."""
        state = self.random_state
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31 - 1))
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**31 - 1))
        return 0 if state is None else int(state)

    def _not_fitted(self) -> EstimatorNotFittedError:
        return EstimatorNotFittedError(f"This {type(self).__name__} is not fitted yet; call `fit` first.")

    def _changed(self) -> dict[str, Any]:
        """Parameters that differ from their defaults and affect the fitted model, in JSON types or as text."""
        defaults = type(self)().get_params(deep=False)
        changed = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in RUNTIME_PARAMS and value is not defaults[name]
        }
        return {
            name: value if isinstance(value, bool | int | float | str | None) else str(value)
            for name, value in changed.items()
        }

    def _to_state(self, labels: bool = True) -> dict[str, Any]:
        """Class name and parameters, in JSON types, for `_restore`, without the checkpoint folder; labels if asked."""
        params = {name: to_plain(value) for name, value in self.get_params(deep=False).items() if name != "checkpoint"}
        return {"estimator": type(self).__name__, "params": params}

    @classmethod
    def _restore(cls, facts: dict[str, Any], model: LowRankModel) -> "LowRankEstimator":
        """Fitted estimator from what `_to_state` returned, together with the model that it was saved with."""
        kinds = {kind.__name__: kind for kind in _subclasses(cls)}
        if facts.get("estimator") not in kinds:
            raise ModelFileError(
                f"The file holds an estimator of the class {facts.get('estimator')!r}, which is not known; import the "
                "module that defines it before `load`."
            )
        try:
            params = {name: from_plain(value) for name, value in facts["params"].items()}
            estimator = kinds[facts["estimator"]](**params)
            estimator._take_state(facts, model)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"The parameters of the estimator in the file are damaged: {error}.") from error
        return estimator

    def _take_state(self, facts: dict[str, Any], model: LowRankModel) -> None:
        """Set the fitted attributes that a file holds."""
        raise NotImplementedError


def _subclasses(kind: type["LowRankEstimator"]) -> list[type["LowRankEstimator"]]:
    return [kind, *(each for child in kind.__subclasses__() for each in _subclasses(child))]


@dataclass(frozen=True, repr=False)
class NotStored:
    """Placeholder for a parameter that a file cannot hold; `fit` rejects it until it is set again."""

    text: str

    def __repr__(self) -> str:
        return f"{self.text}, which the file does not contain; set it with `set_params`"


def to_plain(value: object) -> Any:
    """Return a parameter in JSON types.

    Losses, solvers and oracles of the package become their class name and fields, and random generators None. Objects
    of other classes, such as a custom loss, are not stored: `fit` of the restored estimator asks for them.
    """
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, Loss) and losses.to_plain(value) is not None:
        return {"loss": losses.to_plain(value)}
    if isinstance(value, np.dtype) or value in (np.float32, np.float64):
        return np.dtype(value).name
    if PARAMETER_CLASSES.get(type(value).__name__) is type(value):
        names = inspect.signature(type(value)).parameters
        parts = {name: to_plain(getattr(value, ATTRIBUTES.get(name, name))) for name in names}
        return {"class": type(value).__name__, "fields": parts}
    return {"not_stored": repr(value)}


def from_plain(plain: Any) -> Any:
    """Return the parameter that `to_plain` wrote. Only classes of the package are constructed."""
    if not isinstance(plain, dict):
        return plain
    if "not_stored" in plain:
        return NotStored(str(plain["not_stored"]))
    if "loss" in plain:
        return losses.from_plain(plain["loss"])
    return PARAMETER_CLASSES[plain["class"]](**{name: from_plain(part) for name, part in plain["fields"].items()})


def load(path: str | os.PathLike[str]) -> "LowRankModel | LowRankEstimator":
    """Read a file written by `save` and return what was saved: a fitted estimator, or a `LowRankModel`.

    Never runs code from the file. A restored estimator has its parameters and `model_`, so that `fit` can be called
    again; it has no `history_`, `status_` and `observations_`.

    Examples
    --------
    >>> import tempfile
    >>> import rankwise as rw
    >>> fitted = rw.MatrixCompletion(rank=2).fit([[1.0, 2.0], [3.0, float("nan")]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fitted.save(f"{folder}/small.rankwise")
    ...     restored = rw.load(f"{folder}/small.rankwise")
    >>> print(restored, restored.model_.shape)
    MatrixCompletion(rank=2) (2, 2)
    """
    model = load_model(path)
    return LowRankEstimator._restore(model.facts, model) if "params" in model.facts else model
