"""What the observed entries of a matrix are to those who only need them shard by shard, wherever they are."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .observed import Observations
from .shards import TargetFacts


class Entries(Protocol):
    """Observed entries that are not in this process's memory: on disk, or with the workers of a cluster.

    `Observations` have the same members but `engine` and `sample`; a `Problem` takes either. Entries of weight zero are
    left out beforehand.
    """

    shape: tuple[int, int]
    row_labels: NDArray[Any] | None
    col_labels: NDArray[Any] | None
    weights: Any  # None if no entry has a weight
    n_observed: int
    total_weight: float
    heaviest: float

    def engine(self, loss: Any, dtype: np.dtype[Any], n_jobs: int | None) -> Any:
        """What runs verbs on the shards of these entries."""
        ...

    def cuts(self) -> NDArray[np.int64]:
        """Row numbers at which the shards begin, and the number of rows; as `cut_rows` has it."""
        ...

    def weighted(self) -> "Entries":
        """These entries, which all have a positive weight."""
        ...

    def row_weights(self) -> NDArray[np.float64]:
        """Sum of the weights of every row's entries; their number if there are no weights."""
        ...

    def target_facts(self) -> TargetFacts:
        """What a loss is chosen by."""
        ...

    def few_targets(self, n: int) -> NDArray[Any]:
        """About `n` targets, from all over the matrix."""
        ...

    def sample(self, n: int) -> Observations:
        """Every k-th entry, at most `n` of them, in memory."""
        ...

    def transposed(self) -> "Entries":
        """The same entries with rows and columns exchanged."""
        ...
