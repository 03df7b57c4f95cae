"""The public client, over every kind of link: a hall in memory, a served one by URL, and a command."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pytest
import uvicorn
from msgspec import Meta

from tests.harness.patience import patience
from tests.servers import stdio_mcp
from tests.servers.http_mcp import HttpMcpServer, serving
from toolhall import Client, Context, SyncClient, Toolhall, prompt, resource, tool
from toolhall.client.connection import ClientOptions
from toolhall.mcp_client.session import NotAcceptable, NotSent, RequestLost, RpcError, Unauthorized
from toolhall.model.content import Message, Resource, Text
from toolhall.model.errors import BadOutput, Cancelled, ToolFailed
from toolhall.model.messages import Answered, Filled, Form, LogEvent, ProgressEvent, Question

SLOW = 3_600.0


@dataclass
class Person:
    """Who is asked for."""

    name: str


@dataclass
class Stay:
    """What a tool returns."""

    city: str
    since: date


class Hotel:
    """What happened in the tools."""

    cancelled: asyncio.Event
    booked: list[str]


@tool(effect="reads")
async def stay(city: str, since: date) -> Stay:
    """Stay in a city."""
    return Stay(city, since)


@tool(effect="reads")
async def work(ctx: Context, steps: int) -> int:
    """Work in steps."""
    for step in range(steps):
        ctx.progress(step, steps, f"step {step}")
    ctx.log("worked")
    return steps


@tool(effect="reads")
async def greet(ctx: Context) -> str:
    """Greet whoever is there."""
    given = await ctx.ask("Who is there?", Person)
    return f"Hello, {given.value.name}" if given.action == "accept" else given.action


@tool(effect="reads")
async def wait() -> None:
    """Wait for ever."""
    try:
        await asyncio.sleep(SLOW)
    finally:
        Hotel.cancelled.set()


@tool(effect="reads")
async def route(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
    """Take an argument that is repeated in a header."""
    return region


@tool(effect="writes", task=True)
async def book(ctx: Context, room: str) -> str:
    """Book a room, which takes long."""
    given = await ctx.ask("Who is there?", Person)
    Hotel.booked.append(room)
    who = given.value.name if given.action == "accept" else "nobody"
    return f"{room} for {who}"


@tool(effect="reads")
def fail() -> None:
    """Fail."""
    raise ToolFailed("no such city")


@resource("city://{name}")
def city(name: str) -> str:
    """Describe a city."""
    return f"{name} is nice"


@resource("hotel://rules")
def rules() -> str:
    """Read the rules of the house."""
    return "be quiet"


@prompt
def plan(place: str) -> str:
    """Plan a journey."""
    return f"Plan a journey to {place}"


@plan.complete("place")
async def places(typed: str) -> list[str]:
    """Complete a place."""
    return [each for each in ("Oslo", "Osaka", "Rome") if each.startswith(typed)]


EVERYTHING = (stay, work, greet, wait, route, book, fail, city, rules, plan)
Connect = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def in_memory(**options: Any) -> AsyncGenerator[Client]:
    async with Client(*EVERYTHING, **options) as client:
        yield client


@asynccontextmanager
async def listening(app: Any) -> AsyncGenerator[str]:
    """The URL of an application that listens on a free port."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    serving = asyncio.ensure_future(server.serve())
    async with asyncio.timeout(patience()):
        while not server.started:  # noqa: ASYNC110 - uvicorn tells it in no other way
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def served() -> AsyncGenerator[str]:
    """The URL of the MCP endpoint of a hall."""
    async with Toolhall(*EVERYTHING) as hall:
        await hall.open()
        async with listening(hall) as url:
            yield url
            hall.end_streams()
        await hall.settle()


@asynccontextmanager
async def by_url(**options: Any) -> AsyncGenerator[Client]:
    async with served() as url, Client(url, **options) as client:
        yield client


each_link = pytest.mark.parametrize("connect", [in_memory, by_url])


@pytest.fixture(autouse=True)
def hotel() -> None:
    Hotel.cancelled, Hotel.booked = asyncio.Event(), []


def command(*arguments: str, **options: Any) -> Client:
    return Client.command(sys.executable, "-S", str(Path(stdio_mcp.__file__)), *arguments, **options)


def ada(question: Question) -> Answered:
    assert isinstance(question, Form)
    return Filled("accept", {"name": "Ada"})


async def ada_later(question: Question) -> Answered:
    await asyncio.sleep(0)
    return ada(question)


@each_link
async def test_client_lists_tools_resources_and_prompts(connect: Connect) -> None:
    async with connect() as client:
        tools = {each.name: each for each in await client.list_tools()}
        assert tools.keys() == {"stay", "work", "greet", "wait", "route", "book", "fail"}
        assert tools["stay"].description == "Stay in a city."
        assert tools["stay"].input_schema["required"] == ["city", "since"]
        assert tools["stay"].output_schema is not None
        assert (tools["stay"].reads_only, tools["book"].reads_only) == (True, False)
        resources = await client.list_resources()
        assert [(each.uri, each.is_template) for each in resources] == [
            ("hotel://rules", False),
            ("city://{name}", True),
        ]
        (listed,) = await client.list_prompts()
        assert (listed.name, listed.arguments, listed.required) == ("plan", ("place",), ("place",))
        assert client.server.revision.name == "2026-07-28"


