"""Learning on a Dask cluster: the same estimator, its entries with the workers."""

from .completion import MatrixCompletion
from .entries import ClusterEntries
from .frames import read_frame, read_parquet
from .shards import read_shards

__all__ = ["ClusterEntries", "MatrixCompletion", "read_frame", "read_parquet", "read_shards"]
