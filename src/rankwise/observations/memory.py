"""Entries that must be in memory."""

from .._errors import SettingError
from .observed import AnyEntries, Observations


def need_in_memory(entries: AnyEntries, what: str, instead: str) -> Observations:
    """Return the entries; SettingError if they are on disk or on a cluster."""
    if not isinstance(entries, Observations):
        raise SettingError(
            f"{what} requires the entries in memory, and these are in a {type(entries).__name__}: {instead}."
        )
    return entries
