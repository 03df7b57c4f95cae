"""Sessions over a child's pipes: every revision and both eras, questions, progress, cancelling, and every bad end."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.harness.patience import patience
from tests.servers import stdio_mcp
from toolhall.dialects.mcp.client_handshake import Era
from toolhall.dialects.mcp.client_questions import read_open_questions, retry_params, write_reply
from toolhall.dialects.mcp.client_results import ListReader, read_call_result
from toolhall.mcp_client import stdio_session
from toolhall.mcp_client.peer import MAX_CANCELLATIONS
from toolhall.mcp_client.session import McpRequest, NotAcceptable, NotSent, RequestLost, RpcError
from toolhall.mcp_client.stdio_session import StdioSession, open_command
from toolhall.mcp_client.targets import ClientProfile, CommandTarget
from toolhall.model.content import Text
from toolhall.model.json import JsonObject
from toolhall.model.messages import Filled, LogEvent, ProgressEvent

PROFILE = ClientProfile(name="test", version="1")
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
each_revision = pytest.mark.parametrize("revision", [*LEGACY, "2026-07-28"])


class Events:
    """Keeps what happens outside of requests."""

    def __init__(self) -> None:
        self.changed: asyncio.Queue[str] = asyncio.Queue()
        self.logs: asyncio.Queue[LogEvent] = asyncio.Queue()
        self.updated: list[str] = []
        self.ends: list[str] = []

    def on_list_changed(self, kind: str) -> None:
        self.changed.put_nowait(kind)

    def on_resource_updated(self, uri: str) -> None:
        self.updated.append(uri)

    def on_log(self, event: LogEvent) -> None:
        self.logs.put_nowait(event)

    def on_closed(self, reason: str) -> None:
        self.ends.append(reason)


class Hooks:
    """Keeps what happens in a request."""

    def __init__(self) -> None:
        self.progress: list[ProgressEvent] = []

    def on_progress(self, event: ProgressEvent) -> None:
        self.progress.append(event)

    def on_log(self, event: LogEvent) -> None:
        raise AssertionError(event)  # nothing says that it is about the request

    async def on_question(self, method: str, params: JsonObject) -> JsonObject:
        raise AssertionError(method, params)


async def name_person(method: str, params: JsonObject) -> JsonObject:
    assert (method, params["message"]) == ("elicitation/create", "Who?")
    return write_reply(Filled("accept", {"name": "Ada"}))


def server(*arguments: str) -> CommandTarget:
    return CommandTarget(command=sys.executable, args=("-S", str(Path(stdio_mcp.__file__)), *arguments))


@asynccontextmanager
async def opened(*arguments: str, era: Era | None = None) -> AsyncGenerator[tuple[StdioSession, Events]]:
    events = Events()
    session = await open_command(server(*arguments), PROFILE, events, era=era, questions=name_person)
    try:
        yield session, events
    finally:
        await session.close()


def call(tool: str, **arguments: str) -> McpRequest:
    return McpRequest(method="tools/call", params={"name": tool, "arguments": arguments}, wants_events=True)


def text_of(result: msgspec.Raw) -> str:
    (block,) = read_call_result(result).content
    assert isinstance(block, Text)
    return block.text


@each_revision
async def test_session_of_each_revision_lists_and_calls(revision: str) -> None:
    async with opened(revision) as (session, events):
        assert (session.server.name, session.server.revision.name) == ("stdio", revision)
        assert session.server.has("tools", "listChanged")
        tools = ListReader("tools/list")
        cursor = tools.add(await session.request(McpRequest(method="tools/list")))
        assert tools.add(await session.request(McpRequest(method="tools/list", params={"cursor": cursor}))) is None
        assert [each["name"] for each in tools.items] == list(stdio_mcp.TOOLS)
        hooks = Hooks()
        assert text_of(await session.request(call("echo", text="hé\n"), hooks)) == "hé\n"
        await session.request(call("work"), hooks)
        assert [each.message for each in hooks.progress] == ["step 0", "step 1", "step 2"]
        assert (await events.logs.get()).data == "worked"
        assert session.running == 0
    assert events.ends == []
    assert not session.is_open


@each_revision
async def test_question_reaches_the_handler_and_its_reply_the_server(revision: str) -> None:
    async with opened(revision) as (session, _):
        result = await session.request(call("greet"), Hooks())
        if session.server.revision.stateless:
            questions = read_open_questions(result)
            assert questions is not None
            replies = dict.fromkeys(questions.questions, Filled("accept", {"name": "Ada"}))
            request = call("greet")
            again = retry_params(request.params, replies, questions.state)
            result = await session.request(msgspec.structs.replace(request, params=again))
        assert text_of(result) == "Ada"


@each_revision
async def test_changed_list_and_cancelled_request_are_told(revision: str) -> None:
    async with opened(revision) as (session, events):
        await session.request(call("change"))
        assert await events.changed.get() == "tools"
        waiting = asyncio.ensure_future(session.request(call("wait")))
        await session.request(call("echo", text="later"))  # so the one before it was sent
        waiting.cancel()
        async with asyncio.timeout(patience()):
            assert (await events.logs.get()).data == "cancelled"
        assert session.running == 0
        assert text_of(await session.request(call("echo", text="still here"))) == "still here"


async def test_many_requests_at_a_time_get_their_own_answers() -> None:
    async with opened("2025-11-25") as (session, _):
        results = await asyncio.gather(*(session.request(call("echo", text=str(number))) for number in range(100)))
        assert [text_of(result) for result in results] == [str(number) for number in range(100)]


async def test_server_of_both_eras_is_spoken_to_in_the_newer_one() -> None:
    async with opened("both") as (session, _):
        assert session.server.revision.name == "2026-07-28"
    async with opened("both", era="legacy") as (session, _):
        assert session.server.revision.name == "2025-11-25"
        assert session.server.instructions == "Be kind."


async def test_era_that_changed_since_it_was_learned_is_learned_again() -> None:
    async with opened("2025-06-18", era="modern") as (session, _):
        assert session.server.revision.name == "2025-06-18"


@pytest.mark.parametrize(
    ("arguments", "revision"),
    [
        (("2024-11-05", "mute"), "2024-11-05"),  # initialize follows the silence
        (("2025-11-25", "slow"), "2025-11-25"),  # both wait for the start; the error is no answer to initialize
        (("2026-07-28", "slow"), "2026-07-28"),  # initialize is refused
        (("2026-07-28", "slow", "backwards"), "2026-07-28"),  # and that comes first
        (("both", "slow"), "2026-07-28"),
    ],
)
async def test_silence_leads_to_both_requests_and_the_first_accepted_decides(
    arguments: tuple[str, ...], revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_session, "SILENCE_SECONDS", 0.3)
    async with opened(*arguments) as (session, _):
        assert session.server.revision.name == revision
        assert text_of(await session.request(call("echo", text="x"))) == "x"


async def test_child_that_dies_loses_its_requests_and_tells_once() -> None:
    async with opened("2025-11-25") as (session, events):
        waiting = asyncio.ensure_future(session.request(call("wait")))
        with pytest.raises(RequestLost, match="exited with code 3 and said: out of cheese"):
            await session.request(call("exit"))
        with pytest.raises(RequestLost):
            await waiting
        assert events.ends == ["the command exited with code 3 and said: out of cheese"]
        with pytest.raises(NotSent, match="exited with code 3"):
            await session.request(call("echo"))
        assert "out of cheese" in session.errors


async def test_error_of_the_server_is_raised_with_its_code() -> None:
    async with opened("2025-11-25") as (session, _):
        with pytest.raises(RpcError, match="unknown tool nothing") as caught:
            await session.request(call("nothing"))
        assert caught.value.code == -32602


async def test_greeting_on_standard_output_does_no_harm() -> None:
    async with opened("2025-11-25", "greets") as (session, _):
        assert text_of(await session.request(call("echo", text="x"))) == "x"


async def test_revision_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(NotAcceptable, match="'1999-01-01'"):
        await open_command(server("1999-01-01"), PROFILE, Events())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import time; time.sleep(3600)", "did not answer within"),
        ("import time; print('usage: server [-h]', flush=True); time.sleep(3600)", "prints text but no MCP messages"),
    ],
)
async def test_command_that_speaks_no_mcp_is_refused_with_what_to_do(
    code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_session, "HANDSHAKE_SECONDS", 1.0)
    monkeypatch.setattr("toolhall.mcp_client.child_process.CLOSE_SECONDS", 0.1)
    with pytest.raises(NotAcceptable, match=words):
        await open_command(CommandTarget(command=sys.executable, args=("-S", "-c", code)), PROFILE, Events())


async def test_command_that_exits_at_once_says_why() -> None:
    code = "import sys; sys.exit('no API key')"
    with pytest.raises((RequestLost, NotSent), match="exited with code 1 and said: no API key"):
        await open_command(CommandTarget(command=sys.executable, args=("-S", "-c", code)), PROFILE, Events())


async def test_server_that_does_not_read_makes_no_crowd_of_cancelled_requests() -> None:
    """Nobody knows how long it stands still; what was given up meanwhile must not pile up."""
    async with opened("2025-11-25") as (session, _):
        assert session.pid is not None
        os.kill(session.pid, signal.SIGSTOP)
        before, large = len(asyncio.all_tasks()), McpRequest(method="tools/call", params={"name": "x" * 2_000})
        for _ in range(3 * MAX_CANCELLATIONS):
            request = asyncio.create_task(session.request(large))
            await asyncio.sleep(0)
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)
        assert len(asyncio.all_tasks()) <= before + MAX_CANCELLATIONS
        os.kill(session.pid, signal.SIGCONT)
        async with asyncio.timeout(patience()):
            arguments = b'{"text": "still here"}'
            raw = await session.request(
                McpRequest(method="tools/call", params={"name": "echo"}, name="echo", encoded_arguments=arguments)
            )
        assert b"still here" in bytes(raw)
