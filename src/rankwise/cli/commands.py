"""Declarations of the commands; each imports the module that implements it when it runs."""

from pathlib import Path
from typing import Any

import click

from . import options
from .data import data


def example(*commands: str) -> str:
    """Return the epilog of a help text: commands to try."""
    return "\n".join(("\b", "Try:", *(f"  {command}" for command in commands)))


@click.command(
    short_help="Fit a model to a file of entries.",
    epilog=example(
        "rankwise fit ratings.csv -o ratings.rankwise --held-out 0.1",
        "rankwise fit clicks.csv --implicit --time timestamp --held-out 0.1",
    ),
)
@click.argument("file", type=options.FILE)
@click.option(
    "-o",
    "--output",
    metavar="MODEL",
    type=options.FILE,
    help="File to write the model to, by default FILE with the extension .rankwise.",
)
@options.reading
@options.clicks
@click.option(
    "--loss",
    type=options.LossType(),
    default="auto",
    show_default=True,
    help="Loss, with its parameter as in huber:0.5; auto is logistic for values of -1 and +1, "
    "bernoulli for 0 and 1, and robust otherwise.",
)
@click.option(
    "--rank",
    type=options.RankType(),
    default="auto",
    show_default=True,
    help="Largest rank; auto chooses it from the data.",
)
@click.option(
    "--method",
    type=click.Choice(options.METHOD_CHOICES),
    default="bayes",
    show_default=True,
    metavar="NAME",
    help="Method of fitting, one of those that `rankwise methods` lists.",
)
@click.option(
    "--offsets",
    type=click.Choice(options.OFFSET_CHOICES),
    default="auto",
    show_default=True,
    help="Offsets added to the low-rank part; auto is both for bayes and factors, and global for other methods; "
    "the methods of the paper start from zero, which is none.",
)
@click.option("--max-iter", type=click.IntRange(min=1), help="Largest number of steps.")
@click.option(
    "--time-limit",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop after the step that exceeds this time, and write the model.",
)
@options.checkpoints
@options.features
@click.option(
    "--held-out",
    type=options.HeldOutType(),
    help="Validation entries to score and not to learn from: a fraction of FILE, such as 0.1, or another file. "
    "With --implicit it is a fraction of each row's clicks, the latest ones if --time is given.",
)
@click.option(
    "--calibration",
    metavar="FRACTION",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    help="Share of the entries to set aside, such as 0.1, for the intervals of `rankwise predict --coverage`.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the random number generator."
)
@options.threads
@click.option(
    "--memory-limit", metavar="SIZE", help="Memory for shards that are read from a folder at a time, such as 1GB."
)
@click.option("--no-labels", is_flag=True, help="Write a model without the labels of rows and columns.")
@click.option("--no-seen", is_flag=True, help="Write a model without the list of observed entries.")
@options.force
@options.as_json
def fit(**arguments: Any) -> None:
    """Fit a model to FILE, a table with a row label, a column label and a value in each line, or a folder of shards.

    FILE is CSV, TSV or other delimited text, with or without a header, also compressed (.gz, .bz2, .xz); Parquet; or
    Matrix Market. Options about the format that are not given are guessed, and the guesses printed. A folder written
    by `rankwise shards` is read shard by shard, whatever its size.

    With --implicit, FILE has no values: what is absent counts, and the model ranks columns.

    Ctrl-C stops after the current step and writes the model. Before the first step has ended, or pressed
    twice, it stops at once and keeps only checkpoints.

    With --checkpoint FOLDER --resume, repeat the same command until it ends.
    """
    from .fit import FitOptions, run

    run(FitOptions(**arguments))


