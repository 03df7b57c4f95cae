"""Callers of one upstream are kept apart: their sessions, the calls that wait for them, and their credentials."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.faults.upstream_hall import (
    FaultyUpstream,
    UpstreamCaller,
    UpstreamHall,
    nonce,
    patched_command,
    upstream_hall,
)
from tests.harness.dialect_clients import DIALECT_CLIENTS, TEXT, Call, Outcome
from tests.harness.http_client import Message
from tests.harness.mcp_messages import MODERN, NOVEMBER, McpAnswer, tool_call
from tests.harness.seeds import count
from tests.harness.sync_mcp_client import SyncHttpMcpClient, call_tool

CALLS = count(1_000, 10_000)
AT_ONCE = 8
SURE: Message = {"action": "accept", "content": {"sure": True}}
INVALID_PARAMS = -32602


class Site(dict[str, FaultyUpstream]):
    """Upstreams by name, and the hall in front of them."""

    hall: UpstreamHall


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A hall for every test here, in which Alice and Bob have keys."""
    folder = tmp_path_factory.mktemp("site")
    found = Site()
    for made in (
        FaultyUpstream(folder, "Own", "stdio", share="caller"),
        FaultyUpstream(folder, "Shared", "stdio", share="hall"),
        FaultyUpstream(folder, "Chats", "stdio", share="session"),
        FaultyUpstream(folder, "Asks", "stdio", share="caller", timeout=20),
        FaultyUpstream(folder, "AsksHttp", "http", timeout=20),
    ):
        found[made.name] = made
    with upstream_hall(folder, *found.values()) as found.hall:
        for name in ("alice", "bob"):
            found.hall.admit(name)
        yield found


@pytest.fixture
async def alice(site: Site) -> AsyncIterator[UpstreamCaller]:
    await site.hall.until_ready(*site.values())
    caller = UpstreamCaller(site.hall, site.hall.web.keys["alice"])
    yield caller
    await caller.close()


@pytest.fixture
async def bob(site: Site) -> AsyncIterator[UpstreamCaller]:
    caller = UpstreamCaller(site.hall, site.hall.web.keys["bob"])
    yield caller
    await caller.close()


async def counted(upstream: str, *callers: UpstreamCaller) -> list[str]:
    return [(await each.call(f"{upstream}_count")).text for each in callers]


async def test_callers_have_children_of_their_own_unless_the_operator_shares_one(
    site: Site, alice: UpstreamCaller, bob: UpstreamCaller
) -> None:
    assert await counted("Own", alice, bob, alice, bob, alice) == ["1", "1", "2", "2", "3"]
    assert await counted("Shared", alice, bob, alice, bob, alice) == ["1", "2", "3", "4", "5"]
    assert len({*site["Own"].pids}) >= 2
    assert len({*site["Shared"].pids}) == 1


def test_chats_of_one_person_have_children_of_their_own(site: Site, alice: UpstreamCaller) -> None:
    first, second = (SyncHttpMcpClient(site.hall.port, NOVEMBER) for _ in range(2))
    assert [call_tool(each, "Chats_count").text for each in (first, second, first)] == ["1", "1", "2"]
    assert [call_tool(each, "Own_count").text for each in (first, second)] == ["1", "2"], "of one caller"


# --- calls that wait for a person -------------------------------------------------------------------------------------


def answering(asked: McpAnswer, message: Message) -> Message:
    """The next request of a call that asked something, with this tool and these arguments."""
    replies = dict.fromkeys(asked.result["inputRequests"], SURE)
    params = {**message["params"], "inputResponses": replies, "requestState": asked.result["requestState"]}
    return {**message, "params": params}


@pytest.mark.parametrize("name", ["Asks", "AsksHttp"])
async def test_effect_before_a_question_happens_once_whoever_else_tries_to_answer(
    site: Site, alice: UpstreamCaller, bob: UpstreamCaller, name: str
) -> None:
    """A modern client, and a legacy upstream that has its effect and then asks."""
    upstream, call = site[name], tool_call(MODERN, f"{name}_ask", {"nonce": nonce()})
    asked = await alice.send(call)
    assert asked.result["resultType"] == "input_required"
    other_tool = tool_call(MODERN, f"{name}_write", call["params"]["arguments"])
    other_arguments = tool_call(MODERN, f"{name}_ask", {"nonce": nonce()})
    broken = answering(asked, call)
    broken["params"]["requestState"] = broken["params"]["requestState"][:-2] + "AA"
    for caller, message in (
        (bob, answering(asked, call)),
        (alice, answering(asked, other_tool)),
        (alice, answering(asked, other_arguments)),
        (alice, broken),
    ):
        refused = await caller.send(message)
        assert refused.code == INVALID_PARAMS, refused.message
    done = await alice.send(answering(asked, call))
    assert json.loads(done.text) == SURE
    again = await alice.send(answering(asked, call))
    assert again.code == INVALID_PARAMS
    assert upstream.calls.count(call["params"]["arguments"]["nonce"]) == 1
    assert not {other_arguments["params"]["arguments"]["nonce"]} & {*upstream.calls}


