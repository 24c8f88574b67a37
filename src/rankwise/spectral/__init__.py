"""Top singular pairs of anything that has products: dense, sparse, low-rank, sparse plus low-rank, our gradients."""

from .blocks import block_svd, widen
from .operators import LowRank, SparsePlusLowRank
from .oracles import BY_NAME, DenseSVD, Lanczos, Oracle, PowerMethod, Triplet, get

__all__ = [
    "BY_NAME",
    "DenseSVD",
    "Lanczos",
    "LowRank",
    "Oracle",
    "PowerMethod",
    "SparsePlusLowRank",
    "Triplet",
    "block_svd",
    "get",
    "widen",
]
