# ruff: noqa: N802 - tests carry the names of their rows
"""K23: what was decided for one request of a connection is decided anew for the next one with the same head."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.http_client import HOST, AsyncConnection, Header, http_request
from tests.harness.mcp_messages import MODERN, encoded, headers_for, tool_call
from tests.threats.guarded import PUBLIC_URL
from toolhall import Config, Toolhall, Toolkit, tool
from toolhall.http.request import RequestHead, ServerExchange
from toolhall.registration.access import NewGrant, NewKey
from toolhall.registration.records import DefinitionDocument, RegistrationSource
from toolhall.server.context import ServerContext
from toolhall.server.limits import ConnectionLimiter
from toolhall.server.server import HallServer
from toolhall.stores.audit.journal import MemoryJournal

ORDER = "Shop.order@1.0.0"
DIALECTS = ("mcp", "rest", "oxp")
ONE_PATH = ("mcp", "oxp")  # for all tools; the path of REST names the tool


class Shop(Toolkit, version="1.0.0"):
    """A shop."""

    @tool(level=4)
    async def order(self, item: str) -> str:
        """Order something."""
        return f"ordered {item}"


class Busy(Toolkit, name="Shop", version="1.0.0"):
    """The same shop, which wants a person's word for the same order."""

    @tool(level=9)
    async def order(self, item: str) -> str:
        """Order something."""
        return f"ordered {item} without a word"


class Served:
    """A hall of the `server` profile behind a real socket, and what it serves by known heads."""

    def __init__(self, hall: Toolhall) -> None:
        self.hall = hall
        self.port = 0
        self.recognized = 0
        self.keys: dict[str, str] = {}
        self.key_ids: dict[str, str] = {}
        self.grant = ""
        serve = hall.http.serve

        seen: list[RequestHead] = []  # by a connection each: the first request of a head was parsed

        def counting(head: RequestHead, body: bytes, exchange: ServerExchange) -> Coroutine[Any, Any, None]:
            if head in seen:
                self.recognized += 1
            seen.append(head)
            return serve(head, body, exchange)

        hall.http.serve = counting  # type: ignore[method-assign] # counted for the test

    async def enroll(self, *names: str) -> None:
        """Give each a key, and all of them a grant."""
        for name in names:
            key, self.keys[name] = await self.hall.access.keys.create(NewKey(name), "test")
            self.key_ids[name] = key.id
        self.grant = (await self.hall.access.grants.add(NewGrant("*", "*"), "test")).id

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        """Who called, and what came of it, of every call so far; intents left out."""
        assert isinstance(self.hall.journal, MemoryJournal)
        return [(each.caller, each.outcome) for each in self.hall.journal.records if each.phase is None]

    def request(self, dialect: str, caller: str | None = "alice", name: str = "Shop.order", item: str = "tea") -> bytes:
        """One whole request."""
        path, body = call_in(dialect, name, item)
        headers: list[Header] = [
            ("Host", f"{HOST}:{self.port}"),
            ("Content-Type", "application/json"),
            *([("Authorization", f"Bearer {self.keys.get(caller, caller)}")] if caller else []),
            *(headers_for(body) if dialect == "mcp" else []),
            ("Content-Length", str(len(body))),
        ]
        return http_request("POST", path, headers, body)


def call_in(dialect: str, name: str, item: str) -> tuple[str, bytes]:
    """Where a call is sent, and what."""
    kit, _, method = name.partition(".")
    match dialect:
        case "mcp":
            return "/mcp", encoded(tool_call(MODERN, f"{kit}_{method}", {"item": item}))
        case "rest":
            return f"/tools/{kit}/{method}", encoded({"item": item})
        case _:
            return "/oxp/tools/call", encoded({"request": {"tool_id": name, "input": {"item": item}}})


@asynccontextmanager
async def served(*names: str) -> AsyncGenerator[Served]:
    """Serve the shop to callers with these keys."""
    config = Config(profile="server", public_url=PUBLIC_URL, allowed_hosts=(HOST,))
    with Toolhall(Shop, config=config) as hall, socket.create_server((HOST, 0)) as listening:
        found, begun = Served(hall), asyncio.Event()
        found.port = listening.getsockname()[1]
        server = HallServer(hall, lambda _: begun.set(), ServerContext(hall, ConnectionLimiter()))
        serving = asyncio.create_task(server.serve([listening]))
        await begun.wait()
        await found.enroll(*names)
        try:
            yield found
        finally:
            server.stop()
            await serving


@asynccontextmanager
async def connected(hall: Served) -> AsyncGenerator[AsyncConnection]:
    client = await AsyncConnection.open(hall.port)
    try:
        yield client
    finally:
        await client.close()


async def ask(client: AsyncConnection, request: bytes) -> tuple[int, str]:
    """Send a request; the status, and the body as text."""
    client.send(request)
    reply = await client.reply()
    return reply.status, json.dumps(reply.json)


def is_open(hall: Served) -> bool:
    return hall.hall.http.opened


async def revoke_key(hall: Served) -> None:
    await hall.hall.access.keys.revoke(hall.key_ids["alice"])


async def remove_grant(hall: Served) -> None:
    await hall.hall.access.grants.remove(hall.grant)


async def forbid(hall: Served) -> None:
    await hall.hall.access.grants.add(NewGrant("alice", "Shop.*", effect="forbid"), "test")


async def deactivate(hall: Served) -> None:
    await hall.hall.registration.deactivate(ORDER, "test")


