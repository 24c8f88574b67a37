"""Shards, the verbs they answer, and what runs them."""

from .offsets import Offsets
from .selection import best_weight
from .shard import Shard
from .threads import Threads, usable_cores

__all__ = ["Offsets", "Shard", "Threads", "best_weight", "usable_cores"]
