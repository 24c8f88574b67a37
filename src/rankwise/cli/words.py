"""Errors of the library in the words of the command line."""

import json
import math
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click


def in_options(message: str, options: Iterable[str]) -> str:
    """The message with `name="value"`, `name=True` and `name` in backticks written as the command's options."""
    known = set(options)

    def option(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"] or ""
        if name not in known:
            return found[0]
        value = value.strip("\"'")
        return f"--{name.replace('_', '-')}" + ("" if value in ("", "True") else f" {value}")

    quoted = r"`(?P<name>[a-z_]+)(?:=(?P<value>[^`\s]+))?`"
    bare = r"\b(?P<name>[a-z_]+)=(?P<value>\"[^\"]*\"|'[^']*'|True\b)"
    return re.sub(bare, option, re.sub(quoted, option, message))


def options_of(command: click.Command | None) -> list[str]:
    """Names of a command's options, as the library calls them."""
    return [] if command is None else [name for param in command.params for name in _names(param)]


def _names(param: click.Parameter) -> list[str]:
    longs = [name.removeprefix("--") for name in param.opts if name.startswith("--")]
    return [name.replace("-", "_") for name in longs]


def loss_in_words(loss: Any) -> str:
    """A loss by its name and numbers: `huber (delta 1.345)`."""
    if loss is None:
        return "not known"
    numbers = ", ".join(f"{name} {value:.4g}" for name, value in vars(loss).items() if isinstance(value, int | float))
    return f"{getattr(loss, 'name', type(loss).__name__)}" + (f" ({numbers})" if numbers else "")


def command_line(ctx: click.Context) -> str:
    """The command that is running, with the options it was given and file names without their folders."""
    words = ["rankwise", ctx.command.name or ""]
    for param in ctx.command.params:
        value = ctx.params[param.name or ""]
        if ctx.get_parameter_source(param.name or "") != click.core.ParameterSource.COMMANDLINE:
            continue
        flag = isinstance(param, click.Option) and param.is_flag
        name = [] if isinstance(param, click.Argument) else [_chosen(param, value)]
        words += name if flag else [*name, _text(value)]
    return shlex.join(words)


def _chosen(param: click.Parameter, value: Any) -> str:
    """The option's long name; the second one for a switch that was turned off."""
    names = param.secondary_opts if value is False and param.secondary_opts else param.opts
    return max(names, key=len)


def _text(value: Any) -> str:
    if isinstance(value, Path):
        return value.name
    if isinstance(value, tuple):  # a loss and its number
        return ":".join(f"{part}" for part in value if part is not None)
    return str(value)


def in_json(value: Any) -> str:
    """JSON for programs, with null for numbers that are not finite, which JSON does not have."""
    return json.dumps(_finite(value), default=str)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: float) -> str:
    """A number with six digits, or all before the point if there are more."""
    return f"{value:,.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:,.6g}"


def decimals(value: float, n: int = 4) -> str:
    """A number with n decimals, or with n digits if the decimals do not show three of them or it is very long."""
    return f"{value:.{n}f}" if value == 0 or 10.0 ** (2 - n) <= abs(value) < 1e9 else f"{value:.{n}g}"


def plural(count: int, one: str) -> str:
    """A number of things: `1 entry`, `2,000 entries`."""
    many = f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"
    return f"{count:,} {one if count == 1 else many}"
