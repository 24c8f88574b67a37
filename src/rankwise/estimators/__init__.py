"""Estimators with the interface of scikit-learn."""

from .base import load
from .completion import MatrixCompletion
from .implicit import ImplicitFactorization
from .imputer import LowRankImputer
from .links import SignedLinkPredictor
from .nmf import NMF
from .robust import RobustFactorization

__all__ = [
    "NMF",
    "ImplicitFactorization",
    "LowRankImputer",
    "MatrixCompletion",
    "RobustFactorization",
    "SignedLinkPredictor",
    "load",
]
