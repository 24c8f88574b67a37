"""Observed entries on the workers of a Dask cluster, for the same estimators and objectives as entries in memory."""

from .entries import ClusterEntries
from .frames import read_frame, read_parquet
from .shards import read_shards

__all__ = ["ClusterEntries", "read_frame", "read_parquet", "read_shards"]
