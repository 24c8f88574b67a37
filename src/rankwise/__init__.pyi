# Public names of `rankwise`, read by type checkers and, when the package is imported, by lazy-loader.
from . import dask, datasets, io, losses, objectives, penalties, plots, selection, solvers, spectral
from ._errors import (
    CheckpointError,
    ClusterError,
    DataError,
    LossError,
    MissingExtraError,
    ModelFileError,
    NotFittedError,
    RankwiseError,
    SettingError,
    ShardFileError,
)
from .engines import ShardFolder
from .estimators import (
    NMF,
    ImplicitFactorization,
    LowRankImputer,
    MatrixCompletion,
    RobustFactorization,
    SignedLinkPredictor,
    load,
)
from .losses import loss
from .model import Everywhere, LowRankModel
from .objectives import MultitaskRegression, Problem, Ridged
from .observations import Features, Observations
from .penalties import penalty
from .solvers import Checkpoint, fold_in, solve
from .storage import write_shards

__version__: str
__all__ = [
    "Checkpoint",
    "CheckpointError",
    "ClusterError",
    "DataError",
    "Everywhere",
    "Features",
    "ImplicitFactorization",
    "LossError",
    "LowRankImputer",
    "LowRankModel",
    "MatrixCompletion",
    "MissingExtraError",
    "ModelFileError",
    "MultitaskRegression",
    "NMF",
    "NotFittedError",
    "Observations",
    "Problem",
    "RankwiseError",
    "Ridged",
    "RobustFactorization",
    "SettingError",
    "ShardFileError",
    "ShardFolder",
    "SignedLinkPredictor",
    "dask",
    "datasets",
    "fold_in",
    "io",
    "load",
    "loss",
    "losses",
    "objectives",
    "penalties",
    "penalty",
    "plots",
    "selection",
    "solve",
    "solvers",
    "spectral",
    "write_shards",
]
