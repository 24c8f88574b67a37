"""The first pass over a data frame, partition by partition: labels, counts, and what is wrong with any line."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..observations.build import refuse_negative, refuse_not_finite, refuse_weightless
from ..observations.frames import coded, column_of, numbers_of, refuse_unlabelled
from ..observations.labels import numbered

Array = NDArray[Any]
SIDES = (("row", "row"), ("col", "column"))  # as settings and sentences call them


class Names(NamedTuple):
    """Names of the columns of a frame with one line per entry."""

    row: Any
    col: Any
    value: Any
    weight: Any

    @property
    def given(self) -> list[Any]:
        """Those that are to be read, each once."""
        return list(dict.fromkeys(name for name in self if name is not None))


class Counted(NamedTuple):
    """Different labels in sorted order, and how many lines have each."""

    labels: Array
    counts: NDArray[np.int64]


class Wrong(NamedTuple):
    """How many of a partition's lines are wrong, and the first of them: its value and its line."""

    n: int = 0
    first: Any = None
    line: int = 0


class Facts(NamedTuple):
    """What the client needs to know of a partition."""

    n: int
    unlabelled: tuple[Wrong, Wrong]
    values: Wrong  # not finite
    weights: Wrong  # not finite
    negative: Wrong
    heaviest: float


class Look(NamedTuple):
    """One partition, looked at."""

    rows: Counted
    cols: Counted
    facts: Facts


def look(part: Any, names: Names) -> Look:
    """Labels, counts and facts of a partition; nothing is raised for single lines."""
    counted, unlabelled = [], []
    for name, (use, which) in zip(names[:2], SIDES, strict=True):
        labels, codes = coded(column_of(part, name, use), which)
        counted.append(Counted(labels, np.bincount(codes[codes >= 0], minlength=labels.size)))
        unlabelled.append(_wrong(codes < 0, codes))
    values = numbers_of(column_of(part, names.value, "value"), names.value)
    weights = np.ones(0)
    if names.weight is not None:
        weights = numbers_of(column_of(part, names.weight, "weight"), names.weight)
    facts = Facts(
        len(part),
        (unlabelled[0], unlabelled[1]),
        _wrong(~np.isfinite(values), values),
        _wrong(~np.isfinite(weights), weights),
        _wrong(weights < 0, weights),
        float(weights.max(initial=0.0)),
    )
    return Look(counted[0], counted[1], facts)


def merged(parts: Sequence[Counted], which: str) -> Counted:
    """Labels and counts of several partitions together."""
    some = [part for part in parts if part.labels.size]  # an empty partition does not know the labels' type
    if not some:
        return parts[0]
    labels, numbers = numbered(np.concatenate([part.labels for part in some]), which)
    counts = np.zeros(labels.size, np.int64)
    np.add.at(counts, numbers, np.concatenate([part.counts for part in some]))
    return Counted(labels, counts)


def check(facts: Sequence[Facts], names: Names) -> None:
    """Raise what `Observations.from_frame` would raise for the whole frame."""
    sizes = [each.n for each in facts]
    for side, name in enumerate(names[:2]):
        found = _together((each.unlabelled[side] for each in facts), sizes)
        if found.n:
            refuse_unlabelled(found.n, sum(sizes), name, found.line)
    for what in ("values", "weights"):
        found = _together((getattr(each, what) for each in facts), sizes)
        if found.n:
            refuse_not_finite(found.n, sum(sizes), what, found.first, found.line)
    found = _together((each.negative for each in facts), sizes)
    if found.n:
        refuse_negative(found.first, found.line)
    if names.weight is not None and max(each.heaviest for each in facts) == 0:
        refuse_weightless()


def _wrong(mask: Array, values: Array) -> Wrong:
    if not mask.any():
        return Wrong()
    line = int(np.argmax(mask))
    return Wrong(int(mask.sum()), values[line], line)


def _together(wrongs: Iterable[Wrong], sizes: list[int]) -> Wrong:
    """All partitions' wrong lines, the first counted from the beginning of the frame."""
    starts = np.cumsum([0, *sizes])
    found = [
        wrong._replace(line=wrong.line + int(start)) for wrong, start in zip(wrongs, starts, strict=False) if wrong.n
    ]
    return found[0]._replace(n=sum(wrong.n for wrong in found)) if found else Wrong()
