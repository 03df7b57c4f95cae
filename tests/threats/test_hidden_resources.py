# ruff: noqa: N802 - tests carry the names of their rows
"""What callers learn of resources and prompts that they may not read: nothing, in whatever way they ask."""

import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.harness.asgi_client import AsgiRequest, post_json
from tests.harness.http_client import Response
from tests.harness.lateness import measured_lateness
from tests.harness.mcp_messages import modern_request
from tests.harness.seeds import count
from toolhall import Config, Context, Toolhall, Toolkit, prompt, resource
from toolhall.mcp.subscriptions import MAX_PER_CALLER
from toolhall.model.caller import LOCAL
from toolhall.model.messages import Complete, Completion
from toolhall.registration.access import NewCondition, NewGrant, NewKey
from toolhall.stores.audit.journal import MemoryJournal

LISTENERS = 1_000
STREAMS = count(200, 1_000)
HEARD_SECONDS = 1.0
UPDATED = b'"notifications/resources/updated"'


class Vault(Toolkit, version="1.0.0", level=5):
    """What needs a grant."""

    @resource("vault://plans")
    async def plans(self) -> str:
        """The plans."""
        return "secret plans"

    @resource("vault://files/{name}")
    async def file(self, name: str) -> str:
        """A file."""
        return f"secret {name}"

    @file.complete("name")
    async def names(self) -> list[str]:
        return ["blueprint", "budget"]

    @prompt
    async def brief(self, topic: str = "plans") -> str:
        """Brief somebody."""
        return f"secret {topic}"

    @brief.complete("topic")
    async def topics(self) -> list[str]:
        return ["plans"]


class Lobby(Toolkit, version="1.0.0", level=1):
    """What everybody with a key may read."""

    @resource("vault://{name}")
    async def sign(self, ctx: Context, name: str) -> str:
        """What stands on the door."""
        return f"the door of {name}"

    @prompt
    async def greet(self) -> str:
        """Greet somebody."""
        return "hello"


class Guests:
    """A hall with Ada, who may read everything, and Eve, who may read what needs no grant."""

    def __init__(self) -> None:
        self.hall = Toolhall(Vault, Lobby, config=Config(profile="server", public_url="http://localhost:8000"))
        self.keys: dict[str, str] = {}
        self.grant = ""

    async def open(self) -> None:
        """Make the keys and the grant."""
        await self.hall.open()
        for name in ("ada", "eve"):
            _, self.keys[name] = await self.hall.access.keys.create(NewKey(name=name), "test")
        self.grant = (await self.hall.access.grants.add(NewGrant(callers="ada", tools="Vault.*"), "test")).id

    async def ask(self, caller: str, method: str, params: dict[str, Any]) -> Response:
        """One request of the newest revision."""
        body, headers = modern_request(method, params)
        return await post_json(self.hall.http, "/mcp", json.dumps(body).encode(), self.with_key(caller, headers))

    def listen(self, caller: str, wanted: dict[str, Any], number: int = 1) -> AsgiRequest:
        """A listen stream that has begun."""
        body, headers = modern_request("subscriptions/listen", {"notifications": wanted}, id=number)
        headers = self.with_key(caller, headers) | {"host": "localhost"}
        return AsgiRequest(self.hall.http, "POST", "/mcp", json.dumps(body).encode(), headers).start()

    def with_key(self, caller: str, headers: dict[str, str]) -> dict[str, str]:
        """The headers of a request of this caller."""
        usual = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        return usual | headers | {"authorization": f"Bearer {self.keys[caller]}"}


@pytest.fixture
async def guests() -> AsyncIterator[Guests]:
    guests = Guests()
    with guests.hall:
        await guests.open()
        yield guests


def masked(reply: Response, *names: str) -> tuple[int, bytes]:
    """A response without the names that the request repeated."""
    body = reply.body
    for name in names:
        body = body.replace(name.encode(), b"X")
    return reply.status, body


