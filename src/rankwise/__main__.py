"""Run the command line by ``python -m rankwise``."""

from .cli import main

main(prog_name="rankwise")
