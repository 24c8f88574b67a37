"""Requirements of solvers on objectives and settings, checked before any work; errors name what is missing."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from .._checks import is_number, is_whole
from .._errors import LossError, RankwiseError, SettingError
from ..objectives import Entrywise, HasSides, Movable, Objective
from ..observations import Observations


@dataclass(frozen=True)
class Need:
    """A requirement on an objective.

    Parameters
    ----------
    name : str
        What is required, for the error: "a smooth objective".
    holds : callable Objective -> bool
    remedy : str
        What to do if it does not hold.
    error : type of exception, default=SettingError

    Examples
    --------
    >>> import rankwise as rw
    >>> [need.name for need in rw.solvers.AltMin().needs][0]
    'a smooth objective'
    """

    name: str
    holds: Callable[[Objective], bool]
    remedy: str
    error: type[RankwiseError] = SettingError


def _is_l1(objective: Objective) -> bool:
    return isinstance(objective, HasSides) and objective.loss.name == "l1"


def _has_no_offsets(objective: Objective) -> bool:
    return not (isinstance(objective, HasSides) and objective.fixed_offsets is not None)


def _is_in_memory(objective: Objective) -> bool:
    return isinstance(objective, Entrywise) and isinstance(objective.observations, Observations)


ANOTHER = 'use method="glrl-nonsmooth"'
SMOOTH = Need("a smooth objective", lambda f: f.smooth, f'{ANOTHER} or "glrl-none"', LossError)
QUADRATIC = Need("the square loss", lambda f: f.quadratic, 'use method="glrl" or "eglrl"', LossError)
LIPSCHITZ = Need(
    "a known Lipschitz constant of the gradient",
    lambda f: f.lipschitz is not None,
    'use method="altmin" or "glrl"',
    LossError,
)
L1_LOSS = Need("the l1 loss without a ridge", _is_l1, 'use loss="l1", or another method', LossError)
MOVABLE = Need(
    "an objective that can move to any low-rank matrix (`rankwise.objectives.Movable`)",
    lambda f: isinstance(f, Movable),
    'use method="glrl" or "eglrl"',
)
HAS_SIDES = Need(
    "a sum of losses over observed entries without a ridge (`rankwise.objectives.HasSides`)",
    lambda f: isinstance(f, HasSides),
    "use a `Problem`",
)
NO_OFFSETS = Need(
    "an objective without fixed offsets",
    _has_no_offsets,
    "remove `offsets` from the `Problem`, or subtract them from the targets",
)
OBSERVED_ONLY = Need(
    "a sum over the observed entries alone",
    lambda f: getattr(f, "cells", None) is None,
    'remove `everywhere`, or use method="factors", "bayes", "glrl" or "eglrl"',
)
IN_MEMORY = Need("the entries in memory", _is_in_memory, ANOTHER)


def check_needs(objective: object, needs: Iterable[Need], who: str) -> None:
    """Raise unless `objective` is an `Objective` and meets the needs of the solver called `who`."""
    if not isinstance(objective, Objective):
        raise SettingError(
            "`objective` must be an objective such as `Problem(observations, loss)`, with the members of "
            f"`rankwise.objectives.Objective`, got {type(objective).__name__}."
        )
    for need in needs:
        if not need.holds(objective):
            raise need.error(f"{who} requires {need.name}, got {_description(objective)}: {need.remedy}.")


def _description(objective: Objective) -> str:
    name = type(objective).__name__
    if not isinstance(objective, Entrywise):
        return name
    entries = "" if _is_in_memory(objective) else f" and entries in a {type(objective.observations).__name__}"
    term = "" if getattr(objective, "cells", None) is None else " and a term of all cells"
    return f"{name} with loss {objective.loss!r}{entries}{term}"


def need_positive(name: str, value: object, optional: bool = False) -> None:
    """Raise unless `value` is a positive finite number, or None if `optional`."""
    if not (optional and value is None) and not (is_number(value) and 0 < value < np.inf):
        raise SettingError(f"`{name}` must be a positive number, got {value!r}.")


def need_not_negative(name: str, value: object) -> None:
    """Raise unless `value` is a finite number of at least zero."""
    if not (is_number(value) and 0 <= value < np.inf):
        raise SettingError(f"`{name}` must be a number of at least zero, got {value!r}.")


def need_count(name: str, value: object, optional: bool = False) -> None:
    """Raise unless `value` is a positive integer, or None if `optional`."""
    if not (optional and value is None) and not (is_whole(value) and value >= 1):
        raise SettingError(f"`{name}` must be {'None or ' if optional else ''}a positive integer, got {value!r}.")


def need_share(shrinkage: object) -> None:
    """Raise unless `shrinkage` is above zero and at most one."""
    if not is_number(shrinkage) or not 0 < shrinkage <= 1:
        raise SettingError(f"`shrinkage` must be above 0 and at most 1, got {shrinkage!r}.")


def need_memory(n_bytes: float, method: str, why: str, instead: str, limit: int | None = None) -> None:
    """Raise if `n_bytes` are more than `limit`, or than the memory that is available."""
    available = available_bytes() if limit is None else limit
    if available is not None and n_bytes > available:
        raise SettingError(
            f"{method} requires about {n_bytes / 1e9:.1f} GB ({why}), and {available / 1e9:.1f} GB are available: "
            f"{instead}."
        )


def available_bytes() -> int | None:
    """Return the memory that is available now, or None if the system does not report it."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
