"""Estimators in the manner of scikit-learn: validate, build, solve, store."""

from .completion import MatrixCompletion
from .robust import RobustFactorization

__all__ = ["MatrixCompletion", "RobustFactorization"]
