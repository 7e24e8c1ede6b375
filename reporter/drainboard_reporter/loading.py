"""The application's graph, from ``module:name``: a compiled graph, or something without arguments that makes one."""

import contextlib
import importlib
import inspect
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from drainboard_reporter.dashboard import ReporterError


@contextlib.asynccontextmanager
async def open_graph(place: str) -> AsyncIterator[Any]:
    """The graph, and what it holds open until the end. A factory may be a function, a coroutine, or a context manager of
    either kind, as savers are opened. Raises ``ReporterError``."""
    found = _named(place)
    async with contextlib.AsyncExitStack() as stack:
        graph = found
        if not _is_graph(graph) and callable(graph):
            graph = _called(graph, place)
        try:
            if inspect.isawaitable(graph):
                graph = await graph
            if not _is_graph(graph) and hasattr(graph, "__aenter__"):
                graph = await stack.enter_async_context(graph)
            elif not _is_graph(graph) and hasattr(graph, "__enter__"):
                graph = stack.enter_context(graph)
        except Exception as error:  # noqa: BLE001 - the application's code
            raise _no_graph(place, error) from None
        if not _is_graph(graph):
            raise ReporterError(
                f"{place} is no compiled graph, and nothing that makes one without arguments. Give --graph module:name."
            )
        yield graph


def check_saver(graph: Any, place: str) -> None:
    """Raise ``ReporterError`` when a graph keeps nothing that could be read."""
    if not hasattr(graph.checkpointer, "get_tuple"):
        raise ReporterError(
            f"{place} has no checkpointer of its own, so it has no threads to report. Name the graph as the application "
            "compiles it, with its checkpointer."
        )


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    if not module or not name:
        raise ReporterError(f"Give --graph as module:name, like agent.main:graph. {place!r} is not that.")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is not None and not (module == error.name or module.startswith(f"{error.name}.")):
            raise ReporterError(f"{module} could not be imported: it needs the module {error.name}.") from None
        raise ReporterError(f"There is no module {module} here. Start where the application starts.") from None
    except AttributeError:
        raise ReporterError(f"The module {module} has no {name}.") from None
    except Exception as error:  # noqa: BLE001 - whatever the application's code raises when it is imported
        raise ReporterError(f"{module} could not be imported: it raised {type(error).__name__}.") from None
    return found


def _called(factory: Any, place: str) -> Any:
    try:
        return factory()
    except Exception as error:  # noqa: BLE001 - the application's code
        raise _no_graph(place, error) from None


def _no_graph(place: str, error: Exception) -> ReporterError:
    return ReporterError(f"{place} could not make a graph: it raised {type(error).__name__}.")


def _is_graph(found: object) -> bool:
    return hasattr(found, "get_state") and hasattr(found, "get_state_history") and hasattr(found, "get_graph")
