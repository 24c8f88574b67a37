"""Solvers: the loop, the pursuits of the paper, factor sweeps, and the methods that the paper compares with."""

from .active import ActiveSubspace
from .admm import ADMM
from .altmin import AltMin
from .base import NamedSolver, Solver
from .boosting import Boosting
from .checkpoint import Checkpoint
from .factor_sweeps import FactorSweeps
from .fixed_offsets import fit_offsets
from .folding import fold_in
from .frank_wolfe import FrankWolfe
from .geco import GECO
from .greedy import GreedyPursuit
from .history import History, Record, StepReport
from .local_search import LocalSearch
from .loop import Result, solve
from .methods import METHODS, get
from .nonsmooth import NonsmoothPursuit
from .nuclear import AISImpute, soft_impute
from .refine import Coefficients, Economic, NoRefinement
from .scaled_svd import ScaledSVD
from .scoring_rules import ScoringRule
from .stopping import Status
from .sweeps import BayesSweeps
from .validation import HAS_SIDES, IN_MEMORY, LIPSCHITZ, MOVABLE, QUADRATIC, SMOOTH, Need
from .wiberg import Wiberg

__all__ = [
    "ADMM",
    "GECO",
    "HAS_SIDES",
    "IN_MEMORY",
    "LIPSCHITZ",
    "METHODS",
    "MOVABLE",
    "QUADRATIC",
    "SMOOTH",
    "AISImpute",
    "ActiveSubspace",
    "AltMin",
    "BayesSweeps",
    "Boosting",
    "Checkpoint",
    "Coefficients",
    "Economic",
    "FactorSweeps",
    "FrankWolfe",
    "GreedyPursuit",
    "History",
    "LocalSearch",
    "NamedSolver",
    "Need",
    "NoRefinement",
    "NonsmoothPursuit",
    "Record",
    "Result",
    "ScaledSVD",
    "ScoringRule",
    "Solver",
    "Status",
    "StepReport",
    "Wiberg",
    "fit_offsets",
    "fold_in",
    "get",
    "soft_impute",
    "solve",
]
