"""Leading singular triplets of dense, sparse, low-rank and other linear operators."""

from .blocks import block_svd, widen
from .operators import LowRank, Operator, Scaled, SparsePlusLowRank, as_operator
from .oracles import ORACLES, DenseSVD, Lanczos, Oracle, PowerMethod, Triplet, get

__all__ = [
    "ORACLES",
    "DenseSVD",
    "Lanczos",
    "LowRank",
    "Operator",
    "Oracle",
    "PowerMethod",
    "Scaled",
    "SparsePlusLowRank",
    "Triplet",
    "as_operator",
    "block_svd",
    "get",
    "widen",
]
