"""Observed entries on the workers of a Dask cluster, for the same estimators and objectives as entries in memory."""

from .entries import ClusterEntries, read_shards
from .frames import read_frame, read_parquet

__all__ = ["ClusterEntries", "read_frame", "read_parquet", "read_shards"]
