"""The commands that make and use models, as declared; what they do loads when they run."""

from pathlib import Path
from typing import Any

import click

from . import options


def example(*commands: str) -> str:
    """Commands to try, as the last lines of a help text."""
    return "\n".join(("\b", "Try:", *(f"  {command}" for command in commands)))


@click.command(
    short_help="Learn a model from a file of entries.",
    epilog=example("rankwise fit ratings.csv -o ratings.rankwise --held-out 0.1"),
)
@click.argument("file", type=options.FILE)
@click.option(
    "-o",
    "--output",
    metavar="MODEL",
    type=options.FILE,
    help="Where the model goes; by default FILE's name with .rankwise.",
)
@options.reading
@click.option(
    "--loss",
    type=options.Loss(),
    default="auto",
    show_default=True,
    help="See `rankwise methods`; with a number as in huber:0.5. auto: logistic for values of -1 and +1, else robust.",
)
@click.option(
    "--rank",
    type=options.Rank(),
    default="auto",
    show_default=True,
    help="The largest rank; auto lets the data decide.",
)
@click.option(
    "--method",
    type=click.Choice(options.METHODS),
    metavar="NAME",
    help="A method of `rankwise methods`, instead of --refine and --offsets.",
)
@click.option(
    "--refine",
    type=click.Choice(options.REFINEMENTS),
    help="What is refitted when the rank grows; bayes unless you say otherwise.",
)
@click.option(
    "--offsets",
    type=click.Choice(options.OFFSETS),
    help="What is added to every prediction; auto is both for bayes and factors, and none for the others.",
)
@click.option("--max-iter", type=click.IntRange(min=1), help="Stop after this many steps.")
@click.option(
    "--time-limit",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop after the step that passes this time, and keep the model.",
)
@click.option(
    "--checkpoint",
    metavar="FOLDER",
    type=options.FILE,
    help="Write checkpoints to this folder, so that a fit that is killed can go on.",
)
@click.option(
    "--every",
    metavar="STEPS",
    type=click.IntRange(min=1),
    help="Steps between two checkpoints; by default one is written every half minute or so.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Go on from the last checkpoint in the folder, if there is one, to the same model as if never stopped.",
)
@click.option(
    "--held-out",
    type=options.HeldOut(),
    help="Share of the entries to hold out and score, such as 0.1, or a file of such entries.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of all that is random.")
@options.threads
@click.option(
    "--memory-limit", metavar="SIZE", help="Of what shards from disk may take at a time, such as 1GB; for folders only."
)
@click.option("--no-labels", is_flag=True, help="Leave the names of rows and columns out of the model's file.")
@click.option("--no-seen", is_flag=True, help="Leave out which entries were seen; recommend then cannot skip them.")
@options.force
@options.as_json
def fit(**given: Any) -> None:
    """Learn a model from FILE, a table with a row, a column and a value in each line, or a folder of shards.

    FILE is CSV, TSV, or text separated in another way, with or without a header, also packed (.gz, .bz2, .xz); Parquet
    or Matrix Market. What you do not say about it is guessed, and told. A folder that `rankwise shards` has made is
    streamed from disk, whatever its size.

    Ctrl-C stops after the running step and keeps the model so far. Before the first step is done, or pressed twice, it
    stops at once and keeps nothing but checkpoints, if you asked for them.

    With --checkpoint FOLDER --resume the same command can be given again until it ends: it begins, or goes on.
    """
    from .fit import Settings, run

    run(Settings(**given))


@click.command(
    short_help="Predict the values of pairs.",
    epilog=example("rankwise predict ratings.rankwise pairs.csv -o predictions.csv"),
)
@options.model
@click.argument("pairs", type=options.FILE)
@click.option(
    "-o", "--output", metavar="CSV", type=options.FILE, help="Where the predictions go; standard output by default."
)
@options.reading_pairs
@options.rank
@click.option(
    "--scale",
    type=click.Choice(["response", "link"]),
    default="response",
    show_default=True,
    help="response: probabilities of +1 for logistic models, counts for Poisson's; link: log-odds, log counts.",
)
@click.option(
    "--decode",
    type=click.Choice(options.DECODINGS),
    help="In the form that a score asks for: clip to the values' range, round to their grid, median for the MAE, ...",
)
@click.option(
    "--unknown",
    type=click.Choice(["error", "offset"]),
    default="error",
    show_default=True,
    help="Rows and columns that the model has never seen: refused, or predicted by the offsets alone.",
)
@options.force
def predict(**given: Any) -> None:
    """Predict the values of PAIRS, a table with a row and a column in each line.

    Writes a CSV with the header row,column,prediction, in the order of PAIRS.
    """
    from .predict import Settings, run

    run(Settings(**given))