@click.command(
    short_help="Predict the values of pairs.",
    epilog=example("rankwise predict ratings.rankwise pairs.csv -o predictions.csv"),
)
@options.model
@click.argument("file", metavar="PAIRS", type=options.FILE)
@click.option("-o", "--output", metavar="CSV", type=options.FILE, help="File to write to instead of standard output.")
@options.reading_pairs
@options.rank
@click.option(
    "--scale",
    type=click.Choice(["response", "link"]),
    default="response",
    show_default=True,
    help="response gives probabilities of +1 for logistic models and counts for Poisson models; link gives log-odds "
    "and logarithms.",
)
@click.option(
    "--decode",
    type=click.Choice(options.DECODING_CHOICES),
    help="Map predictions to the values of the training entries, as the error measure requires: median for MAE.",
)
@click.option(
    "--unknown",
    type=click.Choice(["error", "offset"]),
    default="error",
    show_default=True,
    help="How to treat rows and columns that the model has not seen: stop, or predict the mean of the other side's "
    "entries, shrunk towards the mean of all; such pairs have no interval.",
)
@click.option(
    "--coverage",
    metavar="FRACTION",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Also write intervals that hold this share of new observations, such as 0.8; needs fit --calibration.",
)
@options.force
def predict(**arguments: Any) -> None:
    """Predict the values of PAIRS, a table with a row label and a column label in each line.

    The output is CSV with the header row,column,prediction, in the order of PAIRS; with --coverage, low and high
    follow.
    """
    from .predict import PredictOptions, run

    run(PredictOptions(**arguments))


@click.command(
    short_help="List the best columns of rows.",
    epilog=example(
        "rankwise recommend ratings.rankwise alice bob -n 5",
        "rankwise recommend ratings.rankwise --all -o recommendations.csv",
    ),
)
@options.model
@click.argument("rows", nargs=-1)
@click.option("-n", "--count", type=click.IntRange(min=1), default=10, show_default=True, help="Columns for each row.")
@click.option("--include-seen", is_flag=True, help="Include columns in which the row has a training entry.")
@options.rank
@click.option(
    "--risk",
    type=click.FloatRange(min=0),
    help="Standard deviations of the column to deduct from each prediction, if the model has them; 0 ranks by the "
    "predictions. By default 20, and 0 for signs and counts.",
)
@click.option("--all", "every", is_flag=True, help="List the best columns of all rows.")
@click.option(
    "-o",
    "--output",
    metavar="CSV",
    type=options.FILE,
    help="CSV file to write, with the header row,place,column,score.",
)
@options.force
@options.as_json
def recommend(**arguments: Any) -> None:
    """List the columns with the highest scores for each of ROWS: predictions less a share of their uncertainty."""
    from .recommend import RecommendOptions, run

    run(RecommendOptions(**arguments))


@click.command(
    short_help="List the rows or columns most similar to others.",
    epilog=example("rankwise similar ratings.rankwise Alien --columns -n 5"),
)
@options.model
@click.argument("labels", nargs=-1, required=True)
@click.option("-n", "--count", type=click.IntRange(min=1), default=10, show_default=True, help="Labels for each.")
@click.option("--columns", is_flag=True, help="LABELS are columns instead of rows.")
@options.rank
@options.as_json
def similar(**arguments: Any) -> None:
    """List the rows, or columns, whose low-rank parts have the largest cosine with those of each of LABELS."""
    from .recommend import SimilarOptions, run_similar

    run_similar(SimilarOptions(**arguments))


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
    help="How to treat entries whose row or column the model has not seen: skip them, predict them from the other "
    "side's mean, or stop.",
)
@click.option(
    "--top",
    metavar="K",
    type=click.IntRange(min=1),
    help="Score the K best columns of each row instead of predictions; 20 for models of clicks.",
)
@click.option(
    "--least", metavar="VALUE", type=float, help="With --top: only entries of at least this value count as relevant."
)
@options.as_json
def evaluate(**arguments: Any) -> None:
    """Score a model on HELD_OUT, a table of entries that it was not fitted to.

    Models of clicks, fitted with --implicit, are scored by their rankings: recall, NDCG and others of the columns that
    they recommend, beside those of the most popular columns.
    """
    from .evaluate import EvaluateOptions, run

    run(EvaluateOptions(**arguments))


@click.command(short_help="Describe a model and the information in its file.")
@options.model
@options.as_json
def info(model: Path, as_json: bool) -> None:
    """Describe a model: its size, its fit, its scores, and what its file reveals about the data."""
    from .info import run

    run(model, as_json)


