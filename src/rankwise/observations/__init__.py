"""The observed matrix: which entries are known, and what they are."""

from .observed import Observations
from .shards import cut_rows

__all__ = ["Observations", "cut_rows"]
