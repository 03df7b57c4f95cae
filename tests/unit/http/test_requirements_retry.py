"""A call that lacks an account, from the first answer to its success, in every dialect of a served hall."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness.dialect_clients import ALL_DIALECT_CLIENTS, Call
from tests.harness.http_client import Response
from tests.harness.mcp_messages import JUNE, MODERN, NOVEMBER, PREFIX
from tests.harness.server_process import eventually, serving
from tests.recorded import recorded
from tests.servers import account_tools
from tests.servers.authority import Authority, authority
from tests.servers.served_hall import NetworkBrowser, ServedHall, provider_config

TOOLS = Path(account_tools.__file__)
PAGES: dict[str, Any] = {"elicitation": {"url": {}}}
ACCEPT = {"accept": "application/json, text/event-stream"}


class LinkingHall(NamedTuple):
    """A served hall and the authorization server of its users."""

    hall: ServedHall
    acme: Authority
    data: Path

    def newest(self) -> str:
        """The newest access token, as the tool tells it."""
        return hashlib.sha256(self.acme.issued[-1].access.encode()).hexdigest()

    def records(self, caller: str) -> list[dict[str, Any]]:
        """Of this caller's calls, what does not depend on when and in which words it was made."""
        varying = ("time", "call", "caller", "duration_us", "stages_us", "bytes_in", "dialect", "grant")
        calls = [
            each for each in recorded(self.data) if each["caller"] == caller and "management" not in each["dialect"]
        ]
        return [{name: said for name, said in each.items() if name not in varying} for each in calls]


@pytest.fixture(scope="module")
def linking_hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkingHall]:
    folder = tmp_path_factory.mktemp("retry")
    with authority() as acme, serving(folder, TOOLS, **provider_config(acme.issuer, folder)) as served:
        yield LinkingHall(ServedHall(served.port).registered_at(acme), acme, served.data)


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


def link_in(reply: Response, hall: ServedHall) -> str:
    """The page that an answer names, whatever dialect it is in."""
    start = f"{hall.url}/connect/"
    text = reply.body.decode()
    assert start in text, text
    found = text.partition(start)[2]
    return start + found[: next(at for at, letter in enumerate(found) if not (letter.isalnum() or letter in "-_"))]


@pytest.mark.parametrize("make", ALL_DIALECT_CLIENTS, ids=lambda make: make().dialect)
async def test_call_after_linking_succeeds(linking_hall: LinkingHall, make: Callable[[], Any]) -> None:
    """In the dialect's own words, with a link that leads to an account, after which nothing has to be said anew."""
    way = make()
    person = linking_hall.hall.admit(f"retry {way.dialect}".replace(" ", "-").replace("@", "-"))
    call = Call(person, "Post", "read", {})
    first = await way.send(linking_hall.hall, call)
    said = way.read(first, "object")
    assert said.word == WORDS[way.dialect], said
    assert "acme" in str(said.what)
    url = link_in(first, linking_hall.hall)
    assert link_in(await way.send(linking_hall.hall, call), linking_hall.hall) == url, (
        "who asks again is not given another link"
    )
    assert linking_hall.hall.status(f"{url}/status") == "pending"
    done = await NetworkBrowser(linking_hall.hall, person).connect(url)
    assert (done.status, "The account is linked" in done.text) == (200, True), done.text
    assert linking_hall.hall.status(f"{url}/status") == "completed"
    again = way.read(await way.send(linking_hall.hall, call), "object")
    assert (again.word, again.what["token"]) == ("ok", linking_hall.newest())


async def test_calls_in_every_dialect_have_same_audit(linking_hall: LinkingHall) -> None:
    """Refused for the same reason, allowed by the same rule, and equal in all that a record says of a call."""
    found: dict[str, list[dict[str, Any]]] = {}
    for make in ALL_DIALECT_CLIENTS:
        way = make()
        person = linking_hall.hall.admit(f"same {way.dialect}".replace(" ", "-").replace("@", "-"))
        call = Call(person, "Post", "read", {})
        url = link_in(await way.send(linking_hall.hall, call), linking_hall.hall)
        await NetworkBrowser(linking_hall.hall, person).connect(url)
        assert way.read(await way.send(linking_hall.hall, call), "object").word == "ok"
        assert eventually(lambda person=person: len(linking_hall.records(person)) >= 3)
        found[way.dialect] = linking_hall.records(person)
    first = found["oxp"]
    assert [each["outcome"] for each in first if each.get("phase") is None] == ["NeedsRequirement", "ok"]
    assert {dialect: records == first for dialect, records in found.items()} == dict.fromkeys(found, True), found