async def replace(hall: Served) -> None:
    hall.hall.remove(ORDER)
    hall.hall.registration.add_code_tools(Toolhall(Busy).registry.snapshot.entries)


async def remove(hall: Served) -> None:
    hall.hall.remove(ORDER)


CHANGES: dict[str, tuple[Callable[[Served], Awaitable[None]], str]] = {
    "key_revoked": (revoke_key, "Unauthenticated"),
    "grant_removed": (remove_grant, "NotFound"),
    "forbidden": (forbid, "NotFound"),
    "deactivated": (deactivate, "NotFound"),
    "replaced": (replace, "NeedsVerification"),
    "removed": (remove, "NotFound"),
}


@pytest.mark.threat("K23")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("change", CHANGES)
async def test_K23_same_request_on_the_same_connection_is_refused_after_the_change(change: str, dialect: str) -> None:
    """A revoked key, a removed grant, a forbidding one, and a tool that is withdrawn or replaced count at once."""
    apply, outcome = CHANGES[change]
    async with served("alice") as hall, connected(hall) as client:
        request = hall.request(dialect)
        for _ in range(3):
            status, said = await ask(client, request)
            assert (status, "ordered tea" in said) == (200, True), said
        assert hall.recognized == 2
        await apply(hall)
        status, said = await ask(client, request)
        assert "ordered tea" not in said
        assert hall.outcomes[-1][1] == outcome
        assert [each for _, each in hall.outcomes] == ["ok"] * 3 + [outcome]
        if outcome == "Unauthenticated":
            assert status == 401
            assert await client.rest() == b""


@pytest.mark.threat("K23")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_K23_tool_that_is_quarantined_between_two_requests_is_unknown_to_the_second(dialect: str) -> None:
    """A definition from outside that changes is withdrawn until somebody has looked at it."""

    async def declare(hall: Toolhall, title: str, *, trusted: bool) -> None:
        params = {"type": "object", "properties": {"item": {"type": "string", "title": title}}}
        method = {"name": "create", "params": params}
        tool_of = {"name": "Calendar", "version": "1.0.0-dev", "capabilities": {"methods": [method]}}
        source = RegistrationSource("tool-server", "carol", 5.0, "calendars")
        paper = DefinitionDocument({"tool": tool_of}, "hub", "calendars")
        await hall.registration.register_declared([paper], source, lambda: None, trusted=trusted)

    async with served("alice") as hall, connected(hall) as client:
        await declare(hall.hall, "first", trusted=True)
        request = hall.request(dialect, name="Calendar.create")
        for _ in range(2):
            await ask(client, request)
        assert [each for _, each in hall.outcomes] == ["Unavailable"] * 2, "it is served, but its server is not there"
        await declare(hall.hall, "second", trusted=False)
        await ask(client, request)
        assert hall.outcomes[-1] == ("alice", "NotFound")


@pytest.mark.threat("K23")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_K23_head_with_a_credential_is_not_known_to_another_connection(dialect: str) -> None:
    """Nor does one on the same connection lend its caller to a request with another credential, or with none."""
    async with served("alice", "bob") as hall, connected(hall) as first, connected(hall) as second:
        for _ in range(2):
            assert (await ask(first, hall.request(dialect)))[0] == 200
        recognized = hall.recognized
        assert (await ask(second, hall.request(dialect, "bob")))[0] == 200
        assert hall.recognized == recognized
        for caller in ("bob", "alice", "bob", "alice"):
            assert (await ask(first, hall.request(dialect, caller)))[0] == 200
        assert [caller for caller, _ in hall.outcomes] == ["alice", "alice", "bob", "bob", "alice", "bob", "alice"]
        for client, request in ((first, hall.request(dialect, None)), (second, hall.request(dialect, "forged"))):
            status, said = await ask(client, request)
            assert status == 401, said
            assert await client.rest() == b""
        assert [each for _, each in hall.outcomes[7:]] == ["Unauthenticated"] * 2


@pytest.mark.threat("K23")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_K23_known_head_opens_a_hall_that_was_closed_like_any_request(dialect: str) -> None:
    """What was decided before the hall was closed does not let a request into one that is not open."""
    async with served("alice") as hall, connected(hall) as client:
        for _ in range(2):
            assert (await ask(client, hall.request(dialect)))[0] == 200
        await hall.hall.settle()
        assert not is_open(hall)
        assert (await ask(client, hall.request(dialect)))[0] == 200
        assert is_open(hall), "the request opened it again"
        await revoke_key(hall)
        assert (await ask(client, hall.request(dialect)))[0] == 401


@pytest.mark.threat("K23")
@pytest.mark.parametrize("dialect", ONE_PATH)
async def test_K23_known_head_followed_by_another_name_calls_the_other_tool(dialect: str) -> None:
    """The head decides nothing about the body; one that contradicts it is refused as ever."""
    async with served("alice") as hall, connected(hall) as client:
        for item in ("tea", "a kettle", "cups"):
            assert f"ordered {item}" in (await ask(client, hall.request(dialect, item=item)))[1]
        _, body = call_in(dialect, "Shop.nothing", "tea")
        head = hall.request(dialect).partition(b"\r\n\r\n")[0].rpartition(b" ")[0]
        await ask(client, head + b" %d\r\n\r\n" % len(body) + body)
        assert hall.recognized == 3
        assert hall.outcomes[-1][1] == ("Malformed" if dialect == "mcp" else "NotFound")
