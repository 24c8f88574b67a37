"""Interface of observed entries that are not in this process's memory."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Array
from .labels import Labelled
from .shards import TargetFacts

if TYPE_CHECKING:
    from .observed import Observations


class Entries(Labelled, ABC):
    """Observed entries on disk, or in the workers of a cluster, without entries of weight zero.

    `Observations` have these members too, apart from `engine` and `sample`; a `Problem` takes either.
    """

    weights: Any  # None if no entry has a weight
    n_observed: int
    total_weight: float  # sum of the weights; the number of entries if there are none
    heaviest: float  # largest weight

    @abstractmethod
    def engine(self, loss: Any, dtype: np.dtype[Any], n_jobs: int | None) -> Any:
        """Return an engine that runs operations on the shards of these entries."""

    @abstractmethod
    def cuts(self) -> NDArray[np.int64]:
        """Return the first row of every shard, and the number of rows; see `cut_rows`."""

    def weighted(self) -> "Entries":
        """Return these entries, which all have a positive weight."""
        return self

    @abstractmethod
    def row_weights(self) -> NDArray[np.float64]:
        """Return the sum of the weights of every row's entries; their number if there are no weights."""

    @abstractmethod
    def target_facts(self) -> TargetFacts:
        """Return facts about the targets, by which a loss is chosen."""

    @abstractmethod
    def few_targets(self, n: int) -> Array:
        """Return about `n` targets, from all over the matrix."""

    @abstractmethod
    def sample(self, n: int) -> "Observations":
        """Return every k-th entry, at most `n` of them, in memory."""

    @abstractmethod
    def transposed(self) -> "Entries":
        """Return the entries with rows and columns exchanged."""
