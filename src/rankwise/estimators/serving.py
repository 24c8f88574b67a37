"""What a fitted estimator is asked for, passed on to its model."""

from typing import Any

from numpy.typing import ArrayLike

from ..model import LowRankModel


class Serving:
    """Methods of a fitted estimator that its model answers."""

    def _fitted(self) -> LowRankModel:
        raise NotImplementedError

    def recommend(
        self,
        rows: ArrayLike,
        n: int = 10,
        *,
        exclude_seen: bool = True,
        only: ArrayLike | None = None,
        rank: int | None = None,
    ) -> tuple[Any, Any]:
        """Labels and scores of the best columns for each row; see `LowRankModel.recommend`."""
        n_jobs = getattr(self, "n_jobs", None)
        return self._fitted().recommend(rows, n, exclude_seen=exclude_seen, only=only, rank=rank, n_jobs=n_jobs)

    def similar(
        self, labels: ArrayLike, n: int = 10, *, axis: str = "rows", rank: int | None = None
    ) -> tuple[Any, Any]:
        """Labels and cosines of the rows or columns most like the given ones; see `LowRankModel.similar`."""
        return self._fitted().similar(labels, n, axis=axis, rank=rank, n_jobs=getattr(self, "n_jobs", None))

    def reconstruct(self, rank: int | None = None, max_bytes: float = 2**30, *, scale: str = "link") -> Any:
        """The whole matrix, if it is not too large; see `LowRankModel.reconstruct`."""
        return self._fitted().reconstruct(rank, max_bytes, scale=scale)
