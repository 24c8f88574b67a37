"""Observed entries of a matrix: construction, validation, labels, shards."""

from .encoding import FeatureEncoder, FeatureTable
from .entries import Entries
from .features import Features
from .frames import is_frame, without_streams
from .labels import LabelIndex
from .memory import need_in_memory
from .observed import AnyEntries, Observations
from .pairs import as_pairs
from .shards import Piece, TargetFacts, cut_rows, target_facts

__all__ = [
    "AnyEntries",
    "Entries",
    "FeatureEncoder",
    "FeatureTable",
    "Features",
    "LabelIndex",
    "Observations",
    "Piece",
    "TargetFacts",
    "as_pairs",
    "cut_rows",
    "is_frame",
    "need_in_memory",
    "target_facts",
    "without_streams",
]
