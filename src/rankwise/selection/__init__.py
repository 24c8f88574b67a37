"""Splits of observed entries, scores of predictions, and choices of rank and ridge on held-out entries."""

from .metrics import auc, macro_f1, mean_absolute_error, root_mean_squared_error, sign_accuracy
from .paths import Choice, choose_rank, choose_ridge
from .scoring import Score, fitting_scores
from .significance import best_methods
from .splits import folds, split_entries

__all__ = [
    "Choice",
    "Score",
    "auc",
    "best_methods",
    "choose_rank",
    "choose_ridge",
    "fitting_scores",
    "folds",
    "macro_f1",
    "mean_absolute_error",
    "root_mean_squared_error",
    "sign_accuracy",
    "split_entries",
]
