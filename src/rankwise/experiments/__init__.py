"""The paper's tables and figures: experiments described by TOML files, and one runner for all of them."""

from .plan import Data, Experiment, Method, Printed, Split, available, find, read
from .runner import Event, describe_machine, run
from .scores import SCORES, TableScore
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
    "Split",
    "Store",
    "Summary",
    "TableScore",
    "available",
    "describe_machine",
    "find",
    "read",
    "run",
    "summarise",
]
