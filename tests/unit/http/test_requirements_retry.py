"""A call that lacks an account, from the first answer to its success, in every dialect of a served hall."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness.dialect_clients import ALL_DIALECT_CLIENTS as EVERY_WAY
from tests.harness.dialect_clients import Call
from tests.harness.http_client import Response as Reply
from tests.harness.mcp_messages import JUNE, MODERN, NOVEMBER, PREFIX
from tests.harness.server_process import eventually, serving
from tests.recorded import recorded
from tests.servers import account_tools
from tests.servers.authority import Authority, authority
from tests.servers.hall import Hall, Person, settings_for

TOOLS = Path(account_tools.__file__)
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
ACCEPT = {"accept": "application/json, text/event-stream"}


class Place(NamedTuple):
    """A served hall, and where its people have accounts."""

    hall: Hall
    acme: Authority
    data: Path

    def newest(self) -> str:
        """The newest access token, as the tool tells it."""
        return hashlib.sha256(self.acme.issued[-1].access.encode()).hexdigest()

    def records(self, caller: str) -> list[dict[str, Any]]:
        """Of this caller's calls, what does not depend on when and in which words it was made."""
        varying = ("time", "call", "caller", "duration_us", "bytes_in", "dialect", "grant")
        calls = [
            each for each in recorded(self.data) if each["caller"] == caller and "management" not in each["dialect"]
        ]
        return [{name: said for name, said in each.items() if name not in varying} for each in calls]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("retry")
    with authority() as acme, serving(folder, TOOLS, **settings_for(acme.issuer, folder)) as served:
        yield Place(Hall(served.port).registered_at(acme), acme, served.data)


WORDS = {
    "mcp@2026-07-28": "isError NeedsRequirement",
    "mcp@2025-11-25": "isError NeedsRequirement",
    "mcp@2025-06-18": "isError NeedsRequirement",
    "oxp": "400",
    "hub": "AUTHORIZATION_REQUIRED",
    "hub socket": "AUTHORIZATION_REQUIRED",
    "machine": "error SECURITY_ERROR",
    "openapi": "403 needs_requirement",
}


def link_in(reply: Reply, hall: Hall) -> str:
    """The page that an answer names, whatever dialect it is in."""
    start = f"{hall.url}/connect/"
    text = reply.body.decode()
    assert start in text, text
    found = text.partition(start)[2]
    return start + found[: next(at for at, letter in enumerate(found) if not (letter.isalnum() or letter in "-_"))]


@pytest.mark.parametrize("make", EVERY_WAY, ids=lambda make: make().dialect)
async def test_call_after_linking_succeeds(place: Place, make: Callable[[], Any]) -> None:
    """In the dialect's own words, with a link that leads to an account, after which nothing has to be said anew."""
    way = make()
    person = place.hall.admit(f"retry {way.dialect}".replace(" ", "-").replace("@", "-"))
    call = Call(person, "Post", "read", {})
    first = await way.send(place.hall, call)
    said = way.read(first, "object")
    assert said.word == WORDS[way.dialect], said
    assert "acme" in str(said.what)
    url = link_in(first, place.hall)
    assert link_in(await way.send(place.hall, call), place.hall) == url, "who asks again is not given another link"
    assert place.hall.status(f"{url}/status") == "pending"
    done = await Person(place.hall, person).connect(url)
    assert (done.status, "The account is linked" in done.text) == (200, True), done.text
    assert place.hall.status(f"{url}/status") == "completed"
    again = way.read(await way.send(place.hall, call), "object")
    assert (again.word, again.what["token"]) == ("ok", place.newest())


async def test_calls_in_every_dialect_have_same_audit(place: Place) -> None:
    """Refused for the same reason, allowed by the same rule, and equal in all that a record says of a call."""
    found: dict[str, list[dict[str, Any]]] = {}
    for make in EVERY_WAY:
        way = make()
        person = place.hall.admit(f"same {way.dialect}".replace(" ", "-").replace("@", "-"))
        call = Call(person, "Post", "read", {})
        url = link_in(await way.send(place.hall, call), place.hall)
        await Person(place.hall, person).connect(url)
        assert way.read(await way.send(place.hall, call), "object").word == "ok"
        assert eventually(lambda person=person: len(place.records(person)) >= 3)
        found[way.dialect] = place.records(person)
    first = found["oxp"]
    assert [each["outcome"] for each in first if each.get("phase") is None] == ["NeedsRequirement", "ok"]
    assert {dialect: records == first for dialect, records in found.items()} == dict.fromkeys(found, True), found


