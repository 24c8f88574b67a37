"""Splits of observed entries, scores of predictions, and choices of rank and ridge on held-out entries."""

from .metrics import auc, macro_f1, mean_absolute_error, root_mean_squared_error, sign_accuracy
from .paths import Choice, choose_rank, choose_ridge
from .ranking import RankingScores, most_popular, ranking_scores
from .scoring import Score, fitting_scores
from .significance import best_methods
from .splits import folds, split_entries, split_rows, split_within_rows

__all__ = [
    "Choice",
    "RankingScores",
    "Score",
    "auc",
    "best_methods",
    "choose_rank",
    "choose_ridge",
    "fitting_scores",
    "folds",
    "macro_f1",
    "mean_absolute_error",
    "most_popular",
    "ranking_scores",
    "root_mean_squared_error",
    "sign_accuracy",
    "split_entries",
    "split_rows",
    "split_within_rows",
]
