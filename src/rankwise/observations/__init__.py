"""The observed matrix: which entries are known, and what they are."""

from .entries import Entries
from .frames import is_frame
from .observed import Observations
from .pairs import as_pairs
from .shards import Piece, TargetFacts, cut_rows, target_facts

__all__ = [
    "Entries",
    "Observations",
    "Piece",
    "TargetFacts",
    "as_pairs",
    "cut_rows",
    "is_frame",
    "target_facts",
]
