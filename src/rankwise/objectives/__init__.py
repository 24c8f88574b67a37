"""Objectives: losses at observed entries, multitask regression, a ridge on either, and the protocols they follow."""

from .multitask import MultitaskRegression
from .problem import Problem
from .protocol import (
    Checkpointable,
    Entrywise,
    Gradient,
    HasSides,
    Movable,
    Objective,
    PlaneRestriction,
    Rehearsable,
    Restriction,
)
from .ridge import Ridged

__all__ = [
    "Checkpointable",
    "Entrywise",
    "Gradient",
    "HasSides",
    "Movable",
    "MultitaskRegression",
    "Objective",
    "PlaneRestriction",
    "Problem",
    "Rehearsable",
    "Restriction",
    "Ridged",
]
