"""Options that several commands share.

The names of methods, losses and decodings are written out, so that help and completion import nothing heavy; tests
compare them with the registries.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

METHOD_CHOICES = (
    *("bayes", "factors", "r1mp", "r1mp-economic", "glrl", "eglrl", "glrl-none", "glrl-nonsmooth"),
    *("ais-impute", "soft-impute", "altmin", "admm", "wiberg", "geco", "local-search"),
    *("boosting", "active-subspace", "frank-wolfe", "scaled-svd"),
)
LOSS_CHOICES = (
    *("square", "logistic", "bernoulli", "huber", "squared-hinge", "smooth-hinge", "poisson"),
    *("l1", "quantile", "hinge", "epsilon-insensitive"),
    *("ordinal", "ordinal-hinge", "proportional-odds"),
)
AUTO_LOSSES = ("huber", "logistic", "bernoulli")  # those that "auto" chooses from for the default method
ORDINAL = ("ordinal", "ordinal-hinge", "proportional-odds")  # losses whose parameter is the number of levels
PARAMETRIC = ("huber", "quantile", "epsilon-insensitive", *ORDINAL)  # losses with a parameter
DECODING_CHOICES = ("clip", "round", "mean", "median", "class", "probability")
OFFSET_CHOICES = ("auto", "both", "rows", "columns", "global", "none")

FILE = click.Path(path_type=Path)
Command = Callable[..., Any]


class LossType(click.ParamType):
    """Name of a loss, with its parameter after a colon: `huber:0.5`."""

    name = "loss"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the pair (name, parameter or None)."""
        if isinstance(value, tuple):
            return value
        name, colon, number = value.partition(":")
        if name not in ("auto", *LOSS_CHOICES):
            self.fail(f"{name!r} is not one of {', '.join(map(repr, ('auto', *LOSS_CHOICES)))}.", param, ctx)
        if not colon:
            return name, None
        if name not in PARAMETRIC:
            self.fail(f"{name} takes no number; {', '.join(PARAMETRIC)} do, as in huber:0.5.", param, ctx)
        return name, (click.INT if name in ORDINAL else click.FLOAT).convert(number, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that start with `incomplete`."""
        names = (name for name in ("auto", *LOSS_CHOICES) if name.startswith(incomplete))
        return [CompletionItem(name) for name in names]


class RankType(click.ParamType):
    """A positive integer, or `auto`."""

    name = "rank"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the integer, or "auto"."""
        return value if value == "auto" else click.IntRange(min=1).convert(value, param, ctx)


class HeldOutType(click.ParamType):
    """A fraction between 0 and 1, or the name of a file."""

    name = "fraction or file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a float or a path."""
        if isinstance(value, float | Path):
            return value
        try:
            fraction = float(value)
        except ValueError:
            return Path(value)
        if not 0 < fraction < 1:
            self.fail(f"{value} is not a fraction: give a number above 0 and below 1, or a file.", param, ctx)
        return fraction

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete file names."""
        return [CompletionItem(incomplete, type="file")]


def stacked(*options: Command) -> Callable[[Command], Command]:
    """Return one decorator that adds several options, listed by help in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


pair_columns = (
    click.option("--row", metavar="COLUMN", help="Column of the row labels, such as users: name, or number from 1."),
    click.option("--col", metavar="COLUMN", help="Column of the column labels, such as items: name or number."),
)
value = click.option("--value", metavar="COLUMN", help="Column of the values: name or number.")
weight = click.option("--weight", metavar="COLUMN", help="Column of the entries' weights: name or number.")
missing = click.option(
    "--missing", metavar="VALUE", type=float, help='Value that means "not observed", such as 0; skip entries with it.'
)
text_format = (
    click.option("--separator", metavar="TEXT", help="Separator of the columns: a character, '::', tab or space."),
    click.option("--header/--no-header", default=None, help="Whether the first line holds the names of the columns."),
    click.option("--encoding", default="utf-8", show_default=True, help="Text encoding, such as latin-1."),
    click.option("--skip-bad-lines", is_flag=True, help="Skip lines that cannot be read, and print their number."),
)
duplicates = click.option(
    "--duplicates",
    type=click.Choice(["error", "mean", "last"]),
    default="error",
    show_default=True,
    help="How to treat pairs that occur more than once.",
)
reading_pairs = stacked(*pair_columns, *text_format)
reading_scored = stacked(*pair_columns, value, missing, *text_format)
reading = stacked(*pair_columns, value, weight, missing, *text_format, duplicates)
clicks = stacked(
    click.option(
        "--implicit",
        is_flag=True,
        help="The lines are clicks, plays or purchases: a row and a column, without a rating. --value names a column "
        "of counts, if there is one.",
    ),
    click.option(
        "--time",
        metavar="COLUMN",
        help="With --implicit: column of times, numbers or dates; settings are chosen on the latest clicks of each row "
        "instead of random ones.",
    ),
    click.option(
        "--counts",
        type=click.Choice(["log", "linear", "ignore"]),
        default="log",
        show_default=True,
        help="With --implicit: how the number of clicks of a pair counts.",
    ),
)
checkpoints = stacked(
    click.option(
        "--checkpoint",
        metavar="FOLDER",
        type=FILE,
        help="Folder to write checkpoints to, from which an interrupted fit can be resumed.",
    ),
    click.option(
        "--checkpoint-every",
        metavar="N",
        type=click.IntRange(min=1),
        help="Write a checkpoint every N steps instead of about every 30 seconds.",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Resume from the last checkpoint in the folder, if there is one; the model is the same as without a stop.",
    ),
)
features = stacked(
    click.option(
        "--row-features",
        metavar="FILE",
        type=FILE,
        help="Table of what is known of the rows: a column of their labels, numbers, categories, lists such as A|B. "
        "Rows without entries are learned, too.",
    ),
    click.option("--col-features", metavar="FILE", type=FILE, help="Table of what is known of the columns."),
)
threads = click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Number of threads, by default all cores; results do not depend on it.",
)
rank = click.option("--rank", type=click.IntRange(min=0), help="Truncate the model to this rank.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
force = click.option("--force", is_flag=True, help="Overwrite an existing file.")
model = click.argument("model", type=FILE)
