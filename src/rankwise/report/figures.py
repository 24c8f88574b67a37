"""Figures as PNG and SVG files, and the common style of all plots. The only module that imports matplotlib."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
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


Panels = Sequence[Sequence[TimePanel]]
Paths = Sequence[str | os.PathLike[str]]


def time_curves(title: str, panels: Panels, paths: Paths) -> None:
    """Draw scores against seconds, one line per method, as PNG or SVG by the paths' endings.

    Parameters
    ----------
    title : str
    panels : rows of TimePanel, all of one length
    paths : sequence of path
        Each gets the figure in its format.
    """
    _draw(title, panels, paths, _draw_times)


def times_to_scores(title: str, panels: Panels, paths: Paths, higher: bool) -> None:
    """Draw the seconds until each score is reached for the first time, one line per method; better scores to the right.

    Scores that are much worse than the last ones of all methods are cut off.

    Parameters
    ----------
    title : str
    panels : rows of TimePanel, all of one length
    paths : sequence of path
        Each gets the figure in its format.
    higher : bool
        Whether higher scores are better.
    """
    _draw(title, panels, paths, lambda axes, panel: _draw_scores(axes, panel, higher))


def _draw(title: str, panels: Panels, paths: Paths, draw: Callable[[Any, TimePanel], None]) -> None:
    """Draw each panel by `draw`, with one legend below all of them, and write the files."""
    if not panels or not panels[0]:
        raise SettingError("There is nothing to draw; give at least one panel.")
    figure, grid = _figure(len(panels), len(panels[0]), 0.8)
    for line, row in zip(grid, panels, strict=True):
        for axes, panel in zip(line, row, strict=True):
            draw(axes, panel)
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
    """Color, marker and dashes of the k-th line."""
    style = {"color": COLORS[k % len(COLORS)], "marker": MARKERS[k % len(MARKERS)], "linewidth": width}
    return style | {"linestyle": "-" if k < len(COLORS) else "--"}


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


def _draw_scores(axes: Any, panel: TimePanel, higher: bool) -> None:
    """Draw the seconds until each score was reached, as steps that end at each method's best score."""
    better = max if higher else min
    ends = sorted(better(scores) for _, scores in panel.curves.values())
    near = [end for end in ends if higher or end <= 2 * ends[len(ends) // 2]]
    room = 0.25 * (near[-1] - near[0]) or 0.01 * abs(near[0]) or 1.0
    worst = near[0] - room if higher else near[-1] + room
    for k, (method, (seconds, scores)) in enumerate(panel.curves.items()):
        bests = list(accumulate(scores, better))
        steps = {"drawstyle": "steps-pre", "label": method, "gid": f"curve-{k}", "markevery": [-1], "markersize": 7}
        new = [j for j, best in enumerate(bests) if j == 0 or best != bests[j - 1]]
        axes.plot([bests[j] for j in new], [seconds[j] for j in new], **steps, **line_style(k))
    axes.set_yscale("log")
    axes.set_xlim(worst, better(near) - (worst - better(near)) * 0.03)
    tidy(axes, panel.title, panel.score, panel.time)


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
