"""``drainboard serve``: the web application under uvicorn, with the demo's Agent Server if asked for."""

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from app import logs
from app.cli import output
from app.cli.connection import MakeApp
from app.errors import SettingsError
from app.settings import Settings, load_settings, quick_deployment

DEMO_HOME = Path(".drainboard") / "demo"


def serve_forever(
    make_app: MakeApp, *, host: str, port: int, url: str | None, demo: bool, allow_open: bool, json: bool = False
) -> int:
    """Serve until stopped; the exit code. ``json``: say where it is as one document."""
    if url is not None and demo:
        raise SettingsError("Give either --url or --demo.")
    if not _is_loopback(host) and not allow_open and load_settings().sign_in.mode == "open":
        raise SettingsError(
            f"{host} can be reached from other machines, and no sign-in is configured. "
            "Listen on 127.0.0.1, set [sign_in] in the settings, or give --allow-open if everybody there may look."
        )
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(_listen(host, port))
        settings = stack.enter_context(_settings(url, demo))
        logs.configure(settings.log_level, as_json=settings.log_format == "json")
        app = make_app(settings, schedule=True, open_notice=True)
        asyncio.run(_check_start(make_app, settings))
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=3, server_header=False
        )
        server = _Server(config, lambda: _announce(listener, host, settings, demo=demo, json=json))
        server.run(sockets=[listener])
        return 0 if server.started else 3


async def _check_start(make_app: MakeApp, settings: Settings) -> None:
    """Open everything once without polling, so that what is wrong ends in a sentence and not in a server's log."""
    app = make_app(settings, schedule=False)
    async with app.router.lifespan_context(app):
        pass


class _Server(uvicorn.Server):
    """A server that says when it answers."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets=sockets)
        if self.started:
            self._announce()


def _is_open_to_others(host: str, settings: Settings) -> bool:
    return not _is_loopback(host) and settings.sign_in.mode == "open"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.contextmanager
def _listen(host: str, port: int) -> Iterator[socket.socket]:
    """A listening socket, made first so that a port in use ends in a sentence."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError:
        raise SettingsError(f"{host} is no address of this machine. Try --host 127.0.0.1.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(128)
        except PermissionError:
            raise SettingsError(f"Port {port} needs more rights. Give --port a number above 1023.") from None
        except OSError:
            raise SettingsError(
                f"Port {port} on {host} is in use or not to be had. Stop what listens there, or give another --port."
            ) from None
        yield listener
    finally:
        listener.close()


@contextlib.contextmanager
def _settings(url: str | None, demo: bool) -> Iterator[Settings]:
    """The settings file, or one deployment that the command line names."""
    if not demo and url is None:
        yield load_settings()
        return
    option = "--demo" if demo else "--url"
    if load_settings().deployments:
        raise SettingsError(f"{option} does not go with deployments in the settings. Remove one or the other.")
    if url is not None:
        yield load_settings(deployments=(quick_deployment("local", url),), work="here")  # workers do not know it
        return
    with _demo() as settings:
        yield settings


@contextlib.contextmanager
def _demo() -> Iterator[Settings]:
    from app.demo.agent_server import AgentServerFailed
    from app.demo.run import DEMO_DRAINS, DEPLOYMENT, PROJECT, demo_servers
    from app.demo.seed import seed

    home = DEMO_HOME.absolute()
    output.err.print("Starting a local Agent Server with example threads …")
    try:
        with demo_servers(home / "agent") as servers:
            asyncio.run(seed(servers.url))
            deployment = quick_deployment(
                DEPLOYMENT,
                servers.url,
                environment="example",
                poll_interval="5s",
                sweep_interval="5m",
                requests_per_minute=6000,
                langsmith={"project": PROJECT, "endpoint": servers.langsmith, "web_url": servers.langsmith},
            )
            database: dict[str, Any] = {"work": "here"}
            if not os.environ.get("DRAINBOARD_DATABASE_URL"):
                database["database_url"] = f"sqlite+aiosqlite:///{home / 'drainboard.db'}"
            yield load_settings(deployments=(deployment,), drains=tuple(DEMO_DRAINS), **database)
    except AgentServerFailed as error:
        raise SettingsError(str(error)) from None


def _announce(listener: socket.socket, host: str, settings: Settings, *, demo: bool, json: bool) -> None:
    """Print the address."""
    port = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else shown}:{port}"  # noqa: S104 - only shown
    if json:
        named = [deployment.name for deployment in settings.deployments]
        output.as_json({"url": address, "deployments": named, "open": _is_open_to_others(host, settings)})
        return
    output.out.print(f"\n  [bold]Drainboard[/] is at [bold]{address}/[/]   (Ctrl-C stops it)")
    names = ", ".join(deployment.name for deployment in settings.deployments)
    nothing = output.plain("no deployment yet: add [[deployments]] to drainboard.toml")
    output.out.print(f"  Looking at: {output.plain(names) or nothing}")
    if _is_open_to_others(host, settings):
        output.out.print(
            "  [bold]Open:[/] everybody who reaches this address may look, since no sign-in is configured."
        )
    if demo:
        output.out.print(f"  Try:  .venv/bin/drainboard gate drop-await-approval --server {address}\n")