@pytest.mark.threat("B11")
@pytest.mark.requirement("RS-2", "CO-5")
@pytest.mark.parametrize(
    ("method", "hidden", "unknown", "names"),
    [
        ("resources/read", {"uri": "vault://files/a"}, {"uri": "vault://nothing/a"}, ("vault://files/a", "vault://nothing/a")),
        ("prompts/get", {"name": "Vault_brief"}, {"name": "Vault_other"}, ("Vault_brief", "Vault_other")),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "Vault_brief"}, "argument": {"name": "topic", "value": ""}},
            {"ref": {"type": "ref/prompt", "name": "Vault_other"}, "argument": {"name": "topic", "value": ""}},
            ("Vault_brief", "Vault_other"),
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "vault://files/{name}"}, "argument": {"name": "name", "value": ""}},
            {"ref": {"type": "ref/resource", "uri": "vault://other/{name}"}, "argument": {"name": "name", "value": ""}},
            ("vault://files/{name}", "vault://other/{name}"),
        ),
        (
            "tools/call",
            {"name": "Vault.plans@1.0.0", "arguments": {}},
            {"name": "Vault.other@1.0.0", "arguments": {}},
            ("Vault.plans@1.0.0", "Vault.other@1.0.0"),
        ),
    ],
)  # fmt: skip
async def test_B11_what_a_caller_may_not_read_answers_like_what_is_not_there(
    guests: Guests, method: str, hidden: dict[str, Any], unknown: dict[str, Any], names: tuple[str, str]
) -> None:
    for _ in range(2):  # the second time from what was kept
        assert "error" not in (await guests.ask("ada", method, hidden)).answer or method == "tools/call"
        assert masked(await guests.ask("eve", method, hidden), *names) == masked(
            await guests.ask("eve", method, unknown), *names
        )


@pytest.mark.threat("B11")
@pytest.mark.requirement("RS-2", "CA-2")
async def test_B11_lists_hold_only_what_their_caller_may_read(guests: Guests) -> None:
    for caller, seen in (("ada", True), ("eve", False), ("ada", True)):
        for method in ("resources/list", "resources/templates/list", "prompts/list"):
            reply = await guests.ask(caller, method, {})
            assert (b"Vault" in reply.body) == seen, method
            assert reply.result["cacheScope"] == "private"


@pytest.mark.threat("B11")
async def test_B11_uri_of_a_hidden_resource_means_what_its_caller_may_read(guests: Guests) -> None:
    """A template below an exact URI that is hidden: whoever may not see the one gets the other."""
    for caller, text in (("ada", "secret plans"), ("eve", "the door of plans")):
        reply = await guests.ask(caller, "resources/read", {"uri": "vault://plans"})
        assert reply.result["contents"][0]["text"] == text


@pytest.mark.threat("B11")
@pytest.mark.requirement("SB-3")
async def test_B11_listener_hears_nothing_of_what_it_may_not_read(guests: Guests) -> None:
    wanted = {"resourceSubscriptions": ["vault://files/a", "vault://nothing/a"], "resourcesListChanged": True}
    stream = guests.listen("eve", wanted)
    acknowledged = await stream.until(b"acknowledged")
    assert b'"notifications":{"resourcesListChanged":true}' in acknowledged
    await stream.disconnect()


@pytest.mark.threat("B11")
async def test_B11_revoked_grant_is_silent_from_the_next_change_on(guests: Guests) -> None:
    stream = guests.listen("ada", {"resourceSubscriptions": ["vault://files/a", "vault://door"]})
    await stream.until(b"acknowledged")
    guests.hall.dispatcher.changes.changed("vault://files/a")
    await stream.until(b'"uri":"vault://files/a"')
    await guests.hall.access.grants.remove(guests.grant)
    guests.hall.dispatcher.changes.changed("vault://files/a")
    guests.hall.dispatcher.changes.changed("vault://door")
    heard = await stream.until(b'"uri":"vault://door"')
    assert heard.count(b'"uri":"vault://files/a"') == 1
    await stream.disconnect()


async def test_every_listener_that_asked_hears_a_change_once_and_nobody_else(guests: Guests) -> None:
    """A thousand listeners of one resource, and as many of another."""
    changes, heard, others = guests.hall.dispatcher.changes, list[int](), list[int]()

    def listener(number: int, into: list[int]) -> Callable[[str], None]:
        def hear(uri: str) -> None:
            into.append(number)

        return hear

    ends = [changes.subscribe("vault://plans", listener(number, heard), "a") for number in range(LISTENERS)]
    ends += [changes.subscribe("vault://other", listener(number, others), "b") for number in range(LISTENERS)]
    changes.changed("vault://plans")
    assert sorted(heard) == list(range(LISTENERS))
    assert others == []
    for end in ends:
        end()
    changes.changed("vault://plans")
    assert len(heard) == LISTENERS, "who has ended hears nothing"
    assert (changes.count_of("a"), changes.count_of("b")) == (0, 0)


