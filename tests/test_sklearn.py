"""The estimators are what scikit-learn takes estimators for: its own checks, clone, pickle, pipelines, searches."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from rankwise import (
    MatrixCompletion,
    PairRegressor,
    RobustFactorization,
    SignedLinkPredictor,
)

MATRICES = [MatrixCompletion(rank=3, max_iter=3), RobustFactorization(rank=3)]
PAIRS = [PairRegressor(rank=3, max_iter=3), SignedLinkPredictor(rank=3, max_iter=3)]
TWO_ONLY = "the check gives X with other than two columns, and a pair has two: a row label and a column label"


@parametrize_with_checks(MATRICES)
def test_estimators_of_matrices_pass_every_check(estimator, check):
    check(estimator)
