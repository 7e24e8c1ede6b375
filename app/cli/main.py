"""The commands. Each asks, prints, and returns its exit code; usage errors and crashes exit 3, never 1 or 2.

What asks a server is used a thousand times a day by scripts, so a command imports what only it needs when it is run.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from typer import exceptions as typer_errors

from app import logs
from app.candidate.running import Source
from app.cli import backups, candidates, output, preflights, waiting
from app.cli.connection import Api, MakeApp, Refused, connect
from app.cli.index import import_file
from app.cli.tokens import tokens
from app.durations import parse_duration
from app.errors import DrainboardError, SettingsError
from app.version import FOUND, VERSION

COULD_NOT_ASK = 3
POLL_STATES = {"complete": 0, "incomplete": 2, "failed": 3}

Server = Annotated[str | None, typer.Option("--server", help="Address of a Drainboard; else DRAINBOARD_SERVER.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
drains = typer.Typer(no_args_is_help=True, help="Look at drains, and change them.")
threads = typer.Typer(no_args_is_help=True, help="Look at threads.")
db = typer.Typer(no_args_is_help=True, help="Look after the database.")
index = typer.Typer(no_args_is_help=True, help="The application's own list of threads.")
app.add_typer(drains, name="drains")
app.add_typer(threads, name="threads")
app.add_typer(db, name="db")
app.add_typer(index, name="index")
app.add_typer(tokens, name="tokens")
db.command("backup")(backups.backup)
db.command("restore")(backups.restore)
db.command("distrust")(backups.distrust_all)


class _Wiring:
    """What ``app.command`` hands in, so that the command line need not know the web application."""

    make_app: MakeApp


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Can this old LangGraph node, state field or state version go? Exit codes of gate: 0 drained, 1 blocked, 2 unknown,
    3 could not ask."""
    if version:
        output.out.print(VERSION)
        raise typer.Exit(0)


@app.command()
def serve(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8400,
    url: Annotated[str | None, typer.Option(help="An Agent Server to look at, as the deployment `local`.")] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Start a local Agent Server with example threads.")] = False,
    allow_open: Annotated[
        bool, typer.Option("--allow-open", help="Listen beyond this machine without sign-in.")
    ] = False,
    json: Json = False,
) -> None:
    """Run the dashboard, the API and the poller."""
    from app.cli.serve import serve_forever

    raise typer.Exit(
        serve_forever(_Wiring.make_app, host=host, port=port, url=url, demo=demo, allow_open=allow_open, json=json)
    )


@app.command()
def worker(
    concurrency: Annotated[int, typer.Option(min=1, max=100, help="How many deployments to look at at once.")] = 4,
    name: Annotated[
        str | None, typer.Option(help="What it is called on the page Settings; else machine and process.")
    ] = None,
    json: Json = False,
) -> None:
    """Poll for every `serve` on the same PostgreSQL; any number of workers share the deployments. See work in the settings."""
    from app.cli.worker import work_until_stopped

    raise typer.Exit(work_until_stopped(name=name, concurrency=concurrency, json=json))


@app.command()
def poll(
    deployment: Annotated[str | None, typer.Argument()] = None,
    full: Annotated[bool, typer.Option("--full", help="A complete sweep instead of a scan.")] = False,
    server: Server = None,
    json: Json = False,
) -> None:
    """Look at the threads now. Exits 0 after a complete round, 2 incomplete, 3 when a server could not be asked."""

    async def work(api: Api) -> int:
        items = [] if deployment else (await api.all_of("deployments"))["items"]
        names = [deployment] if deployment else [found["name"] for found in items if not found.get("is_reported")]
        if items and not names:
            raise SettingsError("Every deployment is reported by its application, so there is nothing to poll.")
        if not names:
            raise SettingsError("There is no deployment to poll. Add [[deployments]] to drainboard.toml.")
        found: list[tuple[str, dict[str, Any]]] = []
        refused: list[tuple[str, Refused]] = []
        for name in names:
            try:
                started = await api.post("deployments", name, "poll", body={"full": full})
                found.append((name, await _wait_for_poll(api, name, started["poll"], quiet=json)))
            except Refused as error:
                if len(names) == 1:
                    raise
                refused.append((name, error))
        if json:
            polls = [{"deployment": name, **summary} for name, summary in found]
            output.as_json({"polls": polls + [{"deployment": name, **refusal.body} for name, refusal in refused]})
        else:
            _print_polls(found)
            for name, refusal in refused:
                output.problem(f"{name}: {refusal.message}")
        codes = [POLL_STATES.get(summary["state"], COULD_NOT_ASK) for _, summary in found]
        return max([*codes, *(COULD_NOT_ASK for _ in refused)])

    _finish(work, server, json)