async def test_answer_that_comes_too_late_is_refused(tmp_path: Path) -> None:
    upstream = FaultyUpstream(tmp_path, "Asks", "stdio")
    patch = "from toolhall.mcp import request_state\nrequest_state.STATE_SECONDS = 0.0"
    with upstream_hall(tmp_path, upstream, command=patched_command(patch)) as hall:
        await hall.until_ready(upstream)
        caller, call = UpstreamCaller(hall), tool_call(MODERN, "Asks_ask", {"nonce": nonce()})
        late = await caller.send(answering(await caller.send(call), call))
        assert (late.code, "too old" in late.text) == (INVALID_PARAMS, True)
        assert len(upstream.calls) == 1
        await caller.close()


async def test_waiting_calls_of_two_callers_get_their_own_answers(
    site: Site, alice: UpstreamCaller, bob: UpstreamCaller
) -> None:
    calls = [(caller, tool_call(MODERN, "AsksHttp_ask", {"nonce": nonce()})) for caller in (alice, bob) for _ in "12"]
    asked = [await caller.send(call) for caller, call in calls]
    for number in (3, 0, 2, 1):
        caller, call = calls[number]
        reply = answering(asked[number], call)
        for key in reply["params"]["inputResponses"]:
            reply["params"]["inputResponses"][key] = {"action": "decline"} if number % 2 else SURE
        told: Any = json.loads((await caller.send(reply)).text)
        assert told["action"] == ("decline" if number % 2 else "accept")


# --- what upstreams receive -------------------------------------------------------------------------------------------


async def test_no_upstream_receives_a_callers_key_or_the_secret_of_another_user(tmp_path: Path) -> None:
    """Callers in every dialect, mixed, who put their keys where proxies may forward them from."""
    upstreams = [
        FaultyUpstream(tmp_path, "Notes", "http", headers={"X-Key": "${secret:NOTES_KEY}"}),
        FaultyUpstream(tmp_path, "Mail", "http", modern=True),
        FaultyUpstream(tmp_path, "Files", "stdio"),
    ]
    for each in upstreams:
        each.record()
    people = ("carol", "dave")
    with upstream_hall(tmp_path, *upstreams) as hall:
        web, chance = hall.web, Random(3)
        secrets = {person: f"secret-of-{person}-0123456789" for person in people}
        for person in people:
            hall.admit(person)
            made = web.ask("PUT", f"/api/secrets/NOTES_KEY?user={person}", {"value": secrets[person]})
            assert made.status == 200, made
        assert web.ask("PUT", "/api/secrets/NOTES_KEY", {"value": "secret-of-the-hall-0123"}).status == 200
        await hall.until_ready(*upstreams)
        made_calls: list[tuple[str, str, str]] = []

        async def work() -> None:
            clients = [make() for make in DIALECT_CLIENTS]
            while len(made_calls) < CALLS:
                person, upstream, client = chance.choice(people), chance.choice(upstreams), chance.choice(clients)
                name = f"{person}-{nonce()}"
                made_calls.append((person, upstream.name, name))
                call = Call(person, upstream.name, "write", {"nonce": name})
                reply = await client.send(_Spreading(hall), call)
                assert client.read(reply, TEXT) == Outcome("ok", name), reply

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        keys = [key.encode() for key in web.keys.values()]
    for upstream in upstreams:
        received = upstream.received
        assert all(name.encode() in received for _, at, name in made_calls if at == upstream.name)
        assert not [key for key in keys if key in received]
        if upstream.name != "Notes":
            assert b"secret-of-" not in received
    requests = re.split(rb"(?:POST|GET|DELETE) /mcp HTTP/1.1\r\n", upstreams[0].received)
    calls = [each for each in requests if b'"tools/call"' in each]
    assert len(calls) == sum(at == "Notes" for _, at, _ in made_calls)
    for person in people:
        assert all((secrets[person].encode() in each) == (f'"{person}-'.encode() in each) for each in calls)


class _Spreading:
    """Sends calls whose key stands in other headers as well."""

    def __init__(self, hall: UpstreamHall) -> None:
        self._hall = hall

    async def post(self, path: str, body: bytes, caller: str | None, headers: dict[str, str]) -> Any:
        """Poster: with the key wherever somebody might take it for what is passed on."""
        key = self._hall.web.keys[caller or ""]
        names = ("cookie", "x-key", "x-api-key-upstream", "baggage", "tracestate", "x-forwarded-authorization")
        return await self._hall.web.post(path, body, caller, headers | dict.fromkeys(names, f"k={key}"))
