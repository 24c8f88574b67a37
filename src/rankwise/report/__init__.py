"""HTML report and plots of a fitted model; tables and figures of an experiment."""

from .experiment_results import (
    cells,
    columns,
    comma_separated,
    draw_figures,
    footnotes,
    markdown,
    remarks,
    title_of,
)
from .figures import TimePanel, time_curves
from .page import write_report

__all__ = [
    "TimePanel",
    "cells",
    "columns",
    "comma_separated",
    "draw_figures",
    "footnotes",
    "markdown",
    "remarks",
    "time_curves",
    "title_of",
    "write_report",
]