@click.command(
    short_help="Show the best columns of rows.",
    epilog=example(
        "rankwise recommend ratings.rankwise alice bob -n 5",
        "rankwise recommend ratings.rankwise --all -o recommendations.csv",
    ),
)
@options.model
@click.argument("rows", nargs=-1)
@click.option("-n", "--count", type=click.IntRange(min=1), default=10, show_default=True, help="Columns for each row.")
@click.option("--include-seen", is_flag=True, help="Also columns that the row had when the model was fitted.")
@options.rank
@click.option("--all", "every", is_flag=True, help="For all rows.")
@click.option(
    "-o", "--output", metavar="CSV", type=options.FILE, help="Write a CSV with the header row,place,column,score."
)
@options.force
@options.as_json
def recommend(**given: Any) -> None:
    """Show the columns with the highest predictions for each of ROWS."""
    from .recommend import Settings, run

    run(Settings(**given))


@click.command(
    short_help="Score a model on held-out entries.", epilog=example("rankwise evaluate ratings.rankwise held_out.csv")
)
@options.model
@click.argument("held_out", type=options.FILE)
@options.reading_scored
@options.rank
@click.option(
    "--unknown",
    type=click.Choice(["skip", "offset", "error"]),
    default="skip",
    show_default=True,
    help="Entries whose row or column the model has never seen: left out, predicted by the offsets, or refused.",
)
@options.as_json
def evaluate(**given: Any) -> None:
    """Score a model on HELD_OUT, a table of entries that it has not learned from."""
    from .evaluate import Settings, run

    run(Settings(**given))


@click.command(short_help="Say what a model is and what its file reveals.")
@options.model
@options.as_json
def info(model: Path, as_json: bool) -> None:
    """Say what a model is: what was fitted, on what, how well, and what its file reveals."""
    from .info import run

    run(model, as_json)


@click.command(
    short_help="Write a page to look at: scores, components, recommendations.",
    epilog=example("rankwise report ratings.rankwise --data held_out.csv -o report.html"),
)
@options.model
@click.option("--data", metavar="HELD_OUT", type=options.FILE, help="Entries not learned from, to score the model on.")
@click.option("-o", "--output", metavar="HTML", type=options.FILE, help="By default MODEL's name with .html.")
@options.reading_scored
@options.duplicates
@click.option("--no-labels", is_flag=True, help="Show rows and columns by number and leave their names out.")
@options.force
def report(**given: Any) -> None:
    """Write a page about a model: how well it does at any rank, what it learned, and recommendations."""
    from .report import Settings, run

    run(Settings(**given))


@click.command(
    short_help="Cut a file that is larger than memory into shards.",
    epilog=example("rankwise shards ratings.parquet -o ratings", "rankwise fit ratings -o ratings.rankwise"),
)
@click.argument("file", type=options.FILE)
@click.option(
    "-o", "--output", metavar="FOLDER", type=options.FILE, required=True, help="Where the shards go; made by this."
)
@options.reading
def shards(**given: Any) -> None:
    """Cut FILE into shards, which `rankwise fit FOLDER` learns from without holding them in memory.

    FILE is text as `rankwise fit` reads it, a Parquet file, or a folder of Parquet files. It is read in a stream:
    beside the labels, memory for one shard is enough. On disk, three times the space of the shards is needed on the
    way. A fit from shards gives the same model, bit for bit, as a fit from the file.
    """
    from .shards import Settings, run

    run(Settings(**given))


COMMANDS = (fit, predict, recommend, evaluate, info, report, shards)
