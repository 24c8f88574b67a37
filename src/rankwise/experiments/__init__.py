"""The paper's tables and figures: an experiment is a data file, and one runner runs them all."""

from .machine import describe_machine
from .plan import Data, Experiment, Method, Printed, Split, available, find, read
from .runner import Event, run
from .scores import SCORES, Score
from .store import Store
from .summary import Estimate, Row, Summary, summarise

__all__ = [
    "SCORES",
    "Data",
    "Estimate",
    "Event",
    "Experiment",
    "Method",
    "Printed",
    "Row",
    "Score",
    "Split",
    "Store",
    "Summary",
    "available",
    "describe_machine",
    "find",
    "read",
    "run",
    "summarise",
]
