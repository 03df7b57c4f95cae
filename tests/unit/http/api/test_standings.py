"""Who may do what over `/api`: every operation against the four standings, and callers without a credential."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from tests.unit.http.api.management_client import PICK, definition, manage, place
from toolhall import Config, Toolhall, tool
from toolhall.dialects.catalogs import READABLE_DIALECTS
from toolhall.dialects.openapi.paths import management_paths
from toolhall.model.caller import ADMIN, APPROVE, OBSERVE, Caller
from toolhall.model.messages import CallTool
from toolhall.registration.access import NewGrant, NewKey

ADMINS = frozenset({"admin"})
READERS = ADMINS | {"observe"}
EVERYBODY = READERS | {"approve", "plain"}  # each sees and changes their own only; other tests show that
SCOPES = {"plain": (), "approve": (APPROVE,), "observe": (OBSERVE,), "admin": (ADMIN,)}
SEEN = {"seen": f"sha256-{'0' * 64}"}
CODE = {"code": "000000"}


class Allowed(NamedTuple):
    """The standings that may do an operation, and a valid request of it: the query or the body, and what `{}` is."""

    standings: frozenset[str]
    body: Any = None
    item: str = "unknown"
    query: str = ""


OPERATIONS = {
    "GET /api/tools": Allowed(EVERYBODY),
    "POST /api/tools": Allowed(ADMINS, definition("other")),
    "POST /api/definitions/check": Allowed(ADMINS, definition("another")),
    "GET /api/tools/{id}": Allowed(EVERYBODY, item=PICK),
    "DELETE /api/tools/{id}": Allowed(ADMINS, item=PICK),
    "POST /api/tools/{id}/activate": Allowed(ADMINS, SEEN, PICK),
    "POST /api/tools/{id}/deactivate": Allowed(ADMINS, {}, PICK),
    "POST /api/tools/{id}/deprecate": Allowed(ADMINS, {}, PICK),
    "POST /api/tools/{id}/rollback": Allowed(ADMINS, {}, PICK),
    "GET /api/tools/{id}/history": Allowed(READERS, item=PICK),
    "GET /api/tools/{id}/callers": Allowed(READERS, item=PICK),
    "GET /api/tools/{id}/diff": Allowed(READERS, item=PICK),
    "GET /api/tools/{id}/losses": Allowed(READERS, item=PICK),
    "GET /api/contracts": Allowed(READERS),
    "POST /api/contracts/lock": Allowed(READERS, {"lock": {"lock": 1, "tools": {}}}),
    "GET /api/settings": Allowed(READERS),
    "GET /api/servers": Allowed(READERS),
    "POST /api/servers/{name}/drain": Allowed(ADMINS, {}),
    "DELETE /api/servers/{name}": Allowed(ADMINS),
    "GET /api/upstreams": Allowed(READERS),
    "POST /api/upstreams": Allowed(ADMINS, {"name": "Docs", "settings": {"url": "http://127.0.0.1:1/mcp"}}),
    "GET /api/upstreams/{name}": Allowed(READERS),
    "DELETE /api/upstreams/{name}": Allowed(ADMINS),
    "POST /api/upstreams/{name}/check": Allowed(ADMINS, {}),
    "POST /api/upstreams/{name}/sync": Allowed(ADMINS, {}),
    "POST /api/upstreams/{name}/off": Allowed(ADMINS, {}),
    "POST /api/upstreams/{name}/on": Allowed(ADMINS, {}),
    "GET /api/upstreams/{name}/review": Allowed(ADMINS),
    "POST /api/upstreams/{name}/review": Allowed(ADMINS, {"digest": SEEN["seen"]}),
    "GET /api/tasks": Allowed(READERS),
    "GET /api/tasks/{id}": Allowed(READERS),
    "POST /api/tasks/{id}/cancel": Allowed(ADMINS, {}),
    "GET /api/history": Allowed(READERS),
    "GET /api/keys": Allowed(READERS),
    "POST /api/keys": Allowed(ADMINS, {"name": "new"}),
    "DELETE /api/keys/{key}": Allowed(ADMINS),
    "GET /api/grants": Allowed(READERS),
    "POST /api/grants": Allowed(ADMINS, {"callers": "ci", "tools": "*"}),
    "DELETE /api/grants/{grant}": Allowed(ADMINS),
    "POST /api/check": Allowed(READERS, {"caller": "ci", "tool": PICK}),
    "GET /api/access": Allowed(READERS),
    "GET /api/callers": Allowed(READERS),
    "GET /api/limits": Allowed(READERS),
    "POST /api/limits/preview": Allowed(READERS, {"perCaller": {"rate": 1}}),
    "GET /api/audit": Allowed(EVERYBODY),
    "GET /api/audit/state": Allowed(READERS),
    "POST /api/audit/verify": Allowed(ADMINS, {}),
    "POST /api/audit/accept": Allowed(ADMINS, {}),
    "GET /api/calls/{call}": Allowed(EVERYBODY),
    "GET /api/overview": Allowed(READERS),
    "GET /api/needs": Allowed(EVERYBODY),
    "GET /api/events": Allowed(READERS, query="?topics=weather"),  # a stream that begins would not end
    "GET /api/approvals": Allowed(EVERYBODY),
    "POST /api/approvals/{id}/approve": Allowed(EVERYBODY, CODE),
    "POST /api/approvals/{id}/options": Allowed(EVERYBODY, {}),
    "POST /api/approvals/{id}/deny": Allowed(EVERYBODY, {}),
    "GET /api/factors": Allowed(ADMINS),
    "POST /api/factors": Allowed(ADMINS, {"kind": "totp", "person": "ada"}),
    "POST /api/factors/confirm": Allowed(ADMINS, {"enrolment": "e", "code": "000000"}),
    "DELETE /api/factors/{id}": Allowed(ADMINS, {}),
    "GET /api/secrets": Allowed(ADMINS),
    "DELETE /api/secrets": Allowed(ADMINS, query="?user=ada"),
    "PUT /api/secrets/{name}": Allowed(ADMINS, {"value": "a-long-value"}),
    "DELETE /api/secrets/{name}": Allowed(ADMINS),
    "POST /api/secrets/rotate": Allowed(ADMINS, {}),
    "GET /api/providers": Allowed(EVERYBODY),
    "GET /api/me": Allowed(EVERYBODY),
    "POST /api/me/proof": Allowed(EVERYBODY, CODE),
    "POST /api/me/proof/options": Allowed(EVERYBODY, {}),
    "POST /api/me/token": Allowed(EVERYBODY, {}),
    "GET /api/accounts": Allowed(EVERYBODY),
    "POST /api/accounts": Allowed(EVERYBODY, {"provider": "none"}),
    "DELETE /api/accounts/{id}": Allowed(EVERYBODY),
    "POST /api/accounts/{link}/paste": Allowed(EVERYBODY, {"url": "https://hall.example/?code=1"}),
}


@tool(version="1.0.0", level=10)
def launch() -> str:
    """Launch it."""
    return "launched"


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(launch, config=Config(profile="server", allowed_hosts=("localhost",))) as hall:
        await hall.open()
        headers = await bearer(hall, "admin", "founder")
        for each in (definition(), definition(version="1.1.0")):
            made = await manage(hall, "POST", "/api/tools", each, headers)
            assert made.status == 201, made
        yield hall


async def bearer(hall: Toolhall, standing: str, name: str = "") -> dict[str, str]:
    """The headers of a new key with the scopes of a standing."""
    _, secret = await hall.access.keys.create(NewKey(name or standing, scopes=SCOPES[standing]), "tests")
    return {"authorization": f"Bearer {secret}"}


def test_every_operation_has_a_row() -> None:
    described = {
        f"{method.upper()} {path}"
        for path, operations in management_paths(READABLE_DIALECTS).items()
        for method in operations
    }
    assert described == set(OPERATIONS), "say in OPERATIONS who may use a new route, and describe it in openapi"


async def test_every_route_has_a_row(hall: Toolhall) -> None:
    """Read from the table of routes, so that none can be left out of the description either."""
    documented = [row.split(" ") for row in OPERATIONS]
    for path, methods in hall.http.endpoints.items():
        if path.startswith("/api") and not path.endswith("/"):
            assert {method for method, known in documented if known == path} == set(methods), path
        elif path.startswith("/api"):
            assert any(known.startswith(path) for _, known in documented), path


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_operation_is_for_its_standings_only(hall: Toolhall, operation: str) -> None:
    method, _, template = operation.partition(" ")
    row = OPERATIONS[operation]
    path = place(row.item, *template.split("/")[4:]) if template.startswith("/api/tools/{") else template
    path = "/".join(row.item if part.startswith("{") else part for part in path.split("/")) + row.query
    told: dict[str, int] = {"nobody": (await manage(hall, method, path, row.body)).status}
    refused = {}
    for standing in SCOPES:  # administrators last: what they change, nobody has to find
        reply = await manage(hall, method, path, row.body, await bearer(hall, standing))
        told[standing] = reply.status
        if reply.status == 403:
            refused[standing] = reply.body["error"]["message"]
    assert told.pop("nobody") == 401
    assert {standing for standing in told if standing not in refused} == row.standings, (told, refused)
    assert all(status < 500 or status == 503 for status in told.values()), told


async def test_refused_readers_learn_nothing_from_names(hall: Toolhall) -> None:
    """What exists and what does not is refused alike."""
    headers = await bearer(hall, "approve")
    for known, unknown in (
        (place(PICK), place("Kit.none@1.0.0")),
        (place(PICK, "history"), place("Kit.none@1.0.0", "history")),
    ):
        assert await manage(hall, "GET", known, None, headers) == await manage(hall, "GET", unknown, None, headers)


async def test_callers_see_the_tools_that_they_may_call_and_nothing_else_of_them(hall: Toolhall) -> None:
    """Not who declared them, nor any that is not served or that no grant lets them call."""
    await hall.access.grants.add(NewGrant("plain", "*"), "tests")
    _, secret = await hall.access.keys.create(NewKey("plain", scopes=("tools:*",)), "tests")
    may, may_not = {"authorization": f"Bearer {secret}"}, await bearer(hall, "plain", "other")
    listed = (await manage(hall, "GET", "/api/tools?state=active", None, may)).body
    assert [(each["tool"], each["by"], each["originDetail"]) for each in listed["tools"]] == [("launch", "", "")]
    assert (listed["total"], listed["facets"]["origin"], listed["facets"]["toolkit"]) == (1, {}, {"test_standings": 1})
    assert (await manage(hall, "GET", "/api/tools?query=launch+pick", None, may)).body["total"] == 1
    assert (await manage(hall, "GET", "/api/tools?origin=http", None, may)).status == 403
    launched = await manage(hall, "GET", place(listed["tools"][0]["id"]), None, may)
    assert launched.body["versions"][0]["id"] == listed["tools"][0]["id"]
    assert launched.body["document"]["inputSchema"] == launched.body["inputSchema"]
    assert (await manage(hall, "GET", place(PICK), None, may)).status == 404
    assert (await manage(hall, "GET", "/api/tools", None, may_not)).body["tools"] == []
    assert (await manage(hall, "GET", place(listed["tools"][0]["id"]), None, may_not)).status == 404


async def test_observers_see_what_administrators_see(hall: Toolhall) -> None:
    admin, observer = await bearer(hall, "admin"), await bearer(hall, "observe")
    for operation, row in OPERATIONS.items():
        if row.standings != READERS or not operation.startswith("GET") or "{" in operation:
            continue
        path = operation.removeprefix("GET ") + row.query
        mine, theirs = [(await manage(hall, "GET", path, None, each)).body for each in (observer, admin)]
        assert list(mine) == list(theirs), path
    assert (await manage(hall, "GET", "/health", None, observer)).body["components"]
    assert "components" not in (await manage(hall, "GET", "/health", None, await bearer(hall, "plain"))).body
    document = (await manage(hall, "GET", "/openapi.json", None, observer)).body
    assert "/api/grants" in document["paths"]


async def test_approve_shows_approvals_of_others_and_nothing_else_does(hall: Toolhall) -> None:
    await hall.access.grants.add(NewGrant("ada", "*"), "tests")
    ada = Caller("ada", proof="key", person="ada", scopes=frozenset({"tools:*"}), expires_at=9e9)
    (entry,) = [each for each in hall.registry.snapshot.listed if each.tool.id.tool == "launch"]
    await hall.dispatcher.answer(CallTool(entry.id, {}, "test"), ada)
    (waiting,) = await hall.approval_components.approvals.store.pending()
    for standing in SCOPES:
        headers = await bearer(hall, standing)
        listed = (await manage(hall, "GET", "/api/approvals", None, headers)).body["approvals"]
        assert [each["id"] for each in listed] == ([waiting.id] if standing == "approve" else []), standing
        if standing != "approve":
            denied = await manage(hall, "POST", f"/api/approvals/{waiting.id}/deny", {}, headers)
            assert denied.status == 403, standing
