"""`rankwise.dask.MatrixCompletion`: the general estimator, its entries with the workers of a cluster."""

import inspect
import os
from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from .._errors import DataError, SettingError
from ..estimators import MatrixCompletion as InMemory
from ..observations import Observations, is_frame
from ..solvers import Record
from .entries import ClusterEntries
from .frames import is_dask_frame, read_frame, read_parquet
from .shards import are_shards, read_shards


class MatrixCompletion(InMemory):
    """Learn a matrix from entries that are spread over the workers of a Dask cluster.

    The same algorithms, settings and results, to the bit, as `rankwise.MatrixCompletion` on the same entries; a worker
    that dies on the way changes nothing but the time. What needs entries in memory is refused: `calibration=`,
    rank="auto" with the pursuits, ridge="auto" with refine="factors", method="admm" and "wiberg", and `residuals()`
    without X.

    Parameters
    ----------
    client : dask.distributed.Client, optional
        By default the one that this process has made last.
    **settings
        Those of `rankwise.MatrixCompletion`; `n_jobs` is for what happens after the fit, as workers use all of their
        threads.

    Attributes
    ----------
    model_, theta_, U_, V_, offsets_, history_, status_, n_features_in_, n_iter_
        As in `rankwise.MatrixCompletion`.
    observations_ : ClusterEntries
        Sizes and labels; the workers keep the entries only if these were given to `fit`.

    Examples
    --------
    >>> import dask.dataframe as dd
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [7, 7, 9], "film": ["A", "B", "A"], "stars": [5.0, 1.0, 4.0]})
    >>> from dask.distributed import Client
    >>> import rankwise.dask
    >>> client = Client(n_workers=1, processes=False, dashboard_address="127.0.0.1:0")
    >>> estimator = rankwise.dask.MatrixCompletion(client=client, loss="square", refine="economic", rank=1)
    >>> parts = dd.from_pandas(frame, npartitions=2)
    >>> estimator.fit(parts, row="user", col="film", value="stars").predict_entries([9], ["B"]).shape
    (1,)
    >>> client.close()
    """

    def __init__(self, client: Any = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.client = client

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        row: Any = None,
        col: Any = None,
        value: Any = None,
        weight: Any = None,
        held_out: Any = None,
        callback: Callable[[Record], bool | None] | None = None,
    ) -> Any:
        """Learn from the observed entries.

        Parameters
        ----------
        X : Dask data frame, Parquet files, shard files, or ClusterEntries
            Frames and Parquet files have one line per entry. Files are given as a path of a file or a folder, or as a
            list of paths; every worker must be able to read them. Shards are those of `rankwise.write_shards`.
        y : ignored
        row, col, value : name of a column
            Where the row labels, the column labels and the observed values are.
        weight : name of a column, optional
            Weight of each entry's loss.
        held_out : data frame or Observations in memory, optional
            Entries to score after each step; as in `rankwise.MatrixCompletion`.
        callback : callable, optional
            Called with each step's `Record`; stops the fit if it returns true.
        """
        names = {"row": row, "col": col, "value": value, "weight": weight}
        if held_out is not None:
            held_out = Observations.from_any(held_out, **(names if is_frame(held_out) else {}))
        if isinstance(X, ClusterEntries):
            refuse_names(names)
            return super().fit(X, held_out=held_out, callback=callback)
        entries = self._read(X, names)
        try:
            return super().fit(entries, held_out=held_out, callback=callback)
        finally:
            entries.release()

    def _read(self, X: Any, names: dict[str, Any]) -> Any:
        if is_dask_frame(X):
            return read_frame(X, client=self.client, **names)
        paths = X if isinstance(X, list | tuple) else [X]
        if paths and all(isinstance(path, str | os.PathLike) for path in paths):
            if are_shards(X):
                refuse_names(names)
                return read_shards(X, client=self.client)
            return read_parquet(X, client=self.client, **names)
        raise DataError(
            "rankwise.dask learns from a Dask data frame, Parquet or shard files, or ClusterEntries, got "
            f"{type(X).__name__}; use rankwise.MatrixCompletion for what is in memory."
        )

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Settings, and the client."""
        return sorted([*InMemory._get_param_names(), "client"])

    def _changed(self) -> list[tuple[str, Any]]:
        """Parameters that differ from their defaults; a client's address is nobody's business."""
        return [(name, value) for name, value in super()._changed() if name != "client"]

    def __sklearn_clone__(self) -> "MatrixCompletion":
        """An estimator of the same settings on the same client, which cannot be copied."""
        settings = {name: clone(value, safe=False) for name, value in self._settings().items()}
        return type(self)(client=self.client, **settings)

    def __getstate__(self) -> dict[str, Any]:
        """All but the entries and the client."""
        return super().__getstate__() | {"client": None}

    def _settings(self) -> dict[str, Any]:
        return {name: value for name, value in self.get_params(deep=False).items() if name != "client"}


def refuse_names(names: dict[str, Any]) -> None:
    """Raise if columns are named of what has none."""
    given = [f"{use}=" for use, name in names.items() if name is not None]
    if given:
        raise SettingError(f"{given[0]} names a column of a frame or of Parquet files, and shards have none.")


_given = [*inspect.signature(InMemory.__init__).parameters.values()]
_client = inspect.Parameter("client", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
_rest = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in _given[1:]]
MatrixCompletion.__init__.__signature__ = inspect.Signature([_given[0], _client, *_rest])  # type: ignore[attr-defined]
