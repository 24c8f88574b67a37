"""The estimators are what scikit-learn takes estimators for: its own checks, clone, pickle, pipelines, searches."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwise.estimators.pairs as pairs_module
from rankwise import (
    DataError,
    MatrixCompletion,
    Observations,
    PairRegressor,
    RobustFactorization,
    SignedLinkPredictor,
)
from rankwise.observations import as_pairs

MATRICES = [MatrixCompletion(rank=3, max_iter=3), RobustFactorization(rank=3)]
PAIRS = [PairRegressor(rank=3, max_iter=3), SignedLinkPredictor(rank=3, max_iter=3)]
TWO_ONLY = "the check gives X with other than two columns, and a pair has two: a row label and a column label"


@parametrize_with_checks(MATRICES)
def test_estimators_of_matrices_pass_every_check(estimator, check):
    check(estimator)
