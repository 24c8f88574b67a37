"""Options that several commands share. The names are written out, so that help and completion load nothing heavy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

METHODS = (
    *("bayes", "factors", "r1mp", "r1mp-economic", "glrl", "eglrl", "glrl-none", "glrl-nonsmooth"),
    *("ais-impute", "soft-impute", "altmin", "admm", "wiberg", "geco"),
)
LOSSES = (
    *("square", "logistic", "huber", "squared-hinge", "smooth-hinge", "poisson"),
    *("l1", "quantile", "hinge", "epsilon-insensitive"),
    *("ordinal", "ordinal-hinge", "proportional-odds"),
)
LEVELS = ("ordinal", "ordinal-hinge", "proportional-odds")  # losses whose number is that of their levels
TUNED = ("huber", "quantile", "epsilon-insensitive", *LEVELS)  # losses that have a number
DECODINGS = ("clip", "round", "mean", "median", "class", "probability")
REFINEMENTS = ("bayes", "factors", "coefficients", "economic", "none")
OFFSETS = ("auto", "both", "rows", "columns", "global", "none")

FILE = click.Path(path_type=Path)
Command = Callable[..., Any]


class Loss(click.ParamType):
    """A loss by name, with its number after a colon: `huber:0.5`."""

    name = "loss"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Name, and number if there is one."""
        if isinstance(value, tuple):
            return value
        name, colon, number = value.partition(":")
        if name not in ("auto", *LOSSES):
            self.fail(f"{name!r} is not one of auto, {', '.join(LOSSES)}.", param, ctx)
        if not colon:
            return name, None
        if name not in TUNED:
            self.fail(f"{name} takes no number; {', '.join(TUNED)} do, as in huber:0.5.", param, ctx)
        return name, (click.INT if name in LEVELS else click.FLOAT).convert(number, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Names that begin like this."""
        names = (name for name in ("auto", *LOSSES) if name.startswith(incomplete))
        return [click.shell_completion.CompletionItem(name) for name in names]


class Rank(click.ParamType):
    """A positive number, or `auto`."""

    name = "rank"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or "auto"."""
        return value if value == "auto" else click.IntRange(min=1).convert(value, param, ctx)


class HeldOut(click.ParamType):
    """A share between 0 and 1, or the name of a file."""

    name = "share or file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A float or a path."""
        if isinstance(value, float | Path):
            return value
        try:
            share = float(value)
        except ValueError:
            return Path(value)
        if not 0 < share < 1:
            self.fail(f"{value} is not a share: give a number above 0 and below 1, or a file.", param, ctx)
        return share

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        """Files."""
        return [click.shell_completion.CompletionItem(incomplete, type="file")]


def stacked(*options: Command) -> Callable[[Command], Command]:
    """One decorator from several, in the order in which help shall show them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


pair_columns = (
    click.option(
        "--row",
        metavar="COLUMN",
        help="Where the row labels are, such as users: a column's name, or its number from 1.",
    ),
    click.option("--col", metavar="COLUMN", help="Where the column labels are, such as items; name or number."),
)
value = click.option("--value", metavar="COLUMN", help="Where the values are; name or number.")
weight = click.option(
    "--weight", metavar="COLUMN", help="Where weights are, if entries shall weigh differently; name or number."
)
style = (
    click.option("--separator", metavar="TEXT", help="What separates the columns: a character, '::', tab or space."),
    click.option("--header/--no-header", default=None, help="Whether the first line names the columns."),
    click.option("--encoding", default="utf-8", show_default=True, help="Such as latin-1, for older files."),
    click.option("--skip-bad-lines", is_flag=True, help="Leave out lines that cannot be read, and say how many."),
)
duplicates = click.option(
    "--duplicates",
    type=click.Choice(["error", "mean", "last"]),
    default="error",
    show_default=True,
    help="What to do with a pair that comes more than once.",
)
reading_pairs = stacked(*pair_columns, *style)
reading_scored = stacked(*pair_columns, value, *style)
reading = stacked(*pair_columns, value, weight, *style, duplicates)
threads = click.option(
    "--threads", type=click.IntRange(min=1), help="All usable cores by default. Results do not depend on it."
)
rank = click.option("--rank", type=click.IntRange(min=0), help="Use this rank of the model instead of its own.")
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output, for programs.")
force = click.option("--force", is_flag=True, help="Write over a file that is there.")
model = click.argument("model", type=FILE)