async def test_oxp_missing_account_has_check_url(place: Place) -> None:
    hall, person = place.hall, place.hall.admit("oxp-words")
    status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Post.read"}}, person)
    (missing,) = said["missing_requirements"].pop("authorization")
    assert (status, said["missing_requirements"]) == (400, {})
    assert missing == {
        "id": missing["id"],
        "url": f"{hall.url}/connect/{missing['id']}",
        "check_url": f"{hall.url}/connect/{missing['id']}/status",
    }
    place.acme.agrees = False
    try:
        denied = await Person(hall, person).connect(missing["url"])
    finally:
        place.acme.agrees = True
    assert "denied" in denied.text
    assert hall.status(missing["check_url"]) == "failed"
    assert hall.status(f"{hall.url}/connect/no-such-link/status") == "failed"
    _, again = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Post.read"}}, person)
    (anew,) = again["missing_requirements"]["authorization"]
    assert anew["id"] != missing["id"]


async def modern(hall: Hall, caller: str, **more: Any) -> Any:
    """`tools/call` of the newest revision, by a client that can show pages."""
    meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": PAGES}
    params = {"name": "Post_read", "arguments": {}, "_meta": meta, **more}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "Post_read"}
    reply = await hall.post("/mcp", json.dumps(message).encode(), caller, ACCEPT | headers)
    return json.loads(reply.body)["result"]


async def test_stateless_call_continues_after_linking(place: Place) -> None:
    """The client's word that the page was visited is not enough; after the visit, the newest state runs the call."""
    person = place.hall.admit("mcp-modern")
    asked = await modern(place.hall, person)
    assert asked["resultType"] == "input_required"
    ((name, question),) = asked["inputRequests"].items()
    assert (question["method"], question["params"]["mode"]) == ("elicitation/create", "url")
    retry = {"requestState": asked["requestState"], "inputResponses": {name: {"action": "accept"}}}
    again = await modern(place.hall, person, **retry)
    assert again["resultType"] == "input_required"
    retry["requestState"] = again["requestState"]
    await Person(place.hall, person).connect(question["params"]["url"])
    done = await modern(place.hall, person, **retry)
    assert (done["resultType"], done["structuredContent"]["token"]) == ("complete", place.newest())


async def in_session(hall: Hall, caller: str, revision: str) -> Callable[[], Awaitable[Any]]:
    """A session of an older revision, by a client that says it can show pages; each use calls the tool."""
    hello = {"protocolVersion": revision, "capabilities": PAGES, "clientInfo": {"name": "t", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    opened = await hall.post("/mcp", json.dumps(opening).encode(), caller, ACCEPT)
    headers = ACCEPT | {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": revision}
    params = {"name": "Post_read", "arguments": {}}
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()

    async def again() -> Any:
        text = (await hall.post("/mcp", message, caller, headers)).body.decode()
        return json.loads(text.rpartition("data: ")[2] if text.startswith(("event:", "id:", "data:")) else text)

    return again


@pytest.mark.parametrize("revision", [NOVEMBER, JUNE])
async def test_session_call_after_linking_succeeds(place: Place, revision: str) -> None:
    person = place.hall.admit(f"mcp-{revision}")
    call = await in_session(place.hall, person, revision)
    said = await call()
    if revision == NOVEMBER:
        (page,) = said["error"]["data"]["elicitations"]
        assert (said["error"]["code"], page["mode"]) == (-32042, "url")
        assert page["url"] == f"{place.hall.url}/connect/{page['elicitationId']}"
        url = page["url"]
    else:
        assert said["result"]["isError"] is True
        (missing,) = said["result"]["_meta"]["dev.toolhall/missing"]
        url = missing["url"]
        assert url in said["result"]["content"][0]["text"]
    await Person(place.hall, person).connect(url)
    assert (await call())["result"]["structuredContent"]["token"] == place.newest()


async def test_linking_by_another_person_is_refused(place: Place) -> None:
    """The link says nothing to another person, and an answer that another browser brings is no answer."""
    asker, other = place.hall.admit("asker"), place.hall.admit("other")
    _, said = place.hall.ask("POST", "/tools/Post/read", {}, asker)
    url = said["error"]["details"]["url"]
    page = await Person(place.hall, other).open(url)
    assert (page.status, "acme" in page.text) == (403, False)
    back = await Person(place.hall, asker).agree(url)
    stolen = await Person(place.hall, other).get(back)
    assert stolen.status == 400
    assert place.hall.status(f"{url}/status") == "pending"
    statuses = await asyncio.gather(
        *(asyncio.to_thread(place.hall.ask, "POST", "/tools/Post/read", {}, who) for who in (asker, other))
    )
    assert [each.status for each in statuses] == [403, 403]