@each_link
async def test_call_returns_content_and_value_or_the_wanted_type(connect: Connect) -> None:
    arguments = {"city": "Oslo", "since": date(2026, 5, 17)}
    async with connect() as client:
        result = await client.call("stay", arguments)
        assert result.value == {"city": "Oslo", "since": "2026-05-17"}
        assert isinstance(result.content[0], Text)
        assert await client.call("stay", arguments, returns=Stay) == Stay("Oslo", date(2026, 5, 17))
        assert await client.call("work", {"steps": 1}, returns=int) == 1
        with pytest.raises(BadOutput, match="is no Stay"):
            await client.call("work", {"steps": 1}, returns=Stay)


@each_link
async def test_errors_say_what_happened(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(ToolFailed, match="no such city"):
            await client.call("fail")
        with pytest.raises(ToolFailed, match="/steps"):
            await client.call("work", {"steps": "many"})
        with pytest.raises(RpcError, match="unknown tool"):
            await client.call("nothing")
        with pytest.raises(RpcError):
            await client.read("nowhere://at-all")


@each_link
async def test_progress_and_log_reach_the_callbacks(connect: Connect) -> None:
    logs: list[LogEvent] = []
    progress: list[ProgressEvent] = []
    own: list[ProgressEvent] = []
    async with connect(on_progress=progress.append, on_log=logs.append) as client:
        await client.call("work", {"steps": 2})
        await client.call("work", {"steps": 1}, on_progress=own.append)
    assert [each.message for each in progress] == ["step 0", "step 1"]
    assert [each.message for each in own] == ["step 0"]
    assert [each.data for each in logs] == ["worked", "worked"]


@each_link
@pytest.mark.parametrize("answer", [ada, ada_later])
async def test_question_of_a_tool_is_answered_by_the_callback(connect: Connect, answer: Any) -> None:
    async with connect(on_question=answer) as client:
        assert await client.call("greet", returns=str) == "Hello, Ada"


@each_link
async def test_server_is_told_that_a_client_without_callback_cannot_be_asked(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises((RpcError, ToolFailed), match="elicitation"):
            await client.call("greet")


async def test_time_for_a_question_does_not_count() -> None:
    async def think(question: Question) -> Answered:
        await asyncio.sleep(1.0)
        return ada(question)

    async with Client(greet, on_question=think, timeout=0.8) as client:
        assert await client.call("greet", returns=str) == "Hello, Ada"


@each_link
async def test_timeout_and_cancellation_end_the_call_at_the_server(connect: Connect) -> None:
    async with connect() as client:
        with pytest.raises(TimeoutError):
            await client.call("wait", timeout=0.2)
        await asyncio.wait_for(Hotel.cancelled.wait(), patience())
        Hotel.cancelled.clear()
        calling = asyncio.ensure_future(client.call("wait"))
        await client.call("work", {"steps": 0})
        calling.cancel()
        await asyncio.wait_for(Hotel.cancelled.wait(), patience())


@each_link
async def test_client_reads_prompts_and_completes(connect: Connect) -> None:
    async with connect() as client:
        assert await client.read("city://Oslo") == (
            Resource(uri="city://Oslo", content="Oslo is nice", mime_type="text/plain"),
        )
        assert (await client.prompt("plan", {"place": "Oslo"})).messages == (Message.user("Plan a journey to Oslo"),)
        assert await client.complete("plan", "place", "Os") == ("Oslo", "Osaka")


@each_link
async def test_task_is_started_found_answered_and_has_its_result(connect: Connect) -> None:
    async with connect(on_question=ada) as client:
        started = await client.start_task("book", {"room": "7"})
        assert await client.task(started.id).result(returns=str) == "7 for Ada"
        status = await started.status()
        assert (status.id, status.state, status.has_ended) == (started.id, "completed", True)
        assert Hotel.booked == ["7"]


@each_link
async def test_cancelled_task_raises(connect: Connect) -> None:
    async with connect(on_question=ada) as client:
        started = await client.start_task("book", {"room": "8"})
        with pytest.raises(TimeoutError):
            await client.task(started.id).result(timeout=0.0)
        await started.cancel()
        with pytest.raises((Cancelled, RpcError)):
            await started.result(timeout=patience())


async def test_call_that_the_server_does_not_run_as_a_task_has_its_result_at_once() -> None:
    async with Client(work) as client:
        task = await client.start_task("work", {"steps": 3})
        assert (await task.status()).has_ended
        assert await task.result(returns=int) == 3
    async with command("2025-06-18") as client:
        with pytest.raises(NotAcceptable, match="use call"):
            await client.start_task("echo", {"text": "x"})


async def test_argument_that_belongs_into_a_header_is_found_without_a_list() -> None:
    async with by_url() as client:
        assert await client.call("route", {"region": "north"}, returns=str) == "north"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_command_of_any_revision_is_used_alike(revision: str) -> None:
    changes: asyncio.Queue[str] = asyncio.Queue()
    async with command(revision, on_question=ada, on_change=changes.put_nowait) as client:
        assert [each.name for each in await client.list_tools()] == list(stdio_mcp.TOOLS)
        assert await client.call("echo", {"text": "x"}, returns=str) == "x"
        assert await client.call("greet", returns=str) == "Ada"
        assert (await client.list_prompts(), await client.list_resources()) == ((), ())
        with pytest.raises(ToolFailed, match="no such city"):
            await client.call("fail")
        await client.call("change")
        assert await asyncio.wait_for(changes.get(), patience()) == "tools"
        with pytest.raises(RequestLost, match="out of cheese"):
            await client.call("exit")
        with pytest.raises(NotSent):
            await client.call("echo", {"text": "x"})


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_server_of_any_revision_gets_the_key_with_every_request(revision: str) -> None:
    async with serving(HttpMcpServer(revision)) as server, Client(server.url, key="sesame-4711") as client:
        assert client.server.revision.name == revision
        assert await client.call("echo", {"a": 1}, returns=dict[str, int]) == {"a": 1}
    assert {wire.headers.get("authorization") for wire in server.seen} == {"Bearer sesame-4711"}


async def test_key_goes_to_no_other_machine_without_encryption() -> None:
    with pytest.raises(NotAcceptable, match="not encrypted"):
        await Client("http://mcp.example.com/mcp", key="sesame-4711").__aenter__()


async def test_key_and_headers_are_sent_and_never_shown() -> None:
    seen: list[dict[bytes, bytes]] = []

    async def gate(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope["headers"]))
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with listening(gate) as url:
        client = Client(url, key="sesame-4711", headers={"X-Tenant": "oslo"})
        with pytest.raises(Unauthorized) as caught:
            await client.__aenter__()
    assert seen[0][b"authorization"] == b"Bearer sesame-4711"
    assert seen[0][b"x-tenant"] == b"oslo"
    assert "sesame" not in f"{caught.value!r} {caught.value.reason} {client!r}"


async def test_given_hall_is_left_as_it_was_found() -> None:
    hall = Toolhall(work)
    async with hall:
        async with Client(hall) as client, Client(hall) as other:
            assert await client.call("work", {"steps": 2}, returns=int) == 2
            assert await other.call("work", {"steps": 3}, returns=int) == 3
        async with Client(hall) as client:
            assert await client.call("work", {"steps": 4}, returns=int) == 4


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((), {}, "name a server"),
        (("npx",), {}, "Client.command"),
        (("ftp://host/mcp",), {}, "is no URL"),
        (("http://host/mcp", work), {}, "a URL stands alone"),
        ((work,), {"key": "k"}, "for servers at a URL"),
        (("http://127.0.0.1:1/mcp",), {"key": "two words"}, "one word"),
        ((work,), {"on_progres": print}, "on_progres"),
    ],
)
def test_client_that_cannot_be_is_refused_at_once(
    arguments: tuple[object, ...], options: ClientOptions, words: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        Client(*arguments, **options)


async def test_client_is_used_inside_async_with_only() -> None:
    client = Client(work)
    with pytest.raises(RuntimeError, match="async with"):
        await client.list_tools()
    async with client:
        with pytest.raises(RuntimeError, match="open already"):
            await client.__aenter__()
        with pytest.raises(TypeError, match="async with Client"):
            SyncClient(work).__enter__()


def test_sync_client_does_the_same() -> None:
    progress: list[ProgressEvent] = []
    with SyncClient(*EVERYTHING, on_question=ada, on_progress=progress.append) as client:
        assert "stay" in [each.name for each in client.list_tools()]
        assert client.call("stay", {"city": "Oslo", "since": "2026-05-17"}).value["city"] == "Oslo"
        assert client.call("work", {"steps": 2}, returns=int) == 2
        assert client.call("greet", returns=str) == "Hello, Ada"
        assert client.read("hotel://rules")[0].content == "be quiet"
        assert client.prompt("plan", {"place": "Oslo"}).description == "Plan a journey."
        assert client.complete("plan", "place", "R") == ("Rome",)
        assert len(client.list_resources()) == 2
        assert len(client.list_prompts()) == 1
        task = client.start_task("book", {"room": "9"})
        assert task.result(returns=str) == "9 for Ada"
        assert client.task(task.id).status().state == "completed"
    assert len(progress) == 2
    with pytest.raises(RuntimeError, match="with SyncClient"):
        client.list_tools()


def test_sync_client_of_a_command_ends_it() -> None:
    with SyncClient.command(sys.executable, "-S", str(Path(stdio_mcp.__file__)), "2025-11-25") as client:
        assert client.server.name == "stdio"
        assert client.call("echo", {"text": "x"}).text == "x"


@each_link
async def test_question_of_another_kind_than_declared_is_not_asked(connect: Connect) -> None:
    async with connect(on_question=ada, features=("sampling",)) as client:
        with pytest.raises((RpcError, ToolFailed), match="elicitation"):
            await client.call("greet")
