"""The version of this installation, and how its command line names itself."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("drainboard")
except PackageNotFoundError:  # run from a tree that was not installed
    VERSION = "0"

COMMAND_LINE = "drainboard-command-line"
FOUND = "Drainboard-Found"  # header of an evidence report as Markdown: whether there is such a thread
