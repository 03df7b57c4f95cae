"""Upstreams that die and forget while calls run: nothing runs twice, nobody waits for ever, nothing is left behind."""

import asyncio
import itertools
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess
from tests.servers import revision_mcp
from tests.unit.builders import call_of, tool_named
from toolhall.dialects.mcp.client_handshake import Era
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.resolver import Dialer
from toolhall.execution.deadline import Deadline
from toolhall.execution.upstream.credentials import ChildEnvironment, NoUpstreamCredentials
from toolhall.execution.upstream.manager import ManagerOptions, UpstreamManager
from toolhall.mcp_client.connect import open_session
from toolhall.mcp_client.session import McpSession, SessionEvents
from toolhall.mcp_client.targets import ClientProfile, CommandTarget, HttpTarget, QuestionHandler, SessionCredentials
from toolhall.model.caller import Caller
from toolhall.model.content import Reply, Text
from toolhall.model.errors import Unavailable
from toolhall.model.names import ToolId
from toolhall.model.upstream import Upstream, UpstreamListing, UpstreamSettings

PROGRAM = str(Path(revision_mcp.__file__))
CALLERS = [Caller(f"caller-{number}", proof="key") for number in range(8)]
KILLS = 20


async def _open(
    upstream: Upstream,
    events: SessionEvents,
    questions: QuestionHandler,
    *,
    era: Era | None,
    credentials: SessionCredentials,
    env: ChildEnvironment,
) -> McpSession:
    settings = upstream.settings
    target: HttpTarget | CommandTarget = (
        HttpTarget(settings.url)
        if settings.url is not None
        else CommandTarget(command=settings.command or "", args=settings.args, cwd=settings.cwd)
    )
    dialer = Dialer(EgressAllowlist(("127.0.0.1",)))
    profile = ClientProfile(name="test", version="1")
    return await open_session(target, profile, events, dialer=dialer, era=era, questions=questions)


async def _ignore(upstream: Upstream, listing: UpstreamListing) -> None:
    """Sync: what is listed does not matter here."""


def manager_of(settings: UpstreamSettings) -> UpstreamManager:
    manager = UpstreamManager(_open, _ignore, NoUpstreamCredentials(), ManagerOptions(hall_id="hall"))
    manager.configure({"Docs": Upstream(name="Docs", settings=settings, source="file")})
    return manager


async def call(manager: UpstreamManager, tool: str, text: str = "", caller: Caller = CALLERS[0]) -> str:
    """The text that a tool of the upstream returns."""
    known = tool_named(tool, id=ToolId("Docs", tool, "1.0.0"), upstream_name=tool)
    arguments = {"text": text} if text else {}
    made = call_of(tool, arguments, caller)
    async with asyncio.timeout(patience()):
        reply = await manager.runner.run(known, made, arguments, Deadline(30))
    assert isinstance(reply, Reply)
    assert isinstance(reply.content[0], Text)
    return reply.content[0].text


def ran(folder: Path) -> list[str]:
    """What ran at the upstream."""
    return (folder / "calls").read_text().split()


def children() -> list[int]:
    """The processes of the upstream that run."""
    found: list[int] = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it ends just now
            if PROGRAM in child.cmdline():
                found.append(child.pid)
    return found


async def test_child_that_is_killed_under_load_runs_no_call_twice(tmp_path: Path) -> None:
    settings = UpstreamSettings(
        command=sys.executable, args=("-S", PROGRAM, "2025-11-25", "stdio"), cwd=str(tmp_path), share="hall"
    )
    manager = manager_of(settings)
    numbers, stopping = itertools.count(1), asyncio.Event()
    answered: list[str] = []
    lost: list[str] = []

    async def keep_calling(caller: Caller) -> None:
        while not stopping.is_set():
            text = f"call-{next(numbers)}"
            try:
                assert await call(manager, "echo", text, caller) == text
                answered.append(text)
            except Unavailable:
                lost.append(text)
                await asyncio.sleep(0.01)

    callers = [asyncio.create_task(keep_calling(caller)) for caller in CALLERS]
    for _ in range(KILLS):
        before = len(answered)
        async with asyncio.timeout(patience()):
            while len(answered) == before:  # noqa: ASYNC110 - it serves again
                await asyncio.sleep(0.005)
        for pid in children():
            os.kill(pid, signal.SIGKILL)
    stopping.set()
    await asyncio.gather(*callers)
    assert await call(manager, "echo", "the last") == "the last"
    await manager.close()
    started = [each for each in ran(tmp_path) if each.startswith("call-")]
    assert len(started) == len(set(started)), "a call ran twice"
    assert set(answered) <= set(started)
    assert not children()


async def test_server_that_forgets_all_sessions_costs_one_handshake_for_each_caller(tmp_path: Path) -> None:
    server = ServerProcess.start([sys.executable, "-S", PROGRAM, "2025-11-25", "http"], tmp_path)
    try:
        manager = manager_of(UpstreamSettings(url=str(server.ready().first["url"])))
        for caller in CALLERS:
            assert await call(manager, "echo", "before", caller) == "before"
        await call(manager, "forget")
        handshakes = ran(tmp_path).count("initialize")
        texts = await asyncio.gather(*(call(manager, "echo", "after", caller) for caller in CALLERS))
        assert texts == ["after"] * len(CALLERS)
        assert ran(tmp_path).count("initialize") - handshakes == len(CALLERS)
        assert ran(tmp_path).count("after") == len(CALLERS)
        await manager.close()
    finally:
        server.kill()


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_server_that_restarts_is_found_again(tmp_path: Path, transport: str) -> None:
    command = [sys.executable, "-S", PROGRAM, "2024-11-05" if transport == "sse" else "2025-06-18", transport]
    first = ServerProcess.start(command, tmp_path)
    try:
        manager = manager_of(UpstreamSettings(url=str(first.ready().first["url"])))
        assert await call(manager, "echo", "before") == "before"
    finally:
        first.kill()
    with pytest.raises(Unavailable):
        await call(manager, "echo", "nobody")
    port = str(first.first["url"]).split(":")[2].partition("/")[0]
    second = ServerProcess.start([*command, port], tmp_path)
    try:
        second.ready()
        assert await call(manager, "echo", "after") == "after"
        assert "nobody" not in ran(tmp_path)
        await manager.close()
    finally:
        second.kill()
