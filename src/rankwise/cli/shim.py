"""AT MERGE: delete this file. It gives today's library the interface of issue 31, which the commands are written to.

Replace ``from .shim import ...`` in ``fit.py`` and ``methods.py`` by ``from ..estimators import MatrixCompletion`` and
``from ..solvers import METHODS, Checkpoint``; `check_folder` by whatever opens a `Checkpoint` before the work.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import estimators, solvers
from ..solvers import checkpoint as checkpoints

REFINEMENTS = {"bayes": "bayes", "factors": "factors", "glrl": "coefficients", "eglrl": "economic", "glrl-none": "none"}
METHODS = {name.replace("rankwise", "bayes"): entry for name, entry in solvers.METHODS.items()}


@dataclass(frozen=True)
class Checkpoint:
    """Stand-in for `rankwise.Checkpoint`."""

    folder: Path
    every: int | None = None
    resume: bool = False


def check_folder(checkpoint: Checkpoint | None) -> None:
    """Raise if checkpoints cannot be written to the folder."""
    if checkpoint is not None:
        checkpoints.check_folder(checkpoint.folder, checkpoint.every, checkpoint.resume)


def MatrixCompletion(
    loss: Any, rank: Any, *, method: str, offsets: str, checkpoint: Checkpoint | None, **settings: Any
) -> estimators.MatrixCompletion:
    """Stand-in for `rankwise.MatrixCompletion`."""
    if method in ("bayes", "factors") or offsets != "auto":
        settings |= {"refine": REFINEMENTS[method], "offsets": offsets}
    else:
        settings |= {"method": method}
    if checkpoint is not None:
        settings |= {"checkpoint": checkpoint.folder, "checkpoint_every": checkpoint.every, "resume": checkpoint.resume}
    return estimators.MatrixCompletion(loss, rank, **settings)


def get(method: str, objective: Any) -> Any:
    """Stand-in for `rankwise.solvers.get`."""
    return solvers.get("rankwise" if method == "bayes" else method, objective)
