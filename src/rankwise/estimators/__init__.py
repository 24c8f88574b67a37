"""Estimators in the manner of scikit-learn: validate, build, solve, store."""

from .completion import MatrixCompletion
from .imputer import LowRankImputer
from .pairs import PairRegressor, SignedLinkPredictor
from .robust import RobustFactorization

__all__ = ["LowRankImputer", "MatrixCompletion", "PairRegressor", "RobustFactorization", "SignedLinkPredictor"]
