"""The paper's figures: scores against CPU and wall seconds, training and testing, from the curves of a run."""

from pathlib import Path

from ..experiments import SCORES, Data, Experiment, Store
from .pictures import TimePanel, time_curves

Columns = dict[str, list[float]]


def draw_figures(experiment: Experiment, store: Store, folder: Path) -> list[Path]:
    """Write ``figureN-DATA.png`` and ``.svg`` for each data set with results; the paths written."""
    written: list[Path] = []
    for data in experiment.data:
        curves = curves_on(experiment, data, store)
        if curves:
            paths = [folder / f"{experiment.figure}-{data.name}.{kind}" for kind in ("png", "svg")]
            time_curves(_title(experiment, data), _panels(experiment, curves), paths)
            written += paths
    return written


def curves_on(experiment: Experiment, data: Data, store: Store) -> dict[str, Columns]:
    """The first split's curve of each method that has one, time-outs included, by label."""
    found = {}
    for method in experiment.methods:
        lines = store.find("fit", data.name, method.name, experiment.digest(data, method))
        curves = [line["curve"] for line in lines if line.get("curve", {}).get("cpu")]
        if curves:
            found[method.label] = curves[-1]
    return found


def _title(experiment: Experiment, data: Data) -> str:
    part = "fold" if experiment.split.kind == "folds" else "split"
    return f"{data.label}, {experiment.loss} loss, rank {data.rank}; first {part}"


def _panels(experiment: Experiment, curves: dict[str, Columns]) -> list[list[TimePanel]]:
    """Training above testing, CPU beside wall seconds."""
    score = SCORES[experiment.scores[0]].label
    return [
        [
            TimePanel(side, f"{clock.upper() if clock == 'cpu' else clock} seconds", score, _lines(curves, clock, side))
            for clock in ("cpu", "wall")
        ]
        for side in ("training", "testing")
    ]


def _lines(curves: dict[str, Columns], clock: str, side: str) -> dict[str, tuple[list[float], list[float]]]:
    return {method: (columns[clock], columns[side]) for method, columns in curves.items()}
