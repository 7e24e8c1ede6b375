"""Tells a Drainboard what the threads of a graph without an Agent Server wait for. No value of a state leaves the process.

- ``loading``   the graph of ``module:name``
- ``reader``    ask it for a thread's state, and what its checkpointer holds beside
- ``snapshots`` what that answers -> the parts that the shared rules look at
- ``facts``     the rules, the same as the dashboard's; copied when the package is built
- ``wire``      facts -> JSON
- ``dashboard`` send it
- ``passes``    all threads once, from where an earlier pass stopped
"""

from drainboard_reporter.dashboard import ReporterError
from drainboard_reporter.passes import Summary, areport, report

__all__ = ["ReporterError", "Summary", "areport", "report"]
__version__ = "0.1.0"
