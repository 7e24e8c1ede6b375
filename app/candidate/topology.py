"""Print what LangGraph graphs look like, as JSON: nodes, joins, edges, state fields. This file can be copied and run alone.

    python topology.py --graph module:name [--graph-id ID]
    python topology.py --langgraph-json PATH

It needs nothing but Python 3.10 or later and what the application has itself. It imports the application's code and runs its
graph factories, never a graph. Exit code 3, with one sentence on standard error, when it cannot.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import importlib
import importlib.util
import inspect
import json
import os
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

SCHEMA = "drainboard.topology/1"
FAILED = 3
_ENDS = ("__start__", "__end__")
_SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx")
_WORDS = ("title", "description", "default", "examples", "$defs", "definitions", "deprecated")
_DEEPEST = 12


class Refused(Exception):
    """A candidate that cannot be read. The message is the sentence that people see."""


def main() -> None:
    """Print the topology, and end the process whatever the application has left running."""
    arguments = _arguments()
    out = _keep_stdout()
    try:
        if sys.path and Path(sys.path[0] or ".").resolve() == Path(__file__).resolve().parent:
            del sys.path[0]  # ours: the application may have modules of the same names
        found = _of_file(arguments.langgraph_json) if arguments.langgraph_json else _of_name(arguments)
        text = json.dumps(found, indent=2, sort_keys=True)
    except Refused as error:
        _flush()
        os.write(2, f"\ntopology: {error}\n".encode())
        os._exit(FAILED)
    with os.fdopen(out, "w", encoding="utf-8") as stream:
        stream.write(text + "\n")
    _flush()
    os._exit(0)


def _flush() -> None:
    """What the application has printed goes out before the last word."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Print what LangGraph graphs look like, as JSON.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--graph", metavar="MODULE:NAME", help="one graph, a builder, or a function that makes one")
    which.add_argument("--langgraph-json", metavar="PATH", help="all graphs of this file")
    parser.add_argument("--graph-id", help="the id it is deployed under; the name by default")
    try:
        return parser.parse_args()
    except SystemExit as ended:
        raise SystemExit(FAILED if ended.code else 0) from None


def _keep_stdout() -> int:
    """Our way to standard output; whatever else is printed from now on goes to standard error."""
    sys.stdout.flush()
    out = os.dup(1)
    os.dup2(2, 1)
    return out


# -- which graphs ----------------------------------------------------------------------------------------------------


def _of_name(arguments: argparse.Namespace) -> dict[str, Any]:
    """One graph by `module:name`, with the current folder first on the path."""
    sys.path.insert(0, str(Path.cwd()))
    module, _, name = arguments.graph.partition(":")
    if not module or not name:
        raise Refused(f"`{arguments.graph}` does not name a graph. Write it like package.module:name.")
    return _document({arguments.graph_id or name: _graph(arguments.graph, Path.cwd())})


def _of_file(path: str) -> dict[str, Any]:
    """All graphs of a `langgraph.json`, with its local dependencies on the path."""
    file = Path(path).resolve()
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except OSError:
        raise Refused(f"There is no file {path} that can be read.") from None
    except ValueError:
        raise Refused(f"{path} is not JSON.") from None
    graphs = settings.get("graphs") if isinstance(settings, dict) else None
    if not isinstance(graphs, dict) or not graphs:
        raise Refused(f"{path} has no table `graphs`.")
    os.chdir(file.parent)
    local = [file.parent / one for one in settings.get("dependencies", []) if isinstance(one, str) and one[:1] == "."]
    for folder in reversed([*local, file.parent]):
        sys.path.insert(0, str(folder.resolve()))
    found = _document({name: _graph(_place(name, where), file.parent) for name, where in graphs.items()})
    return {**found, "whole": True}


