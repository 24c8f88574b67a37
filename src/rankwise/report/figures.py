"""Figures as PNG and SVG files, and the common style of all plots. The only module that imports matplotlib."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._errors import SettingError
from .._extras import require
from .._files import replacing

# Colors of Okabe and Ito, distinct for most color-blind readers; markers distinguish lines without color.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C8C8C")
MARKERS = ("o", "s", "^", "D", "v", "P", "*", "X")
DPI, PANEL_INCHES = 150, (5.2, 4.4)


@dataclass(frozen=True)
class TimePanel:
    """Scores against time."""

    title: str
    time: str  # axis label with its unit
    score: str  # axis label with its unit
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]  # seconds and scores by method; not empty


def time_curves(title: str, panels: Sequence[Sequence[TimePanel]], paths: Sequence[str | os.PathLike[str]]) -> None:
    """Draw scores against seconds, one line per method, as PNG or SVG by the paths' endings.

    Parameters
    ----------
    title : str
    panels : rows of TimePanel, all of one length
    paths : sequence of path
        Each gets the figure in its format.
    """
    if not panels or not panels[0]:
        raise SettingError("There is nothing to draw; give at least one panel.")
    figure, grid = _figure(len(panels), len(panels[0]), 0.8)
    for line, row in zip(grid, panels, strict=True):
        for axes, panel in zip(line, row, strict=True):
            _draw_times(axes, panel)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False)
    figure.suptitle(title)
    for path in paths:
        _write(figure, Path(path))


def axes_or_new(axes: Any | None) -> Any:
    """`axes`, or if None those of a new pyplot figure, which notebooks and `pyplot.show` display."""
    if axes is not None:
        return axes
    pyplot = require("matplotlib.pyplot", "plots")
    return pyplot.subplots(figsize=PANEL_INCHES, dpi=DPI, layout="constrained")[1]


def line_style(k: int, width: float = 1.6) -> dict[str, Any]:
    """Color and marker of the k-th line."""
    return {"color": COLORS[k % len(COLORS)], "marker": MARKERS[k % len(MARKERS)], "linewidth": width}


def tidy(axes: Any, title: str, x: str, y: str, *, grid: str = "both") -> Any:
    """Set title and labels, a light grid and no frame; return the axes."""
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.grid(axis=grid, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def whole_ranks(axes: Any) -> None:
    """Place ticks at integers."""
    axes.xaxis.get_major_locator().set_params(integer=True, steps=[1, 2, 5, 10], nbins=12)


def _figure(n_rows: int, n_cols: int, tall: float = 1.0) -> tuple[Any, Any]:
    """New figure and its grid of axes; `tall` scales the height."""
    width, height = PANEL_INCHES
    size = width * n_cols, tall * height * n_rows
    figure = require("matplotlib.figure", "plots").Figure(size, DPI, layout="constrained")
    return figure, figure.subplots(n_rows, n_cols, squeeze=False)


def _draw_times(axes: Any, panel: TimePanel) -> None:
    """Draw each method's curve with a marker at its last step; seconds on a log scale."""
    for k, (method, (seconds, scores)) in enumerate(panel.curves.items()):
        axes.plot(seconds, scores, label=method, gid=f"curve-{k}", markevery=[-1], markersize=7, **line_style(k))
    axes.set_xscale("log")
    _cut_off(axes, panel)
    tidy(axes, panel.title, panel.time, panel.score)


def _cut_off(axes: Any, panel: TimePanel) -> None:
    """Limit the axis to methods that end below twice the median score; annotate where the others end."""
    ends = {method: (seconds[-1], scores[-1]) for method, (seconds, scores) in panel.curves.items()}
    usual = sorted(end for _, end in ends.values())[len(ends) // 2]
    far = {method: place for method, place in ends.items() if place[1] > 2 * usual}
    near = [score for method, (_, scores) in panel.curves.items() if method not in far for score in scores]
    if not far:
        return
    room = 0.15 * (max(near) - min(near))
    axes.set_ylim(min(near) - room, max(near) + 2 * room)
    for method, (seconds, end) in far.items():
        words = {"xytext": (0, -14), "textcoords": "offset points", "ha": "right", "fontsize": "small"}
        axes.annotate(f"{method}: {end:.3g} \N{UPWARDS ARROW}", (seconds, max(near) + 2 * room), **words)


def _write(figure: Any, path: Path) -> None:
    kind = path.suffix[1:] or "png"
    with replacing(path, "wb") as file:
        figure.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)
