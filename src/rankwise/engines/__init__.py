"""Row shards, their operations, and the engines that run these on threads, from disk and on a cluster."""

from .base import Engine, Results
from .cluster import Cluster, LinesLost, client_of
from .disk import ShardFolder
from .factory import check_targets, engine_over
from .offsets import Offsets
from .operations import Call, Join, Operation, operation, operations_of
from .shard import Shard
from .threads import ThreadPool, Threads, usable_cores
from .weighted_median import best_weight

__all__ = [
    "Call",
    "Cluster",
    "Engine",
    "Join",
    "LinesLost",
    "Offsets",
    "Operation",
    "Results",
    "Shard",
    "ShardFolder",
    "ThreadPool",
    "Threads",
    "best_weight",
    "check_targets",
    "client_of",
    "engine_over",
    "operation",
    "operations_of",
    "usable_cores",
]
