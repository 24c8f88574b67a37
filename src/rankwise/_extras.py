"""Optional dependencies, each named by the extra that brings it."""

import importlib
from types import ModuleType

from ._errors import MissingExtraError


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, or say which extra installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"This needs {module.partition('.')[0]}, which is not installed: pip install 'rankwise[{extra}]'."
        ) from error
