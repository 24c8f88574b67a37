"""``rankwise similar``: the rows or columns that are most similar to given ones."""

from dataclasses import dataclass
from pathlib import Path

from ..model import load
from .formatting import to_json
from .recommend import best_of, find_labels, show
from .terminal import echo


@dataclass(frozen=True)
class SimilarOptions:
    """Arguments of the command."""

    model: Path
    labels: tuple[str, ...]
    count: int
    columns: bool
    rank: int | None
    as_json: bool


def run(options: SimilarOptions) -> None:
    """Read a model, and print the most similar rows or columns with their cosines."""
    model = load(options.model)
    index = model.col_index if options.columns else model.row_index
    labels = find_labels(index, options.labels, options.model)
    n = min(options.count, index.size)  # more would be padding
    names, cosines = model.similar(labels, n, axis=f"{index.axis}s", rank=options.rank)
    ranked = list(best_of(labels, names, cosines))
    if not options.as_json:
        show(ranked, index.axis, index.axis)
        return
    similar = [
        {"label": label, "similar": [{"label": name, "cosine": cosine} for name, cosine in best]}
        for label, best in ranked
    ]
    echo(to_json({"model": str(options.model), "axis": f"{index.axis}s", "labels": similar}))
