"""Engine whose shards are in the workers of a Dask cluster."""

from .client import Cluster, client_of

__all__ = ["Cluster", "client_of"]
