"""Engine whose shards are in the workers of a Dask cluster."""

from .client import Cluster
from .distributed import client_of
from .kept import LinesLost

__all__ = ["Cluster", "LinesLost", "client_of"]
