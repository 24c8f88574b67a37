"""The version of this package, for all layers."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("rankwise")
except PackageNotFoundError:  # run from a source tree that was not installed
    __version__ = "0+unknown"
