"""The observed matrix: which entries are known, and what they are."""

from .frames import is_frame
from .observed import Observations
from .shards import cut_rows

__all__ = ["Observations", "cut_rows", "is_frame"]
