"""Sets of targets that losses accept."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Domain:
    """A set of targets, with the words that error messages use for it.

    Attributes
    ----------
    words : str
        Completes the sentence "the targets must be ...".
    contains : callable, ndarray -> ndarray of bool
        Mask of the targets that belong to the set.
    remedy : str
        Advice for targets outside the set.

    Examples
    --------
    >>> import numpy as np
    >>> import rankwise as rw
    >>> shares = rw.losses.Domain("between 0 and 1", lambda targets: (targets >= 0) & (targets <= 1))
    >>> shares.contains(np.array([0.5, 2.0]))
    array([ True, False])
    """

    words: str
    contains: Callable[[Array], Mask]
    remedy: str = "Remove or correct them."

    def __str__(self) -> str:
        return self.words


def _are_finite(targets: Array) -> Mask:
    return np.asarray(np.isfinite(targets))


def _are_signs(targets: Array) -> Mask:
    return np.asarray((targets == -1) | (targets == 1))


def _are_zero_one(targets: Array) -> Mask:
    return np.asarray((targets == 0) | (targets == 1))


def _are_counts(targets: Array) -> Mask:
    return np.asarray((targets >= 0) & np.isfinite(targets))


def _are_below(n: int, targets: Array) -> Mask:
    return np.asarray((targets >= 0) & (targets < n) & (targets == np.floor(targets)))


REALS = Domain("any real number", _are_finite)
OTHERS = 'for real numbers use "huber" or "square".'
SIGNS = Domain("-1 or +1", _are_signs, f'For 0 and 1 use "bernoulli", or map them with `2 * y - 1`; {OTHERS}')
ZERO_ONE = Domain("0 or 1", _are_zero_one, f'For -1 and +1 use "logistic"; {OTHERS}')
COUNTS = Domain("zero or more", _are_counts, "Counts cannot be negative.")


def whole_numbers(n: int, words: str = "") -> Domain:
    """Domain of the whole numbers from 0 to n - 1, with `words` put in front of its description."""
    return Domain(f"{words}whole numbers from 0 to {n - 1}", partial(_are_below, n))
