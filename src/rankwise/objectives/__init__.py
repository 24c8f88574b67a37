"""What a pursuit minimises: entrywise losses on shards, multitask regression, and a ridge on either."""

from .multitask import MultitaskRegression
from .problem import Problem
from .protocol import Gradient, Objective, PlaneRestriction, Restriction
from .ridge import Ridged

__all__ = ["Gradient", "MultitaskRegression", "Objective", "PlaneRestriction", "Problem", "Restriction", "Ridged"]
