"""Splits and folds of the observed entries, and the scores that compare predictions with targets."""

from .metrics import auc, macro_f1, mean_absolute_error, root_mean_squared_error, sign_accuracy
from .splits import folds, split_entries

__all__ = [
    "auc",
    "folds",
    "macro_f1",
    "mean_absolute_error",
    "root_mean_squared_error",
    "sign_accuracy",
    "split_entries",
]
