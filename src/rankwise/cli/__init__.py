"""The command ``rankwise``.

Numba, SciPy and scikit-learn are imported when a command runs, so that its help appears at once.
"""

import errno
from typing import Any

import click

from .. import __version__
from .._errors import RankwiseError
from .commands import COMMANDS
from .terminal import echo, open_streams, printable, unwinding_at_sigterm

INTERRUPTED = 130  # exit code of shells after SIGINT: 128 + 2


class Commands(click.Group):
    """Group of commands whose errors are one line on standard error, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; exit with 1 after an error, and with 130 after Ctrl-C.

        A command that keeps partial results describes them in the argument of the `KeyboardInterrupt` that it raises.
        """
        open_streams()
        try:
            with unwinding_at_sigterm():
                return super().invoke(ctx)
        except RankwiseError as error:
            raise click.ClickException(printable(str(error))) from error
        except KeyboardInterrupt as interrupt:
            raise _interrupted(interrupt) from None
        except click.Abort as abort:
            if isinstance(abort.__context__, KeyboardInterrupt):  # click raises Abort for Ctrl-C at a prompt
                raise _interrupted(abort.__context__) from None
            raise
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader of a pipe has exited, as `head` does; click handles it
                raise
            place = "" if error.filename is None else f" {error.filename}"
            raise click.ClickException(printable(f"Cannot read or write{place}: {error.strerror or error}.")) from error
        except MemoryError:
            raise click.ClickException("There is not enough memory; try a smaller rank or fewer entries.") from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order in which they are usually run."""
        return list(self.commands)


def _interrupted(interrupt: KeyboardInterrupt) -> click.exceptions.Exit:
    """Print what was kept to standard error, and return the exit to raise."""
    echo(f"Stopped; {interrupt}." if interrupt.args else "Stopped; nothing was written.", err=True)
    return click.exceptions.Exit(INTERRUPTED)


EPILOG = """\b
Try:
  rankwise fit ratings.csv -o ratings.rankwise --held-out 0.1
  rankwise recommend ratings.rankwise alice

\b
Exit codes:
  0    success; also a fit that Ctrl-C stopped after its first step: the model so far is written
  1    a file, its data or a setting cannot be used: one line says what is wrong, where, and what to do
  2    unknown command or option
  130  stopped by Ctrl-C before the end: one line says what was kept, if anything
  143  stopped by SIGTERM; temporary files are removed, checkpoints are kept

\b
Completion of commands, options and file names by the Tab key:
  bash  eval "$(_RANKWISE_COMPLETE=bash_source rankwise)"   in ~/.bashrc
  zsh   eval "$(_RANKWISE_COMPLETE=zsh_source rankwise)"    in ~/.zshrc
  fish  _RANKWISE_COMPLETE=fish_source rankwise | source    in ~/.config/fish/config.fish
"""


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="rankwise")
def main() -> None:
    """Learn a low-rank matrix from some of its entries, and predict the others."""


for command in COMMANDS:
    main.add_command(command)
