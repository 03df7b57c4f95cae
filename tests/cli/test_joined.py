"""A tool server on a socket, while its hall comes and goes, or something else answers in its place."""

import asyncio
import gc
import itertools
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from tests.unit.toolserver.handler_harness import EXECUTOR_LIMITS
from tests.unit.toolserver.tools import Kit
from toolhall.authoring.definition import definitions_of
from toolhall.dialects.hub.lease_messages import CredentialRefused
from toolhall.server.tool_server import JoinOptions, ToolServerProcess
from toolhall.toolserver import lease
from toolhall.toolserver.handler import CallHandler

LEASE = {"lease": "l", "heartbeat": 60, "tools": {}}
NO_KEY = {"type": "response", "id": None, "result": None, "error": {"code": "UNAUTHENTICATED", "message": "send one"}}


class Hall:
    """Opens sockets, unless the next is to be refused with a status; answers joins, unless one is to be cut off."""

    def __init__(self) -> None:
        self.refusals: list[int] = []
        self.cuts = 0
        self.url = ""
        self.joined: asyncio.Queue[ServerConnection] = asyncio.Queue()

    def let_in(self, connection: ServerConnection, _: Any) -> Any:
        return connection.respond(self.refusals.pop(0), json.dumps(NO_KEY)) if self.refusals else None

    async def serve(self, connection: ServerConnection) -> None:
        asked = json.loads(await connection.recv())
        if self.cuts:
            self.cuts -= 1
            return
        await connection.send(json.dumps({"type": "response", "id": asked["id"], "result": LEASE, "error": None}))
        self.joined.put_nowait(connection)
        await connection.wait_closed()


@pytest.fixture
async def hall(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Hall]:
    monkeypatch.setattr(lease, "backoff_delays", lambda: itertools.repeat(0.0))
    hall = Hall()
    async with serve(hall.serve, "127.0.0.1", 0, process_request=hall.let_in, close_timeout=1) as server:
        (listening,) = server.sockets
        hall.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        yield hall


@asynccontextmanager
async def tool_server(hall: Hall) -> AsyncGenerator["asyncio.Task[None]"]:
    handler = CallHandler(list(definitions_of(Kit)), EXECUTOR_LIMITS)
    task = asyncio.create_task(
        ToolServerProcess(handler, JoinOptions(hall.url, "", "kits", 100_000), lambda _: None).serve_websocket()
    )
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, CredentialRefused):
            await task


async def next_join(hall: Hall, task: "asyncio.Task[None]") -> ServerConnection:
    """The socket on which it joined, unless it ended instead."""
    joined = asyncio.ensure_future(hall.joined.get())
    await asyncio.wait({joined, task}, timeout=patience(), return_when=asyncio.FIRST_COMPLETED)
    assert joined.done(), "it has ended" if task.done() else "it does not join"
    return joined.result()


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_joined_socket_refused_on_reconnect_keeps_trying(
    hall: Hall, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A proxy before a hall that restarts may say any of these."""
    with caplog.at_level(logging.WARNING, "toolhall.toolserver"):
        async with tool_server(hall) as task:
            socket = await next_join(hall, task)
            hall.refusals = [status, status]
            await socket.close()
            await next_join(hall, task)
            assert hall.refusals == []
    said = [each.getMessage().split(",")[0] for each in caplog.records]
    assert said == ["the hall is away", "joined the hall again"]


async def test_joined_socket_refused_at_first_ends(hall: Hall) -> None:
    hall.refusals = [401]
    async with tool_server(hall) as task:
        with pytest.raises(CredentialRefused):
            await task


async def test_joined_socket_closed_leaves_no_error_behind(hall: Hall) -> None:
    """What waited for the hall's answer is told in the same moment as what reads the socket."""
    hall.cuts = 3
    stray: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: stray.append(context))
    async with tool_server(hall) as task:
        await next_join(hall, task)
    gc.collect()
    assert stray == []


async def test_join_command_refused_for_want_of_a_key_names_the_key_options(hall: Hall, tmp_path: Path) -> None:
    hall.refusals = [401]
    done = await asyncio.to_thread(CliRunner(tmp_path).run_process, "serve", KIT, "--join", hall.url, "--socket")
    assert done.code == 1
    assert "it needs a key; set TOOLHALL_KEY or name a file with --key-file" in done.err
