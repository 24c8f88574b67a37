"""Shards, the verbs they answer, and what runs them."""

from .base import Answers, Engine
from .cluster import Cluster, client_of
from .disk import ShardFolder
from .factory import check_targets, engine_over
from .offsets import Offsets
from .selection import best_weight
from .shard import Shard
from .threads import Threads, usable_cores

__all__ = [
    "Answers",
    "Cluster",
    "Engine",
    "Offsets",
    "Shard",
    "ShardFolder",
    "Threads",
    "best_weight",
    "check_targets",
    "client_of",
    "engine_over",
    "usable_cores",
]