def _place(graph: str, where: Any) -> str:
    place = where.get("path") if isinstance(where, dict) else where
    if not isinstance(place, str):
        raise Refused(f"The graph `{graph}` does not say where it is.")
    if place.rpartition(":")[0].lower().endswith(_SCRIPTS):
        raise Refused(
            f"The graph `{graph}` is JavaScript, which cannot be imported here. Write its topology file, and hand that over."
        )
    return place


def _document(graphs: dict[str, Any]) -> dict[str, Any]:
    return {"schema": SCHEMA, "langgraph": _version(), "graphs": {name: topology(one) for name, one in graphs.items()}}


def _version() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("langgraph")
    except PackageNotFoundError:
        return None


# -- getting hold of a graph -----------------------------------------------------------------------------------------


def _graph(place: str, folder: Path) -> Any:
    """The compiled graph at `module:name` or `./file.py:name`."""
    module, _, name = place.rpartition(":")
    found = _guarded(place, lambda: _import(module, folder))
    for part in name.split("."):
        if not hasattr(found, part):
            raise Refused(f"`{module}` has no `{part}`, so the graph `{place}` cannot be found.")
        found = getattr(found, part)
    return _compiled(place, found)


def _import(module: str, folder: Path) -> types.ModuleType:
    if not module.endswith(".py") and "/" not in module:
        return importlib.import_module(module)
    file = (folder / module).resolve()
    if not file.is_file():
        raise Refused(f"There is no file {module}.")
    known = next((one for one in list(sys.modules.values()) if getattr(one, "__file__", None) == str(file)), None)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(_module_name(file), file)
    if spec is None or spec.loader is None:
        raise Refused(f"{module} is not Python.")
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def _module_name(file: Path) -> str:
    """The name that the application itself would import the file by, where it can: then it is not run twice."""
    for folder in sys.path:
        try:
            below = file.relative_to(Path(folder).resolve()).with_suffix("")
        except ValueError:
            continue
        if all(part.isidentifier() for part in below.parts) and ".".join(below.parts) not in sys.modules:
            return ".".join(below.parts)
    return f"candidate_{abs(hash(str(file)))}"


def _guarded(place: str, act: Any) -> Any:
    """What the application's code gives, whatever it does instead of giving something."""
    try:
        return act()
    except Refused:
        raise
    except SystemExit as ended:
        raise Refused(
            f"Importing `{place}` ended the process (exit code {ended.code!r}). Keep that out of import."
        ) from None
    except ModuleNotFoundError as error:
        raise Refused(
            f"Importing `{place}` failed: there is no module {error.name!r} for {sys.executable}. "
            "Name the application's own interpreter with --python."
        ) from None
    except BaseException as error:  # noqa: BLE001 - whatever it raises, one sentence says so
        raise Refused(f"Importing `{place}` failed with {type(error).__name__}{_line_of(error)}.") from None


def _line_of(error: BaseException) -> str:
    """Where in the application it went wrong; not the error's text, which may quote anything."""
    frames = [(frame.f_code.co_filename, line) for frame, line in _frames(error.__traceback__)]
    theirs = [one for one in frames if one[0] != __file__ and not one[0].startswith("<frozen")]
    return f" in {theirs[-1][0]}, line {theirs[-1][1]}" if theirs else ""


