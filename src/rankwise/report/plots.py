"""Plots of a fitted model; public as `rankwise.plots`.

Every function takes an estimator or a `LowRankModel`, draws on the matplotlib Axes `ax` (by default those of a new
figure) and returns the Axes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._arrays import Array
from .._checks import check_choice, is_whole
from .._errors import NotFittedError, SettingError
from ..model import LowRankModel, known_facts
from ..model.ranking import AXES
from ..selection import Choice
from .figures import COLORS, axes_or_new, line_style, tidy, whole_ranks
from .held_out import edges_of, kind_of, match, reliability_of, residual_words, residuals_of

POINTS_PER_LABEL = 5  # points considered per label of `factor_map`


def convergence(model: Any, *, ax: Any = None) -> Any:
    """Draw the minimized value against seconds, one marker per iteration.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> axes = rw.plots.convergence(rw.MatrixCompletion(rank=4).fit(seen))
    >>> axes.get_title()
    'Convergence'
    """
    history = known_facts(model_of(model).facts).get("history")
    if not history or not history["value"]:
        raise SettingError("This model has no history: `convergence` needs the model of a fitted estimator.")
    ax = axes_or_new(ax)
    ax.plot(history["wall_seconds"], history["value"], markersize=4, **line_style(0))
    ax.set_xlim(left=0)
    return tidy(ax, "Convergence", "seconds", "value minimized (sum of losses and penalties)")


def rank_path(source: Any, *, ax: Any = None) -> Any:
    """Draw the mean validation loss against the rank, with its standard error, and mark the chosen rank.

    Parameters
    ----------
    source : estimator, LowRankModel or Choice
        Its rank was chosen on validation entries by ``rank="auto"``. A chosen ridge is drawn on a log scale.
    ax : Axes, optional

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(80, 60, rank=2, density=0.5).observations
    >>> axes = rw.plots.rank_path(rw.MatrixCompletion("square", method="eglrl").fit(seen))
    >>> axes.get_xlabel()
    'rank'
    """
    choice = choice_of(source)
    if choice is None:
        raise SettingError('No rank was chosen on held-out entries; fit a pursuit with rank="auto" to have a path.')
    by_rank = choice.settings.dtype.kind in "iu"
    name, ax = "rank" if by_rank else "ridge", axes_or_new(ax)
    ax.errorbar(choice.settings, choice.scores, choice.deviations, capsize=2, markersize=4, **line_style(0))
    ax.axvline(choice.best, color=COLORS[1], linestyle="--", linewidth=1.2, label=f"chosen: {choice.best:g}", zorder=0)
    if by_rank:
        whole_ranks(ax)
    else:
        ax.set_xscale("log")
    ax.legend(frameon=False)
    return tidy(ax, f"The {name} chosen on held-out entries", name, "mean validation loss ± standard error")


def spectrum(model: Any, *, ax: Any = None) -> Any:
    """Draw ``abs(theta)``, the size of each component, in order; for a model fitted by sweeps, the singular values.

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> axes = rw.plots.spectrum(rw.MatrixCompletion(rank=4).fit(seen))
    >>> axes.get_xlabel()
    'component'
    """
    theta = np.abs(model_of(model).theta)
    ax = axes_or_new(ax)
    ax.plot(np.arange(1, theta.size + 1), theta, markersize=4, **line_style(0))
    whole_ranks(ax)
    ax.set_ylim(bottom=0)
    return tidy(ax, "Spectrum", "component", "size, |theta| (scale of the predictions)", grid="y")


def residuals(model: Any, held_out: Any, *, ax: Any = None) -> Any:
    """Draw a histogram of residuals on the response scale, predicted minus observed.

    For targets that are signs, of margins: link-scale prediction times sign.

    Examples
    --------
    >>> import rankwise as rw
    >>> train, test = rw.selection.split_entries(rw.datasets.ratings(40, 30, rank=2, density=0.5).observations)
    >>> axes = rw.plots.residuals(rw.MatrixCompletion(rank=4).fit(train), test)
    >>> axes.get_title()
    'Residuals on held-out entries'
    """
    model = model_of(model)
    errors = residuals_of(model, match(model, held_out))
    title = "Margins on held-out entries" if kind_of(model) == "signs" else "Residuals on held-out entries"
    ax = axes_or_new(ax)
    ax.hist(errors, bins=edges_of(errors), color=COLORS[0])
    ax.axvline(0.0, color="black", linestyle="--", linewidth=1.2)
    return tidy(ax, title, residual_words(model), "entries", grid="y")


def calibration(model: Any, held_out: Any, *, ax: Any = None) -> Any:
    """Draw the observed share of +1 against its predicted probability in ten bins, annotated with their counts.

    Examples
    --------
    >>> import rankwise as rw
    >>> train, test = rw.selection.split_entries(rw.datasets.signed_network(40, 30, rank=2, density=0.5).observations)
    >>> axes = rw.plots.calibration(rw.MatrixCompletion(rank=4).fit(train), test)
    >>> axes.get_xlabel()
    'predicted probability of +1'
    """
    model = model_of(model)
    bins = reliability_of(model, match(model, held_out))
    ax = axes_or_new(ax)
    ax.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1.2, label="perfectly calibrated", zorder=0)
    ax.plot(bins.predicted, bins.observed, markersize=5, label="held-out entries (counts)", **line_style(0))
    for x, y, count in zip(*bins, strict=True):
        below = {"xytext": (4, -4), "textcoords": "offset points", "va": "top", "fontsize": "x-small"}
        ax.annotate(f"{count:,}", (x, y), **below)
    ax.legend(frameon=False, loc="upper left")
    return tidy(ax, "Calibration", "predicted probability of +1", "observed share of +1")


def factor_map(
    model: Any, axis: str = "rows", components: tuple[int, int] = (0, 1), labels: int = 10, *, ax: Any = None
) -> Any:
    """Draw the rows or the columns as points in the plane of two components, the farthest with their labels.

    A label that would overlap another one is left out, and the next farthest point is labelled instead.

    A coordinate is the factor times ``sqrt(abs(theta))``: the product of a row's and a column's coordinate is, up to
    sign, the component's contribution to the prediction on the link scale.

    Parameters
    ----------
    model : estimator or LowRankModel
    axis : {"rows", "columns"}, default="rows"
    components : pair of int, default=(0, 1)
    labels : int, default=10
        Largest number of points with a label.
    ax : Axes, optional

    Examples
    --------
    >>> import rankwise as rw
    >>> seen = rw.datasets.ratings(40, 30, rank=2, density=0.5).observations
    >>> axes = rw.plots.factor_map(rw.MatrixCompletion(rank=4).fit(seen), "columns", labels=3)
    >>> len(axes.texts)
    3
    """
    model = model_of(model)
    check_choice("axis", axis, AXES)
    wrong = [k for k in components if not is_whole(k) or not 0 <= k < model.rank]
    if wrong or len(components) != 2:
        raise SettingError(f"`components` must be two of 0 to {model.rank - 1}, got {components!r}.")
    points, names = places(model, axis)
    x, y = (points[:, k] for k in components)
    ax = axes_or_new(ax)
    ax.scatter(x, y, s=9, alpha=0.5, color=COLORS[0], linewidths=0)
    ax.margins(x=0.3 if labels else None)  # room for the names, which point away from the middle
    for line in (ax.axhline, ax.axvline):
        line(0.0, color="grey", linewidth=0.8, zorder=0)
    first, second = (f"component {k} (root of the prediction's unit)" for k in components)
    tidy(ax, f"The {axis} by two components", first, second)
    if labels:
        farthest = np.argsort(-np.hypot(x, y), kind="stable")[: POINTS_PER_LABEL * labels]
        label_points(ax, x[farthest], y[farthest], [str(names[place]) for place in farthest], labels)
    return ax


def label_points(ax: Any, x: Array, y: Array, names: Sequence[str], n: int) -> None:
    """Write the names of at most `n` of the points beside them, skipping those that would cover a name or a point.

    Each name is tried on the outer side of its point, above and below, then on the inner side, and must fit into the
    axes. Names are placed for the size that the figure has now.
    """
    ax.figure.figure.draw_without_rendering()  # settles the layout, and with it the places of the points
    spots = ax.transData.transform(np.column_stack((x, y)))
    boxes: list[Any] = []
    for place, name in enumerate(names):
        if len(boxes) == n:
            break
        style = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": "x-small", "parse_math": False}
        text = ax.annotate(name, (x[place], y[place]), **style)
        out = -3 if x[place] < 0 else 3
        for right, up in ((out, 3), (out, -3), (-out, 3), (-out, -3)):
            text.set(position=(right, up), ha="left" if right > 0 else "right", va="bottom" if up > 0 else "top")
            box = text.get_window_extent()
            fits = ax.bbox.contains(*box.p0) and ax.bbox.contains(*box.p1)
            covers = ((spots > box.p0) & (spots < box.p1)).all(axis=1).any()
            if fits and not covers and not box.count_overlaps(boxes):
                boxes.append(box.padded(1))
                break
        else:
            text.remove()


def model_of(source: Any) -> LowRankModel:
    """Return the model of a fitted estimator, or the model itself."""
    model = getattr(source, "model_", source)
    if isinstance(model, LowRankModel):
        return model
    if hasattr(source, "fit"):
        raise NotFittedError(f"This {type(source).__name__} is not fitted yet; call `fit` first.")
    raise SettingError(f"A fitted estimator or a LowRankModel is needed, got {type(source).__name__}.")


def choice_of(source: Any) -> Choice | None:
    """Validation scores by which a rank or a ridge was chosen; None if none was."""
    if isinstance(source, Choice):
        return source
    path = known_facts(model_of(source).facts).get("path")
    if not path or not path["settings"]:
        return None
    return Choice(path["best"], *(np.array(path[name]) for name in ("settings", "scores", "deviations")))


def places(model: LowRankModel, axis: str) -> tuple[Array, Array]:
    """Coordinates of all rows or columns in every component, shape (n, rank), and their labels, shape (n,)."""
    factor, index = (model.U, model.row_index) if axis == "rows" else (model.V, model.col_index)
    return factor[:, : model.rank] * np.sqrt(np.abs(model.theta)), index.names
