"""Shards, the verbs they answer, and what runs them."""

from .shard import Shard
from .threads import Threads, usable_cores

__all__ = ["Shard", "Threads", "usable_cores"]
