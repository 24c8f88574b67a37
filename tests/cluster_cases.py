"""Solvers and data for tests that kill workers and clients of a cluster."""

from clusters import some_entries

from rankwise.losses import Absolute, Logistic, Square
from rankwise.solvers import BayesSweeps, GreedyPursuit, NonsmoothPursuit

SOLVERS = [
    (GreedyPursuit("economic"), Logistic()),
    (GreedyPursuit("coefficients"), Square()),
    (NonsmoothPursuit(), Absolute()),
    (BayesSweeps(), Square()),
]


def data_for(loss):
    return some_entries(signs=isinstance(loss, Logistic))