async def test_oxp_missing_account_has_check_url(linking_hall: LinkingHall) -> None:
    hall, person = linking_hall.hall, linking_hall.hall.admit("oxp-words")
    status, said = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Post.read"}}, person)
    (missing,) = said["missing_requirements"].pop("authorization")
    assert (status, said["missing_requirements"]) == (400, {})
    assert missing == {
        "id": missing["id"],
        "url": f"{hall.url}/connect/{missing['id']}",
        "check_url": f"{hall.url}/connect/{missing['id']}/status",
    }
    linking_hall.acme.agrees = False
    try:
        denied = await NetworkBrowser(hall, person).connect(missing["url"])
    finally:
        linking_hall.acme.agrees = True
    assert "denied" in denied.text
    assert hall.status(missing["check_url"]) == "failed"
    assert hall.status(f"{hall.url}/connect/no-such-link/status") == "failed"
    _, again = hall.ask("POST", "/oxp/tools/call", {"request": {"tool_id": "Post.read"}}, person)
    (anew,) = again["missing_requirements"]["authorization"]
    assert anew["id"] != missing["id"]


async def call_stateless(hall: ServedHall, caller: str, **more: Any) -> Any:
    """`tools/call` of the newest revision, by a client that can show pages."""
    meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": PAGES}
    params = {"name": "Post_read", "arguments": {}, "_meta": meta, **more}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "Post_read"}
    reply = await hall.post("/mcp", json.dumps(message).encode(), caller, ACCEPT | headers)
    return json.loads(reply.body)["result"]


async def test_stateless_call_continues_after_linking(linking_hall: LinkingHall) -> None:
    """The client's word that the page was visited is not enough; after the visit, the newest state runs the call."""
    person = linking_hall.hall.admit("mcp-modern")
    asked = await call_stateless(linking_hall.hall, person)
    assert asked["resultType"] == "input_required"
    ((name, question),) = asked["inputRequests"].items()
    assert (question["method"], question["params"]["mode"]) == ("elicitation/create", "url")
    retry = {"requestState": asked["requestState"], "inputResponses": {name: {"action": "accept"}}}
    again = await call_stateless(linking_hall.hall, person, **retry)
    assert again["resultType"] == "input_required"
    retry["requestState"] = again["requestState"]
    await NetworkBrowser(linking_hall.hall, person).connect(question["params"]["url"])
    done = await call_stateless(linking_hall.hall, person, **retry)
    assert (done["resultType"], done["structuredContent"]["token"]) == ("complete", linking_hall.newest())


async def open_session(hall: ServedHall, caller: str, revision: str) -> Callable[[], Awaitable[Any]]:
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
async def test_session_call_after_linking_succeeds(linking_hall: LinkingHall, revision: str) -> None:
    person = linking_hall.hall.admit(f"mcp-{revision}")
    call = await open_session(linking_hall.hall, person, revision)
    said = await call()
    if revision == NOVEMBER:
        (page,) = said["error"]["data"]["elicitations"]
        assert (said["error"]["code"], page["mode"]) == (-32042, "url")
        assert page["url"] == f"{linking_hall.hall.url}/connect/{page['elicitationId']}"
        url = page["url"]
    else:
        assert said["result"]["isError"] is True
        (missing,) = said["result"]["_meta"]["dev.toolhall/missing"]
        url = missing["url"]
        assert url in said["result"]["content"][0]["text"]
    await NetworkBrowser(linking_hall.hall, person).connect(url)
    assert (await call())["result"]["structuredContent"]["token"] == linking_hall.newest()


async def test_linking_by_another_person_is_refused(linking_hall: LinkingHall) -> None:
    """The link says nothing to another person, and an answer that another browser brings is no answer."""
    asker, other = linking_hall.hall.admit("asker"), linking_hall.hall.admit("other")
    _, said = linking_hall.hall.ask("POST", "/tools/Post/read", {}, asker)
    url = said["error"]["details"]["url"]
    page = await NetworkBrowser(linking_hall.hall, other).open(url)
    assert (page.status, "acme" in page.text) == (403, False)
    back = await NetworkBrowser(linking_hall.hall, asker).agree(url)
    stolen = await NetworkBrowser(linking_hall.hall, other).get(back)
    assert stolen.status == 400
    assert linking_hall.hall.status(f"{url}/status") == "pending"
    statuses = await asyncio.gather(
        *(asyncio.to_thread(linking_hall.hall.ask, "POST", "/tools/Post/read", {}, who) for who in (asker, other))
    )
    assert [each.status for each in statuses] == [403, 403]
