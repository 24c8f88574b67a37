"""Solvers: one loop and one clock for all; the greedy pursuits of the paper."""

from .greedy import GreedyPursuit
from .history import History, Record
from .loop import Result, Status, solve
from .methods import METHODS, get
from .nonsmooth import NonsmoothPursuit
from .refine import Coefficients, Economic, NoRefinement

__all__ = [
    "METHODS",
    "Coefficients",
    "Economic",
    "GreedyPursuit",
    "History",
    "NoRefinement",
    "NonsmoothPursuit",
    "Record",
    "Result",
    "Status",
    "get",
    "solve",
]
