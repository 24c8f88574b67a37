"""The command `rankwise`. Numba and scikit-learn load inside the commands, so that help comes at once."""

import errno
import io
import sys
from pathlib import Path
from typing import Any

import click

from .. import __version__
from .._errors import RankwiseError
from . import options
from .data import data
from .models import COMMANDS
from .words import in_options, options_of

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class Commands(click.Group):
    """A group whose commands end in one line on standard error, not a traceback, when rankwise refuses something."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; exit code 1 if rankwise refused, 130 if Ctrl-C stopped it before its end.

        A command that has something to keep says so in the `KeyboardInterrupt` that it raises.
        """
        if isinstance(sys.stdout, io.TextIOWrapper):  # a label may have letters that the output's encoding lacks
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except RankwiseError as error:
            command = self.commands.get(ctx.invoked_subcommand or "")
            raise click.ClickException(in_options(str(error), options_of(command))) from error
        except KeyboardInterrupt as stop:
            raise _stopped(stop) from None
        except click.Abort as abort:
            if isinstance(abort.__context__, KeyboardInterrupt):  # what click makes of Ctrl-C at a question
                raise _stopped(abort.__context__) from None
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has gone, as `head` does; click knows what to do
                raise
            place = "" if error.filename is None else f" {error.filename}"
            raise click.ClickException(f"Cannot read or write{place}: {error.strerror or error}.") from error
        except MemoryError:
            raise click.ClickException("There is not enough memory; try a smaller rank or fewer entries.") from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they are used."""
        return list(self.commands)


def _stopped(stop: KeyboardInterrupt) -> click.exceptions.Exit:
    """Say what is kept, on standard error; the exit to take."""
    click.echo(f"Stopped; {stop}." if stop.args else "Stopped; nothing was written.", err=True)
    return click.exceptions.Exit(INTERRUPTED)


EPILOG = """\b
Try:
  rankwise fit ratings.csv -o ratings.rankwise --held-out 0.1
  rankwise recommend ratings.rankwise alice

\b
Exit codes:
  0    done; also a fit that Ctrl-C stopped, whose model so far is kept
  1    a file, its data or a setting cannot be used: one line says what, where, and what to do
  2    the command was called in a way that it does not know
  130  stopped by Ctrl-C before the end: one line says what is kept, if anything

\b
Completion of commands, options and file names by the Tab key:
  bash  eval "$(_RANKWISE_COMPLETE=bash_source rankwise)"   in ~/.bashrc
  zsh   eval "$(_RANKWISE_COMPLETE=zsh_source rankwise)"    in ~/.zshrc
  fish  _RANKWISE_COMPLETE=fish_source rankwise | source    in ~/.config/fish/config.fish
"""


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rankwise")
def main() -> None:
    """Learn a low-rank matrix from a few observed entries, under any convex loss, one rank at a time."""


for command in COMMANDS:
    main.add_command(command)


@main.command()
@options.as_json
def methods(as_json: bool) -> None:
    """List the methods and the losses, and which takes which."""
    from .methods import show

    show(as_json)


main.add_command(data)


@main.command(short_help="Rerun a table or a figure of the paper.")
@click.argument("what", metavar="table2|table4|figure1|figure2|all")
@click.option("--data", help="One data set only, such as epinions or movielens-100k.")
@click.option("--folds", type=int, help="The first N folds or splits only.")
@click.option("--quick", is_flag=True, help="One fold, a few minutes.")
@click.option("--time-limit", type=float, help="Seconds per fit; 1000 as in the paper.")
@click.option(
    "--search", is_flag=True, help="Find AIS-Impute's nuclear weight again, instead of taking the stored one."
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("reproduction"),
    show_default=True,
    help="Folder for results, tables and figures; a run that was stopped continues from what is there.",
)
def reproduce(what: str, output: Path, **given: Any) -> None:
    """Rerun a table or a figure of the paper, its numbers beside ours."""
    from .reproduce import Choice, reproduce

    reproduce(what, Choice(**given), output)


@main.command(short_help="Do the whole job on data made here.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the model and the picture; made if it is not there.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Another seed, other data.")
@options.threads
def demo(output: Path, seed: int, threads: int | None) -> None:
    """Fit, score and draw on data made here, beside the truth behind them."""
    from .demo import run

    run(output, seed, threads)
