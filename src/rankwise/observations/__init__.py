"""The observed matrix: which entries are known, and what they are."""

from .frames import is_frame
from .observed import Observations
from .pairs import as_pairs
from .shards import cut_rows

__all__ = ["Observations", "as_pairs", "cut_rows", "is_frame"]
