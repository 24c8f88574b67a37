"""Learn a low-rank matrix from a few observed entries, under any convex loss, one rank at a time."""

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

# Names load on first use, so that `import rankwise` and the command's help do not wait for Numba.
_HOMES = {
    "Checkpoint": "solvers",
    "CheckpointError": "_errors",
    "ClusterError": "_errors",
    "DataError": "_errors",
    "LossError": "_errors",
    "MissingExtraError": "_errors",
    "ModelFileError": "_errors",
    "NotFittedError": "_errors",
    "LowRankImputer": "estimators",
    "LowRankModel": "model",
    "MatrixCompletion": "estimators",
    "MultitaskRegression": "objectives",
    "Observations": "observations",
    "PairRegressor": "estimators",
    "Problem": "objectives",
    "RankwiseError": "_errors",
    "Ridged": "objectives",
    "RobustFactorization": "estimators",
    "SettingError": "_errors",
    "ShardFileError": "_errors",
    "ShardFolder": "engines",
    "SignedLinkPredictor": "estimators",
    "fold_in": "solvers",
    "load": "model",
    "loss": "losses",
    "solve": "solvers",
    "write_shards": "storage",
}
_MODULES = ("dask", "datasets", "io", "losses", "objectives", "plots", "selection", "solvers", "spectral")

if TYPE_CHECKING:
    from . import dask, datasets, io, losses, objectives, plots, selection, solvers, spectral
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
    from .estimators import LowRankImputer, MatrixCompletion, PairRegressor, RobustFactorization, SignedLinkPredictor
    from .losses import loss
    from .model import LowRankModel, load
    from .objectives import MultitaskRegression, Problem, Ridged
    from .observations import Observations
    from .solvers import Checkpoint, fold_in, solve
    from .storage import write_shards


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in _HOMES:
        found = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _MODULES:
        found = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'rankwise' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Public names."""
    return __all__


__all__ = [
    "Checkpoint",
    "CheckpointError",
    "ClusterError",
    "DataError",
    "LossError",
    "LowRankImputer",
    "LowRankModel",
    "MatrixCompletion",
    "MissingExtraError",
    "ModelFileError",
    "MultitaskRegression",
    "NotFittedError",
    "Observations",
    "PairRegressor",
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
    "plots",
    "selection",
    "solve",
    "solvers",
    "spectral",
    "write_shards",
]