def _frames(trace: types.TracebackType | None) -> Iterator[tuple[types.FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def _compiled(place: str, found: Any) -> Any:
    """A graph, a builder that is compiled here, or what a function without required arguments makes."""
    if hasattr(found, "get_graph") and hasattr(found, "nodes") and hasattr(found, "channels"):
        return found
    if hasattr(found, "compile") and hasattr(found, "nodes"):
        return _guarded(place, found.compile)
    if not callable(found):
        raise Refused(f"`{place}` is no graph, no builder and no function that makes one.")
    needed = [
        one.name
        for one in _parameters(found)
        if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if needed:
        raise Refused(
            f"`{place}` is a function that needs arguments ({', '.join(needed)}), so its graph cannot be made here. "
            "Name one that needs none."
        )
    made = _guarded(place, lambda: asyncio.run(_call(found)))
    if callable(made) and not hasattr(made, "get_graph") and not hasattr(made, "compile"):
        raise Refused(f"`{place}` makes no graph.")
    return _compiled(place, made)


def _parameters(found: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError):
        return []


async def _call(factory: Any) -> Any:
    """What a factory makes: at once, awaited, or entered as a context."""
    made = factory()
    if inspect.isawaitable(made):
        made = await made
    if hasattr(made, "__aenter__"):
        return await made.__aenter__()
    if hasattr(made, "__enter__"):
        return made.__enter__()
    return made


# -- what it looks like ----------------------------------------------------------------------------------------------


def topology(graph: Any) -> dict[str, Any]:
    """One graph. Paths are written `outer/inner`; a `/` in a node's own name is percent-encoded."""
    plain, xray = graph.get_graph().to_json(), graph.get_graph(xray=True).to_json()
    builder = getattr(graph, "builder", None)
    walked = list(_walk(graph, ""))
    return {
        "kind": "graph" if builder is not None else "entrypoint",
        "nodes": sorted(_nodes(plain) | _nodes(xray)),
        "edges": sorted(_edges(plain) | _edges(xray)),
        "joins": sorted(_joins(walked), key=lambda one: (one["target"], one["sources"])),
        "deferred": sorted(_deferred(walked)),
        "fields": _fields(graph),
        "subgraphs": {path: {"fields": _fields(one)} for path, one in walked if path},
        "breakpoints": {
            "before": _stops(graph.interrupt_before_nodes),
            "after": _stops(graph.interrupt_after_nodes),
        },
        "tasks": {name: _tasks(node) for name, node in sorted(graph.nodes.items())} if builder is None else {},
    }


def _walk(graph: Any, above: str) -> Iterator[tuple[str, Any]]:
    """The graph and its subgraphs, with their paths."""
    yield above.rstrip("/"), graph
    if above.count("/") < _DEEPEST and hasattr(graph, "get_subgraphs"):
        for name, inner in graph.get_subgraphs():
            if inner is not graph and hasattr(inner, "channels"):
                yield from _walk(inner, f"{above}{_name(name)}/")


def _name(raw: str) -> str:
    return quote(raw, safe=" !\"#$&'()*+,-.:;<=>?@[]^_`{|}~") if "/" in raw or "%" in raw else raw


def _path(raw: str) -> str:
    """A node id of a drawing: `:` separates, no node has it in its name."""
    return "/".join(_name(part) for part in raw.split(":"))


def _nodes(drawing: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for node in drawing.get("nodes", []):
        path = _path(str(node["id"]))
        if path.rpartition("/")[2] not in _ENDS:
            parts = path.split("/")
            found.update("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return found


def _edges(drawing: dict[str, Any]) -> set[tuple[str, str, bool]]:
    return {
        (_path(str(edge["source"])), _path(str(edge["target"])), edge.get("conditional") is True)
        for edge in drawing.get("edges", [])
    }


def _joins(walked: list[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    """Nodes that wait for several others; LangGraph keeps what has come in a channel of its own."""
    for path, graph in walked:
        for sources, target in getattr(getattr(graph, "builder", None), "waiting_edges", ()):
            above = f"{path}/" if path else ""
            yield {"sources": sorted(above + _name(one) for one in sources), "target": above + _name(target)}


def _deferred(walked: list[tuple[str, Any]]) -> Iterator[str]:
    for path, graph in walked:
        for name, node in getattr(getattr(graph, "builder", None), "nodes", {}).items():
            if getattr(node, "defer", False):
                yield f"{path}/{_name(name)}" if path else _name(name)


def _stops(nodes: Any) -> list[str]:
    return ["*"] if nodes == "*" else sorted(_name(one) for one in nodes)


# -- fields ----------------------------------------------------------------------------------------------------------


def _channels(graph: Any) -> list[str]:
    shown = getattr(graph, "stream_channels_list", None) or list(graph.channels)
    return [name for name in shown if not name.startswith(("__", "branch:", "join:"))]


def _fields(graph: Any) -> dict[str, Any]:
    """Each state field with the JSON schema of what it is given, and the nodes that refuse to start without it."""
    readers = list(_readers(getattr(graph, "builder", None)))
    return {
        field: {
            "schema": _schema(getattr(graph.channels[field], "UpdateType", Any)),
            "required_by": sorted({_name(node) for node, schema in readers if field in _needed(schema)}),
            "checked_by": sorted({_name(node) for node, schema in readers if field in _checked(schema)}),
        }
        for field in _channels(graph)
    }


def _readers(builder: Any) -> Iterator[tuple[str, Any]]:
    """The nodes of a graph with the schema by which each, and each choice of a way on from it, is given the state."""
    for name, node in getattr(builder, "nodes", {}).items():
        yield name, getattr(node, "input_schema", None) or getattr(node, "input", None)
    for name, branches in getattr(builder, "branches", {}).items():
        for branch in branches.values():
            if name not in _ENDS and (schema := getattr(branch, "input_schema", None)) is not None:
                yield name, schema


def _needed(schema: Any) -> set[str]:
    """Fields without which a node's input cannot be made. A TypedDict needs none: LangGraph does not check it."""
    if isinstance(getattr(schema, "model_fields", None), dict):
        return {name for name, one in schema.model_fields.items() if one.is_required()}
    if dataclasses.is_dataclass(schema):
        missing = dataclasses.MISSING
        return {
            one.name
            for one in dataclasses.fields(schema)
            if one.default is missing and one.default_factory is missing and one.init
        }
    return set()


def _checked(schema: Any) -> set[str]:
    """Fields whose kind a node's input is checked for."""
    fields = getattr(schema, "model_fields", None)
    return set(fields) if isinstance(fields, dict) else set()


def _schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type, names and texts left out; empty where there is none: then it may be anything."""
    try:
        from pydantic import TypeAdapter

        raw = TypeAdapter(kind).json_schema()
        return dict(_plain(raw, raw.get("$defs", {}), ()))
    except Exception:  # noqa: BLE001 - a type without a schema may be anything
        return {}


def _plain(schema: Any, known: dict[str, Any], within: tuple[str, ...]) -> Any:
    """A schema without references and words. One that contains itself ends there."""
    if isinstance(schema, list):
        return [_plain(one, known, within) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        name = reference.rpartition("/")[2]
        return {} if name in within or len(within) > _DEEPEST else _plain(known.get(name, {}), known, (*within, name))
    return {
        key: {name: _plain(one, known, within) for name, one in value.items()}
        if key == "properties" and isinstance(value, dict)
        else _plain(value, known, within)
        for key, value in schema.items()
        if key not in _WORDS
    }


# -- entrypoints -----------------------------------------------------------------------------------------------------


def _tasks(node: Any) -> list[str]:
    """The tasks that an entrypoint's code names, in the order in which it first does."""
    function = _function(node)
    if not inspect.isfunction(function):
        return []
    code = function.__code__
    cells = dict(zip(code.co_freevars, (one.cell_contents for one in function.__closure__ or ()), strict=False))
    names = {**{name: function.__globals__.get(name) for name in code.co_names}, **cells}
    return [str(label) for label in (_task_name(one) for value in names.values() for one in _each(value)) if label]


def _each(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _function(node: Any) -> Any:
    bound = getattr(node, "bound", None)
    found: Any = getattr(bound, "func", None) or getattr(bound, "afunc", None)
    while (inner := getattr(found, "__wrapped__", None) or getattr(found, "func", None)) is not None:
        found = inner
    return found


def _task_name(value: Any) -> str | None:
    if type(value).__name__ != "_TaskFunction":
        return None
    function = getattr(value, "func", None)
    return getattr(function, "__name__", None)


if __name__ == "__main__":
    main()
