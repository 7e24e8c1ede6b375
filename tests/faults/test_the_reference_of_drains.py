"""Every curl command of the reference works as it is written, one after the other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx

from tests.faults.conftest import NAME, Board, Open
from tests.faults.fake_server import FakeAgentServer

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "drains.md"
THREAD = "0190a3c2-7d11-7c33-a0f0-2b8f6c1d9e55"


def commands() -> list[list[str]]:
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    text = "".join(blocks).replace("$DRAINBOARD_SERVER", "").replace("support-prod", NAME)
    return [shlex.split(f"curl {each}") for each in re.split(r"^curl ", text, flags=re.MULTILINE) if each.strip()]


async def run(it: Board, command: list[str]) -> httpx.Response:
    options = {"-X": "GET", "-H": "", "-d": None}
    path = ""
    arguments = iter(command[1:])
    for each in arguments:
        if each in options:
            options[each] = next(arguments)
        else:
            path = each
    kind = {"Content-Type": "application/json"} if options["-H"] == "Content-Type: application/json" else {}
    return await it.http.request(str(options["-X"]), path, content=options["-d"], headers=kind)


async def test_the_commands_of_the_reference_work(board: Open, server: FakeAgentServer) -> None:
    server.parked(id=THREAD)
    server.deploy("support", "intake", "finish")
    async with board() as it:
        await it.poll(full=True)
        statuses = [(await run(it, command)).status_code for command in commands()]
    assert statuses == [201, 200, 200, 200, 200, 201, 201, 201, 200]
