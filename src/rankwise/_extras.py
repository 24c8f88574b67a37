"""Import of optional dependencies."""

import importlib
from types import ModuleType

from ._errors import MissingExtraError


def require(module: str, extra: str) -> ModuleType:
    """Import `module`; raise `MissingExtraError` with the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{module.partition('.')[0]} is not installed: pip install 'rankwise[{extra}]'."
        ) from error
