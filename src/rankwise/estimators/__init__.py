"""Estimators with the interface of scikit-learn."""

from .base import load
from .completion import MatrixCompletion
from .imputer import LowRankImputer
from .links import SignedLinkPredictor
from .robust import RobustFactorization

__all__ = ["LowRankImputer", "MatrixCompletion", "RobustFactorization", "SignedLinkPredictor", "load"]
