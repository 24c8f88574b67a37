"""Dask's cluster package, an extra, which is imported when a cluster is used."""

from typing import Any

from ..._extras import require


def distributed() -> Any:
    """The package, or a sentence that says how to install it."""
    return require("distributed", "dask")
