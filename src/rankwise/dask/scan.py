"""First pass over a Dask data frame: labels, counts and invalid lines of each partition."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from ..observations.build import refuse_negative, refuse_not_finite, refuse_weightless
from ..observations.frames import coded, column_of, numbers_of, refuse_unlabelled
from ..observations.labels import numbered

LABEL_COLUMNS = (("row", "row"), ("col", "column"))  # parameter, and the word in error messages


class Names(NamedTuple):
    """Names of the columns of a frame with one line per entry."""

    row: Any
    col: Any
    value: Any
    weight: Any

    @property
    def used(self) -> list[Any]:
        """Columns to read, each once."""
        return list(dict.fromkeys(name for name in self if name is not None))


class Counted(NamedTuple):
    """Distinct labels in sorted order, and the number of lines with each."""

    labels: Array
    counts: NDArray[np.int64]


class Invalid(NamedTuple):
    """Number of invalid lines of a partition, and value and position of the first."""

    n: int = 0
    first: Any = None
    line: int = 0


class PartitionFacts(NamedTuple):
    """Number of lines of a partition, and its invalid ones by what is wrong with them."""

    n: int
    unlabelled: tuple[Invalid, Invalid]
    values: Invalid  # not finite
    weights: Invalid  # not finite
    negative: Invalid
    heaviest: float


class Scan(NamedTuple):
    """Labels, counts and invalid lines of a partition."""

    rows: Counted
    cols: Counted
    facts: PartitionFacts


def scan(part: Any, names: Names) -> Scan:
    """Scan a partition; invalid lines are counted, not raised, since their number in the whole frame is not known."""
    counted, unlabelled = [], []
    for name, (use, which) in zip(names[:2], LABEL_COLUMNS, strict=True):
        labels, codes = coded(column_of(part, name, use), which)
        counted.append(Counted(labels, np.bincount(codes[codes >= 0], minlength=labels.size)))
        unlabelled.append(_invalid(codes < 0, codes))
    values = numbers_of(column_of(part, names.value, "value"), names.value)
    weights = np.ones(0)
    if names.weight is not None:
        weights = numbers_of(column_of(part, names.weight, "weight"), names.weight)
    facts = PartitionFacts(
        len(part),
        (unlabelled[0], unlabelled[1]),
        _invalid(~np.isfinite(values), values),
        _invalid(~np.isfinite(weights), weights),
        _invalid(weights < 0, weights),
        float(weights.max(initial=0.0)),
    )
    return Scan(counted[0], counted[1], facts)


def merged(parts: Sequence[Counted], which: str) -> Counted:
    """Merge the labels and counts of several partitions."""
    filled = [part for part in parts if part.labels.size]  # the labels of an empty partition may have another type
    if not filled:
        return parts[0]
    labels, codes = numbered(np.concatenate([part.labels for part in filled]), which)
    counts = np.zeros(labels.size, np.int64)
    np.add.at(counts, codes, np.concatenate([part.counts for part in filled]))
    return Counted(labels, counts)


def check(facts: Sequence[PartitionFacts], names: Names) -> None:
    """Raise the error that `Observations.from_frame` raises for the whole frame."""
    sizes = [part.n for part in facts]
    for side, name in enumerate(names[:2]):
        missing = _total((part.unlabelled[side] for part in facts), sizes)
        if missing.n:
            refuse_unlabelled(missing.n, sum(sizes), name, missing.line)
    not_finite = {"values": [part.values for part in facts], "weights": [part.weights for part in facts]}
    for what, parts in not_finite.items():
        invalid = _total(parts, sizes)
        if invalid.n:
            refuse_not_finite(invalid.n, sum(sizes), what, invalid.first, invalid.line)
    negative = _total((part.negative for part in facts), sizes)
    if negative.n:
        refuse_negative(negative.first, negative.line)
    if names.weight is not None and max(part.heaviest for part in facts) == 0:
        refuse_weightless()


def _invalid(mask: Array, values: Array) -> Invalid:
    if not mask.any():
        return Invalid()
    line = int(np.argmax(mask))
    return Invalid(int(mask.sum()), values[line], line)


def _total(parts: Iterable[Invalid], sizes: list[int]) -> Invalid:
    """Invalid lines of all partitions; the first is counted from the beginning of the frame."""
    starts = np.cumsum([0, *sizes])
    invalid = [part._replace(line=part.line + int(start)) for part, start in zip(parts, starts, strict=False) if part.n]
    return invalid[0]._replace(n=sum(part.n for part in invalid)) if invalid else Invalid()
