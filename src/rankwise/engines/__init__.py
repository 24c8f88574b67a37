"""Shards, the verbs they answer, and what runs them."""

from .selection import best_weight
from .shard import Shard
from .threads import Threads, usable_cores

__all__ = ["Shard", "Threads", "best_weight", "usable_cores"]
