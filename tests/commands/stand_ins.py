"""Small servers on loopback that answer wrongly: in place of an Agent Server, or of a Drainboard."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CANARY = "canary-8e2d-must-not-leak"


@dataclass(frozen=True)
class Answer:
    """What is answered to everything. No status: the connection is cut."""

    status: int | None
    body: bytes = b""
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class StandIn:
    """A server that runs. ``asked`` has the path and the headers of each request, as text."""

    url: str
    answer: Answer | Callable[[str], Answer]
    asked: list[str] = field(default_factory=list)


HTML = f"<!doctype html><html><body><h1>{CANARY}</h1></body></html>".encode()
WRONG: dict[str, Answer] = {
    "html": Answer(200, HTML, "text/html"),
    "html_not_found": Answer(404, HTML, "text/html"),
    "html_that_says_json": Answer(200, HTML),
    "unauthorized": Answer(401, b'{"detail": "%s"}' % CANARY.encode()),
    "forbidden": Answer(403, b'{"detail": "%s"}' % CANARY.encode()),
    "failed": Answer(500, CANARY.encode(), "text/plain"),
    "half_a_json": Answer(200, b'{"items": ["%s", ' % CANARY.encode()),
    "cut_off": Answer(None),
    "nothing": Answer(200),
    "no_content": Answer(204),
    "not_utf8": Answer(200, b'{"items": "\xff\xfe"}'),
    "not_gzip": Answer(200, CANARY.encode(), headers={"Content-Encoding": "gzip"}),
    "list": Answer(200, b'["%s"]' % CANARY.encode()),
    "null": Answer(200, b"null"),
    "text": Answer(200, b'"%s"' % CANARY.encode()),
    "object": Answer(200, b'{"detail": "%s"}' % CANARY.encode()),
    "text_as_error": Answer(400, b'{"error": "%s"}' % CANARY.encode()),
    "list_as_error": Answer(400, b'{"error": ["%s"]}' % CANARY.encode()),
    "no_error": Answer(500, b'{"error": null}'),
    "items_of_another_shape": Answer(200, b'{"items": [{"name": "%s"}, 7, null]}' % CANARY.encode()),
}


@contextlib.contextmanager
def stand_in(answer: Answer | Callable[[str], Answer]) -> Iterator[StandIn]:
    """Answer this to everything, or what the function says of ``METHOD /path``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def _any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            running.asked.append(f"{self.command} {self.path}\n{self.headers}")
            answer = running.answer
            found = answer(f"{self.command} {self.path}") if callable(answer) else answer
            if found.status is None:
                return
            self.send_response_only(found.status)
            self.send_header("Content-Type", found.kind)
            if found.status != 204:
                self.send_header("Content-Length", str(len(found.body)))
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found.body)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    running = StandIn(f"http://127.0.0.1:{server.server_port}", answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def answering(name: str) -> Iterator[StandIn]:
    """The stand-in with this wrong answer."""
    with stand_in(WRONG[name]) as running:
        yield running