@click.command(
    short_help="Write an HTML page: scores, components, recommendations.",
    epilog=example("rankwise report ratings.rankwise --data held_out.csv -o report.html"),
)
@options.model
@click.option("--data", metavar="HELD_OUT", type=options.FILE, help="Held-out entries to score the model on.")
@click.option(
    "-o",
    "--output",
    metavar="HTML",
    type=options.FILE,
    help="File to write the page to, by default MODEL with the extension .html.",
)
@options.reading_scored
@options.duplicates
@click.option("--no-labels", is_flag=True, help="Show rows and columns by number instead of their labels.")
@options.force
def report(**arguments: Any) -> None:
    """Write an HTML page about a model: scores at every rank, components, and recommendations."""
    from .report import ReportOptions, run

    run(ReportOptions(**arguments))


@click.command(
    short_help="Divide a file that is larger than memory into shards.",
    epilog=example("rankwise shards ratings.parquet -o ratings", "rankwise fit ratings -o ratings.rankwise"),
)
@click.argument("file", type=options.FILE)
@click.option(
    "-o", "--output", metavar="FOLDER", type=options.FILE, required=True, help="New folder to write the shards to."
)
@options.reading
def shards(**arguments: Any) -> None:
    """Divide FILE into shards, which `rankwise fit FOLDER` reads one after another.

    FILE is delimited text as `rankwise fit` reads it, a Parquet file, or a folder of Parquet files. It is read as a
    stream: memory for the labels and one shard is enough. Temporary files take twice the disk space of the shards. A
    fit to shards gives the same model, bit for bit, as a fit to the file.
    """
    from .shards import ShardOptions, run

    run(ShardOptions(**arguments))


@click.command()
@options.as_json
def methods(as_json: bool) -> None:
    """List the methods and the losses, and the losses that each method supports."""
    from .methods import run

    run(as_json)


@click.command(short_help="Reproduce a table or a figure of the paper.")
@click.argument("what", metavar="table2|table4|figure1|figure2|all")
@click.option("--data", help="Run a single data set, such as epinions or movielens-100k.")
@click.option("--folds", type=int, help="Run only the first N folds or splits.")
@click.option("--quick", is_flag=True, help="Run one fold, in a few minutes.")
@click.option("--time-limit", type=float, help="Seconds per fit, by default 1000 as in the paper.")
@click.option(
    "--search", is_flag=True, help="Search AIS-Impute's nuclear weight again instead of using the stored one."
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reproduction"),
    show_default=True,
    help="Folder for results, tables and figures; an interrupted run continues from the results in it.",
)
def reproduce(what: str, output: Path, **arguments: Any) -> None:
    """Run the experiment of a table or a figure of the paper, and print its numbers beside the paper's."""
    from .reproduce import Selection, run

    run(what, Selection(**arguments), output)


@click.command(short_help="Compare a few methods on synthetic ratings.", epilog=example("rankwise demo -o demo"))
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    type=options.FILE,
    help="Folder to write a model and the held-out entries to; nothing is written without it.",
)
@options.force
def demo(output: Path | None, force: bool) -> None:
    """Fit a few methods to synthetic ratings, and print their errors on held-out ratings and their times."""
    from .demo import run

    run(output, force)


@click.command(
    "compile",
    short_help="Compile the kernels of some losses ahead of time.",
    epilog=example("rankwise compile", "rankwise compile --loss square --loss poisson"),
)
@click.option(
    "--loss",
    "losses",
    type=click.Choice(options.LOSS_CHOICES),
    multiple=True,
    default=options.AUTO_LOSSES,
    show_default=True,
    metavar="NAME",
    help="Loss to compile for; can be given more than once.",
)
def compile_kernels(losses: tuple[str, ...]) -> None:
    """Compile the kernels that the default method needs, so that later fits start at once.

    The machine code is stored in the kernel cache, whose folder is printed; NUMBA_CACHE_DIR chooses another one. It
    serves the processor, the Python and the Numba that it was compiled with; others compile anew.
    """
    from .compile import run

    run(losses)


COMMANDS = (
    fit,
    predict,
    recommend,
    similar,
    evaluate,
    info,
    report,
    shards,
    methods,
    data,
    compile_kernels,
    demo,
    reproduce,
)
