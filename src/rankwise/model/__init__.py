"""The learned matrix: factors, the coefficients of every rank, prediction, files."""

from .factors import Factors, as_terms
from .files import load, save
from .low_rank import LowRankModel, predict
from .offsets import Offsets
from .posterior import Posterior

__all__ = ["Factors", "LowRankModel", "Offsets", "Posterior", "as_terms", "load", "predict", "save"]
