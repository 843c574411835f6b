"""The version, from the installed package's metadata: its one source is pyproject.toml."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("smex")
except PackageNotFoundError:  # imported from a source folder that was never installed
    __version__ = "0+unknown"
