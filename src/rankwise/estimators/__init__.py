"""Estimators in the manner of scikit-learn: validate, build, solve, store."""

from .completion import MatrixCompletion
from .pairs import PairRegressor, SignedLinkPredictor
from .robust import RobustFactorization

__all__ = ["MatrixCompletion", "PairRegressor", "RobustFactorization", "SignedLinkPredictor"]
