"""Refusing, before any work, what cannot fit into memory."""

import os

from .._errors import SettingError


def available_bytes() -> int | None:
    """Memory that could be used now, if the system tells."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def refuse_if_too_large(needed: float, method: str, why: str, instead: str, limit: int | None = None) -> None:
    """Raise if `needed` bytes are more than `limit`, or than what is available."""
    there = available_bytes() if limit is None else limit
    if there is not None and needed > there:
        raise SettingError(
            f"{method} would take about {needed / 1e9:.1f} GB ({why}); {there / 1e9:.1f} GB are available: {instead}."
        )
