"""Import of Dask's cluster package, an optional dependency, when a cluster is used."""

from typing import Any

from ..._extras import require


def distributed() -> Any:
    """Return the package, or raise with the command that installs it."""
    return require("distributed", "dask")
