"""What ran an experiment, without naming the host."""

import os
import platform
from functools import cache
from importlib.metadata import version

from .._version import __version__

PACKAGES = ("numpy", "scipy", "numba")


@cache
def describe_machine() -> str:
    """Cores, CPU, system and versions in one line."""
    others = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    versions = f"Python {platform.python_version()}, rankwise {__version__}, {others}"
    return f"{os.cpu_count()} cores, {_cpu()}, {platform.system()}, {versions}"


def _cpu() -> str:
    """The CPU's model, or its kind where the system does not tell."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            return next(models, platform.machine())
    except OSError:
        return platform.processor() or platform.machine()
