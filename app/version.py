"""The version of this installation."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("drainboard")
except PackageNotFoundError:  # run from a tree that was not installed
    VERSION = "0"