async def test_listen_streams_that_asked_carry_a_change_once_and_no_other_does(guests: Guests) -> None:
    """The same on the wire, where all that asked have heard within a second."""
    streams: dict[str, list[AsgiRequest]] = {"vault://door": [], "vault://gate": []}
    for number in range(STREAMS // MAX_PER_CALLER):
        uri, name = list(streams)[number % 2], f"guest-{number}"
        _, guests.keys[name] = await guests.hall.access.keys.create(NewKey(name=name), "test")
        wanted = {"resourceSubscriptions": [uri]}
        streams[uri] += [guests.listen(name, wanted, place) for place in range(MAX_PER_CALLER)]
    every = [stream for of_one in streams.values() for stream in of_one]
    assert len(every) == STREAMS
    for stream in every:
        await stream.until(b"acknowledged")
    times: list[tuple[float, float]] = []
    with measured_lateness() as lateness:
        for uri, asked in streams.items():
            began = time.monotonic()
            guests.hall.dispatcher.changes.changed(uri)
            for stream in asked:
                await stream.until(UPDATED)
            times.append((began, time.monotonic()))
    for began, ended in times:
        assert ended - began < HEARD_SECONDS + lateness.late(HEARD_SECONDS, began, ended)
    for uri, asked in streams.items():
        assert all(stream.sent.count(UPDATED) == stream.sent.count(f'"uri":"{uri}"'.encode()) == 1 for stream in asked)
    for stream in every:
        await stream.disconnect()


@pytest.mark.threat("I3")
async def test_I3_subscriptions_of_one_caller_are_bounded(guests: Guests) -> None:
    wanted = {"resourceSubscriptions": [f"vault://door{number}" for number in range(1_001)]}
    body, headers = modern_request("subscriptions/listen", {"notifications": wanted})
    reply = await post_json(guests.hall.http, "/mcp", json.dumps(body).encode(), guests.with_key("eve", headers))
    assert reply.status == 429
    assert "at most 1000 resources" in reply.answer["error"]["message"]
    assert guests.hall.dispatcher.changes.count_of("eve") == 0, "all or nothing"


@pytest.mark.threat("I4")
@pytest.mark.requirement("CO-5")
async def test_I4_completions_of_one_caller_have_a_limit_of_their_own(guests: Guests) -> None:
    asked = {"ref": {"type": "ref/prompt", "name": "Vault_brief"}, "argument": {"name": "topic", "value": ""}}
    replies = [await guests.ask("ada", "completion/complete", asked) for _ in range(60)]
    assert {each.status for each in replies} == {200, 429}
    assert (await guests.ask("ada", "prompts/get", {"name": "Vault_brief"})).status == 200, "which is no other limit's"


@pytest.mark.threat("B10")
async def test_B10_completion_under_a_conditional_grant_shows_no_values(guests: Guests) -> None:
    """A grant for some values only: the function's list of all values would say what else there is."""
    await guests.hall.access.grants.remove(guests.grant)
    condition = NewCondition(path="/name", equals="budget")
    await guests.hall.access.grants.add(NewGrant(callers="ada", tools="Vault.*", conditions=(condition,)), "test")
    ref = {"type": "ref/resource", "uri": "vault://files/{name}"}
    reply = await guests.ask("ada", "completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}})
    assert reply.result["completion"]["values"] == []
    assert (await guests.ask("ada", "resources/read", {"uri": "vault://files/budget"})).status == 200
    refused = await guests.ask("ada", "resources/read", {"uri": "vault://files/blueprint"})
    assert refused.answer["error"]["code"] == -32010


async def test_completion_answers_by_the_dispatcher_alone(guests: Guests) -> None:
    """The same without a wire: the only way to a completion function."""
    asked = Complete(kind="prompt", name="Vault_brief", argument="topic", typed="p", dialect="test")
    assert await guests.hall.dispatcher.complete(asked, LOCAL) == Completion(("plans",), 1)


async def test_completions_are_counted_and_not_recorded(guests: Guests) -> None:
    asked = {"ref": {"type": "ref/prompt", "name": "Vault_brief"}, "argument": {"name": "topic", "value": ""}}
    assert isinstance(guests.hall.journal, MemoryJournal)
    before = len(guests.hall.journal.records)
    await guests.ask("ada", "completion/complete", asked)
    assert guests.hall.dispatcher.completion_count() == 1
    assert len(guests.hall.journal.records) == before


async def test_hall_tells_of_a_change_from_outside_a_tool(guests: Guests) -> None:
    heard: list[str] = []
    end = guests.hall.dispatcher.changes.subscribe("vault://plans", heard.append)
    guests.hall.changed("vault://plans")
    end()
    assert heard == ["vault://plans"]


async def test_id_is_no_uri_for_a_completion(guests: Guests) -> None:
    ref = {"type": "ref/resource", "uri": "Vault.file@1.0.0"}
    reply = await guests.ask("ada", "completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}})
    assert reply.answer["error"]["message"] == "unknown resource: Vault.file@1.0.0"


async def test_change_of_a_query_is_told_to_listeners_of_its_path(guests: Guests) -> None:
    heard: list[str] = []
    ends = [guests.hall.dispatcher.changes.subscribe(uri, heard.append) for uri in ("vault://plans", "vault://other")]
    guests.hall.changed("vault://plans?page=2")
    for end in ends:
        end()
    assert heard == ["vault://plans?page=2"]
