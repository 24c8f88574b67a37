"""Solvers: one loop and one clock for all; the greedy pursuits of the paper."""

from .admm import ADMM
from .altmin import AltMin
from .base import Solver
from .checkpoint import Checkpoint
from .geco import GECO
from .greedy import GreedyPursuit
from .history import History, Record
from .loop import Result, solve
from .methods import METHODS, get
from .nonsmooth import NonsmoothPursuit
from .nuclear import AISImpute, soft_impute
from .refine import Coefficients, Economic, NoRefinement
from .stopping import Status
from .sweeps import BayesSweeps, FactorSweeps, fit_offsets
from .wiberg import Wiberg

__all__ = [
    "ADMM",
    "GECO",
    "METHODS",
    "AISImpute",
    "AltMin",
    "BayesSweeps",
    "Checkpoint",
    "Coefficients",
    "Economic",
    "FactorSweeps",
    "GreedyPursuit",
    "History",
    "NoRefinement",
    "NonsmoothPursuit",
    "Record",
    "Result",
    "Solver",
    "Status",
    "Wiberg",
    "fit_offsets",
    "get",
    "soft_impute",
    "solve",
]
