"""Pictures, tables and a page of what was learned."""

from .curves import draw_figures
from .page import write_report
from .pictures import TimePanel, time_curves
from .tables import cells, columns, comma_separated, footnotes, markdown, remarks, title_of

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
