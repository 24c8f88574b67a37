"""Estimators in the manner of scikit-learn: validate, build, solve, store."""

from .completion import MatrixCompletion

__all__ = ["MatrixCompletion"]
