"""The learned matrix: factors, the coefficients of every rank, prediction, files."""

from ..engines import Offsets
from .factors import Factors, as_terms
from .files import load, save
from .learned import Learned, LearnedSide
from .low_rank import LowRankModel, Seen, predict
from .posterior import Posterior

__all__ = [
    "Factors",
    "Learned",
    "LearnedSide",
    "LowRankModel",
    "Offsets",
    "Posterior",
    "Seen",
    "as_terms",
    "load",
    "predict",
    "save",
]