async def _wait_for_poll(api: Api, name: str, poll_id: int, *, quiet: bool) -> dict[str, Any]:
    with output.progress(f"Looking at {name} …", quiet=quiet) as tell:
        while True:
            found: dict[str, Any] = await api.get("deployments", name, "polls", str(poll_id))
            if found["state"] not in ("running", "waiting"):
                return found
            of = f" of {found['threads_expected']:,}" if found["threads_expected"] else ""
            tell(f"{name}: {found['threads_seen']:,}{of} threads, {found['states_read']:,} states read")
            await asyncio.sleep(0.2)


def _print_polls(found: list[tuple[str, dict[str, Any]]]) -> None:
    output.table(
        ["deployment", "poll", "", "threads", "states", "requests"],
        [
            (
                output.plain(name),
                f"{summary['id']} {summary['kind']}",
                summary["state"],
                f"{summary['threads_seen']:,}",
                f"{summary['states_read']:,}",
                f"{summary['requests']:,}",
            )
            for name, summary in found
        ],
    )
    for _, summary in found:
        for reason in summary["reasons"]:
            output.out.print(f"  {output.sentence(reason['sentence'])}")


@app.command()
def gate(
    drain: str,
    max_age: Annotated[str | None, typer.Option(help="Ask for fresher evidence than the policy does, like 5m.")] = None,
    wait: Annotated[str | None, typer.Option(help="Wait until drained, at most this long.")] = None,
    caller: Annotated[str | None, typer.Option("--as", help="Who waits, as the drain's page shows it.")] = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """May the old thing go? Exits 0 drained, 1 blocked, 2 unknown, 3 could not ask. Never polls."""
    limit = _seconds(wait, "--wait") if wait is not None else 0.0
    if max_age is not None:
        _seconds(max_age, "--max-age")

    async def work(api: Api) -> int:
        wait = waiting.Wait(drain, limit, caller or waiting.caller(), max_age, quiet=json)
        found = await wait.answer(api)
        output.as_json(found) if json else output.answer(found)
        return _exit_code(found.get("verdict"))

    _finish(work, server, json)


Graph = Annotated[str | None, typer.Option("--graph", help="A graph of the application, like app.graph:graph.")]
GraphId = Annotated[str | None, typer.Option("--graph-id", help="The id that it is deployed under.")]
LanggraphJson = Annotated[Path | None, typer.Option("--langgraph-json", help="All graphs of this file.")]
Python = Annotated[str | None, typer.Option("--python", help="The application's own interpreter.")]
Timeout = Annotated[str, typer.Option("--timeout", help="How long importing the application may take.")]


@app.command()
def topology(
    graph: Graph = None,
    graph_id: GraphId = None,
    langgraph_json: LanggraphJson = None,
    python: Python = None,
    timeout: Timeout = "2m",
    push: Annotated[str | None, typer.Option(help="Tell this deployment that it looks like this now.")] = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Print what graphs look like by their own code. It runs that code, in a process without our secrets."""
    source = Source(graph, graph_id, langgraph_json, python, _seconds(timeout, "--timeout"))
    found = candidates.read(source)
    if push is None:
        output.as_json(found)
        raise typer.Exit(0)

    async def work(api: Api) -> int:
        taken = await api.put("deployments", push, "topology", body=found)
        output.as_json(taken) if json else preflights.print_taken(taken)
        return 0

    _finish(work, server, json)


@app.command()
def preflight(
    deployment: str,
    graph: Graph = None,
    graph_id: GraphId = None,
    langgraph_json: LanggraphJson = None,
    topology: Annotated[Path | None, typer.Option("--topology", help="A file that `topology` has written.")] = None,
    python: Python = None,
    timeout: Timeout = "2m",
    open_drain: Annotated[bool, typer.Option("--open-drain", help="Open the drains that are needed first.")] = False,
    owner: Annotated[str | None, typer.Option(help="Who owns the drains that are opened.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown for a pull request's comment.")] = False,
    markdown_file: Annotated[
        Path | None, typer.Option(help="Write that Markdown to a file, beside what is printed.")
    ] = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Would deploying this break a live thread? Exits 0 safe, 1 would break, 2 unknown, 3 could not ask."""
    source = Source(graph, graph_id, langgraph_json, python, _seconds(timeout, "--timeout"))
    candidate = candidates.read(source, topology, takes_file=True)

    async def work(api: Api) -> int:
        body = {"topology": candidate, "open_drain": open_drain, **({"owner": owner} if owner else {})}
        found = await api.post("deployments", deployment, "preflight", body=body)
        preflights.print_answer(found, as_markdown=markdown, as_json=json)
        if markdown_file is not None:
            preflights.write_markdown(found, markdown_file)
        return {"safe": 0, "blocked": 1, "unknown": 2}.get(str(found.get("verdict")), COULD_NOT_ASK)

    _finish(work, server, json)


@drains.command("list")
def drains_list(server: Server = None, json: Json = False) -> None:
    """All drains with their verdicts."""

    async def work(api: Api) -> int:
        found = await api.all_of("drains")
        if json:
            output.as_json(found)
        elif not found["items"]:
            output.out.print(output.plain("There is no drain yet. Add [[drains]] to drainboard.toml."))
        else:
            output.table(
                ["drain", "", "deployment", "owner", ""],
                [
                    (
                        output.plain(item["drain"]),
                        output.MARKS[item["verdict"]],
                        f"{output.plain(item['deployment'])} / {output.plain(item['graph'])}",
                        output.plain(item["owner"]),
                        output.sentence(item["headline"]),
                    )
                    for item in found["items"]
                ],
            )
        return 0

    _finish(work, server, json)


@drains.command("show")
def drains_show(name: str, server: Server = None, json: Json = False) -> None:
    """One drain: its verdict, its checklist, the threads that block."""

    async def work(api: Api) -> int:
        found = await api.get("drains", name)
        blocking = await api.get("drains", name, "threads", limit=20)
        if json:
            output.as_json({**found, "blocking": blocking})
            return 0
        output.answer(found)
        output.said(found)
        if blocking["items"]:
            output.out.print(f"\nThe oldest {len(blocking['items'])} of {blocking['total']:,} threads that block:")
            output.table(
                ["thread", "", "pending", "since (UTC)"],
                [
                    (
                        output.plain(item["thread_id"]),
                        item["disposition"].replace("_", " "),
                        output.plain(", ".join(item["pending"])),
                        output.minute(item["since"]),
                    )
                    for item in blocking["items"]
                ],
            )
        return 0

    _finish(work, server, json)


@drains.command("apply")
def drains_apply(file: Path, server: Server = None, json: Json = False) -> None:
    """Make or replace the drains of a TOML file with [[drains]]: all of them, or none. Others stay as they are."""
    from app.settings import load_drains

    wanted = load_drains(file).model_dump(mode="json", exclude_unset=True)

    async def work(api: Api) -> int:
        found = await api.put("drains", body=wanted)
        if json:
            output.as_json(found)
        else:
            output.table(["drain", "", "criteria", "changed"], [_written(item) for item in found["items"]])
        return 0

    _finish(work, server, json)


@drains.command("close")
def drains_close(name: str, server: Server = None, json: Json = False) -> None:
    """Close a drain: its gate answers unknown from now on. It is never deleted."""

    async def work(api: Api) -> int:
        found = await api.delete("drains", name)
        if json:
            output.as_json(found)
        else:
            was = "was closed already" if found["outcome"] == "unchanged" else "is closed"
            output.out.print(f"The drain [bold]{output.plain(name)}[/] {was}.")
        return 0

    _finish(work, server, json)


def _written(item: dict[str, Any]) -> tuple[str, str, str, str]:
    changed = ", ".join(item["changed"])
    return output.plain(item["drain"]), item["outcome"], f"version {item['criteria_version']}", output.plain(changed)


@threads.command("list")
def threads_list(
    deployment: str,
    status: Annotated[list[str] | None, typer.Option()] = None,
    condition: Annotated[list[str] | None, typer.Option()] = None,
    pending: Annotated[list[str] | None, typer.Option(help="A pending node, like nested/sub_wait.")] = None,
    state_version: Annotated[list[str] | None, typer.Option()] = None,
    fields: Annotated[list[str] | None, typer.Option(help="name:presence, like customer_name:present.")] = None,
    graph: Annotated[list[str] | None, typer.Option()] = None,
    age: Annotated[list[str] | None, typer.Option()] = None,
    sort: str = "-updated_at",
    limit: Annotated[int, typer.Option(min=1, max=500)] = 50,
    cursor: Annotated[str | None, typer.Option()] = None,
    server: Server = None,
    json: Json = False,
) -> None:
    """Threads, with the filters of the API: the same filter twice is OR, different ones are AND."""
    filters = {
        "status": status,
        "condition": condition,
        "pending": pending,
        "state_version": state_version,
        "fields": fields,
        "graph": graph,
        "age": age,
    }

    async def work(api: Api) -> int:
        asked = {key: value for key, value in filters.items() if value}
        found = await api.get("deployments", deployment, "threads", **asked, sort=sort, limit=limit, cursor=cursor)
        if json:
            output.as_json(found)
            return 0
        if not found["total"]:
            output.out.print("No thread matches these filters." if asked else "No thread was seen yet.")
            return 0
        output.table(
            ["thread", "status", "condition", "pending", "version", "updated (UTC)"],
            [
                (
                    output.plain(item["thread_id"]),
                    item["status"],
                    item["condition"],
                    output.plain(", ".join(item["pending"])),
                    str(
                        item["state_version"]["value"]
                        if item["state_version"]["reading"] == "integer"
                        else item["state_version"]["reading"]
                    ),
                    output.minute(item["updated_at"]),
                )
                for item in found["items"]
            ],
        )
        output.out.print(f"[dim]{len(found['items'])} of {found['total']:,} threads[/]")
        if found["next_cursor"]:
            output.out.print(f"[dim]More: --cursor {found['next_cursor']}[/]")
        return 0

    _finish(work, server, json)


@threads.command("show")
def threads_show(deployment: str, thread: str, server: Server = None, json: Json = False) -> None:
    """What is known of one thread, by its id or its pseudonym."""
    place = ("deployments", deployment, "threads", thread)
    _evidence(place, live=False, form="json" if json else "markdown", server=server, json=json)


@threads.command("erase")
def threads_erase(
    thread: str,
    deployment: Annotated[str, typer.Option("--deployment", help="Where the thread is.")],
    server: Server = None,
    json: Json = False,
) -> None:
    """Forget one thread, everywhere here. If the server still has it, it comes back with the next sweep."""

    async def work(api: Api) -> int:
        found = await api.delete("deployments", deployment, "threads", thread)
        if json:
            output.as_json(found)
        else:
            rows = ", ".join(f"{name} {count}" for name, count in found["rows"].items())
            output.out.print(output.plain(f"Erased; the audit calls it {found['pseudonym']}. Rows: {rows}."))
            output.out.print(
                f"Nothing in {deployment} is drained before its next sweep: `drainboard poll {deployment} --full`."
            )
        return 0

    _finish(work, server, json)


@app.command()
def evidence(
    deployment: str,
    thread: str,
    live: Annotated[bool, typer.Option("--live", help="Read the server now.")] = False,
    form: Annotated[Literal["json", "markdown"], typer.Option("--format")] = "markdown",
    server: Server = None,
    json: Json = False,
) -> None:
    """The evidence report of one thread, without a single state value. Exits 2 when the thread is not found."""
    place = ("deployments", deployment, "threads", thread, "evidence")
    _evidence(place, live=live, form="json" if json else form, server=server, json=json)


def _evidence(place: tuple[str, ...], *, live: bool, form: str, server: str | None, json: bool) -> None:
    async def work(api: Api) -> int:
        query = {"live": "true"} if live else {}
        if form == "json":
            found = await api.get(*place, **query)
            output.as_json(found)
            return 0 if found["found"] else 2
        answer = await api.get_text(*place, **query, format="markdown")
        output.text(answer.text)
        return 0 if answer.headers.get(FOUND) == "true" else 2

    _finish(work, server, json)


@index.command("import")
def index_import(deployment: str, file: Path, server: Server = None, json: Json = False) -> None:
    """Take a CSV or JSONL file as the whole list: thread_id, and graph_id, created_at, closed_at, state_version, state.
    Exits 2 when rows had no usable thread id."""

    async def work(api: Api) -> int:
        with output.progress(f"Reading {file.name} …", quiet=json) as tell:
            taken = await import_file(api, deployment, file, tell=tell)
        if json:
            output.as_json(taken)
        else:
            output.out.print(f"{taken['accepted']:,} rows taken, {taken['listed']:,} threads listed.")
            for found in taken["problems"][:20]:
                output.problem(f"row {found['line']:,}: {found['message']}")
        return 2 if taken["rejected"] else 0

    _finish(work, server, json)


@index.command("show")
def index_show(deployment: str, server: Server = None, json: Json = False) -> None:
    """What is listed beside what was seen."""

    async def work(api: Api) -> int:
        found = await api.get("deployments", deployment, "index")
        if json:
            output.as_json(found)
            return 0
        rows = [[word.replace("_", " "), f"{count:,}"] for word, count in sorted(found["by_word"].items())]
        output.table(["listed ids", "count"], [*rows, ["only on the server", f"{found['only_on_server']:,}"]])
        lines = [[line["thread_id"], line["why"].replace("_", " ")] for line in found["only_in_index"][:20]]
        output.table(["not seen", "why"], lines)
        return 0

    _finish(work, server, json)


@db.command("upgrade")
def db_upgrade(json: Json = False) -> None:
    """Bring the database's schema to this version."""
    from app.inventory.db import Database, head_revision
    from app.settings import load_settings

    async def work() -> int:
        database = Database(load_settings().resolved_database_url)
        try:
            await database.upgrade()
        finally:
            await database.close()
        if json:
            output.as_json({"revision": head_revision()})
        else:
            output.out.print(f"The schema is at revision {head_revision()}.")
        return 0

    raise typer.Exit(asyncio.run(work()))


@db.command("check")
def db_check(
    json: Json = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make the counts that differ anew from the threads.")
    ] = False,
) -> None:
    """Whether the schema is this version's (exits 2 when not) and the counts are those of the threads (exits 3 when not)."""
    from app.cli import checking
    from app.inventory.cube import Checked, check_counts
    from app.inventory.db import Database, head_revision
    from app.settings import load_settings

    async def work() -> int:
        database = Database(load_settings().resolved_database_url)
        try:
            found = await database.revision()
            fine = found == head_revision()
            checked = await check_counts(database, repair=repair) if fine else Checked(0, ())
        finally:
            await database.close()
        checking.tell(found, checked, as_json=json)
        return checking.exit_code(found, checked)

    raise typer.Exit(asyncio.run(work()))


# -- asking and ending ---------------------------------------------------------------------------------------------


def _finish(work: Callable[[Api], Awaitable[int]], server: str | None, json: bool) -> NoReturn:
    """Connect, ask, and end with the command's code; an error of the API is printed as its body with ``--json``."""

    async def ask() -> int:
        async with connect(_Wiring.make_app, server) as api:
            return await work(api)

    try:
        code = asyncio.run(_uncaught(ask()))
    except DrainboardError as error:
        if json:
            body = (
                error.body if isinstance(error, Refused) else {"error": {"code": error.code, "message": error.message}}
            )
            output.as_json(body)
        else:
            output.problem(error.message)
        code = COULD_NOT_ASK
    raise typer.Exit(code)


async def _uncaught(work: Coroutine[Any, Any, int]) -> int:
    """Unpack a group that has one error of ours."""
    try:
        return await work
    except BaseExceptionGroup as group:
        ours = [error for error in group.exceptions if isinstance(error, DrainboardError)]
        if ours:
            raise ours[0] from None
        raise


def _exit_code(verdict: object) -> int:
    """The code of a verdict; only the word ``drained`` is 0."""
    return {"drained": 0, "blocked": 1, "unknown": 2}.get(str(verdict), COULD_NOT_ASK)


def _seconds(raw: str, option: str) -> float:
    try:
        return parse_duration(raw).total_seconds()
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}.") from None


def _usage(complaint: str) -> str:
    """What is wrong with the command as a sentence, and where to look."""
    what = complaint.strip() or "A command is missing"
    return f"{what if what.endswith('.') else f'{what}.'} `drainboard --help` shows how it is written."


def _fail(code: str, message: str) -> int:
    """Say what went wrong, as JSON where that was asked for; the exit code."""
    if "--json" in sys.argv:
        output.as_json({"error": {"code": code, "message": message}})
    else:
        output.problem(message)
    return COULD_NOT_ASK


def run_with(make_app: MakeApp) -> NoReturn:
    """Run the command that the process was started with, and exit."""
    _Wiring.make_app = make_app
    logs.configure("warning")
    try:
        code = app(standalone_mode=False)
    except typer.Exit as error:
        code = error.exit_code
    except typer_errors.TyperException as error:
        code = _fail("usage", _usage(error.format_message()))
    except DrainboardError as error:
        code = _fail(error.code, error.message)
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    except Exception as error:  # noqa: BLE001 - any crash must exit 3: click's own 1 would read as "blocked"
        code = _fail("internal", f"Something in Drainboard went wrong ({type(error).__name__}). Please report it.")
    sys.exit(code if isinstance(code, int) else 0)
