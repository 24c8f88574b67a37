"""Learn a low-rank matrix from some of its entries, under any loss, with posterior variances."""

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

# Names are imported on first use, so that `import rankwise` and `rankwise --help` do not import Numba.
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
    "Problem": "objectives",
    "RankwiseError": "_errors",
    "Ridged": "objectives",
    "RobustFactorization": "estimators",
    "SettingError": "_errors",
    "ShardFileError": "_errors",
    "ShardFolder": "engines",
    "SignedLinkPredictor": "estimators",
    "fold_in": "solvers",
    "load": "estimators",
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
    from .estimators import LowRankImputer, MatrixCompletion, RobustFactorization, SignedLinkPredictor, load
    from .losses import loss
    from .model import LowRankModel
    from .objectives import MultitaskRegression, Problem, Ridged
    from .observations import Observations
    from .solvers import Checkpoint, fold_in, solve
    from .storage import write_shards


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    elif name in _MODULES:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'rankwise' has no attribute {name!r}")
    globals()[name] = value
    return value


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
