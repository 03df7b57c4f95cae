"""`/api/keys` and `/api/grants`: a change counts for the next request, and a secret is told once."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.http.api.management_client import Reply, manage
from toolhall import Toolhall, tool
from toolhall.model.call_records import AuditRecord
from toolhall.stores.audit.journal import MemoryJournal


@tool(version="1.0.0", level=4)
def push(repo: str = "main") -> str:
    """Push to a repository."""
    return f"pushed {repo}"


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    with Toolhall(push) as hall:
        await hall.open()
        yield hall


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def key(hall: Toolhall, name: str = "ci", **wanted: Any) -> dict[str, Any]:
    reply = await manage(hall, "POST", "/api/keys", {"name": name, **wanted})
    assert reply.status == 201, reply
    made: dict[str, Any] = reply.body
    return made


async def call(hall: Toolhall, secret: str, **arguments: Any) -> Reply:
    (entry,) = hall.registry.snapshot.listed
    return await manage(hall, "POST", f"/tools/{entry.tool.id.toolkit}/push", arguments, bearer(secret))


def recorded(hall: Toolhall) -> list[AuditRecord]:
    assert isinstance(hall.journal, MemoryJournal)
    return [each for each in hall.journal.records if each.phase is None]


async def test_key_secret_is_in_create_response_only(hall: Toolhall) -> None:
    made = await key(hall, owner="ada", scopes=["admin"], expires="12h")
    secret = made.pop("secret")
    (listed,) = (await manage(hall, "GET", "/api/keys")).body["keys"]
    assert listed == made
    assert (listed["name"], listed["owner"], listed["scopes"]) == ("ci", "ada", ["admin"])
    (used,) = (await manage(hall, "GET", "/api/keys", headers=bearer(secret))).body["keys"]
    assert used == {**made, "lastUsedAt": used["lastUsedAt"]}
    assert used["lastUsedAt"] is not None
    told = repr((used, await manage(hall, "DELETE", f"/api/keys/{made['id']}"), *recorded(hall)))
    assert secret not in told
    assert secret.split("_", 2)[2] not in told


async def test_revoked_key_is_rejected(hall: Toolhall) -> None:
    made = await key(hall, scopes=["admin"])
    assert (await manage(hall, "GET", "/api/keys", headers=bearer(made["secret"]))).status == 200
    revoked = await manage(hall, "DELETE", f"/api/keys/{made['id']}", headers=bearer(made["secret"]))
    assert (revoked.status, revoked.body["revokedAt"] is not None) == (200, True)
    assert (await manage(hall, "GET", "/api/keys", headers=bearer(made["secret"]))).status == 401
    assert (await manage(hall, "DELETE", "/api/keys/unknown")).status == 404


async def test_keys_and_grants_need_scope_admin(hall: Toolhall) -> None:
    secret = (await key(hall, scopes=["tools:*", "approve", "act_as"]))["secret"]
    for method, path, body in (
        ("GET", "/api/keys", None),
        ("POST", "/api/keys", {"name": "more", "scopes": ["admin"]}),
        ("DELETE", "/api/keys/x", None),
        ("GET", "/api/grants", None),
        ("POST", "/api/grants", {"callers": "ci", "tools": "*"}),
        ("DELETE", "/api/grants/x", None),
    ):
        assert (await manage(hall, method, path, body, bearer(secret))).status == 403, path
    assert len((await manage(hall, "GET", "/api/keys")).body["keys"]) == 1
    assert (await manage(hall, "GET", "/api/grants")).body["grants"] == []


async def test_new_grant_applies_to_next_call(hall: Toolhall) -> None:
    secret = (await key(hall))["secret"]
    assert (await call(hall, secret)).status == 404
    grant = (await manage(hall, "POST", "/api/grants", {"callers": "ci", "tools": "*.push"})).body
    assert (await call(hall, secret)).status == 200
    forbid = {"callers": "*", "tools": "*", "effect": "forbid", "conditions": [{"path": "/repo", "equals": "main"}]}
    forbidden = (await manage(hall, "POST", "/api/grants", forbid)).body
    assert (await call(hall, secret)).status == 403, "a default that is filled in is an argument like any other"
    assert (await call(hall, secret, repo="side")).status == 200
    for each in (forbidden, grant):
        assert (await manage(hall, "DELETE", f"/api/grants/{each['id']}")).body == {"removed": each["id"]}
    assert (await call(hall, secret, repo="side")).status == 404


async def test_changes_of_access_are_audited(hall: Toolhall) -> None:
    made = await key(hall)
    grant = (await manage(hall, "POST", "/api/grants", {"callers": "ci", "tools": "*"})).body
    await manage(hall, "DELETE", f"/api/grants/{grant['id']}")
    await manage(hall, "DELETE", f"/api/keys/{made['id']}")
    await manage(hall, "POST", "/api/keys", {"name": "local"})
    told = [(record.tool, record.outcome) for record in recorded(hall) if record.dialect == "api/management"]
    assert told == [
        ("create key ci", "ok"),
        ("permit ci *", "ok"),
        (f"remove grant {grant['id']}", "ok"),
        (f"revoke key {made['id']}", "ok"),
        ("create key local", "Malformed"),
    ]


WRONG: list[tuple[str, str, Any, int]] = [
    ("POST", "/api/keys", {}, 400),
    ("POST", "/api/keys", {"name": "ci", "secret": "mine"}, 400),
    ("POST", "/api/keys", {"name": 5}, 400),
    ("POST", "/api/keys?x=1", {"name": "ci"}, 400),
    ("POST", "/api/grants", {"callers": "ci", "tools": "*", "effect": "allow"}, 400),
    ("POST", "/api/grants", {"callers": "ci", "tools": "*", "conditions": [{"path": "/a", "equal": 1}]}, 400),
    ("POST", "/api/grants", [], 400),
    ("DELETE", "/api/keys/x", {"a": 1}, 400),
    ("DELETE", "/api/keys/", None, 404),
    ("DELETE", "/api/grants/x/y", None, 404),
    ("GET", "/api/keys/x", None, 405),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), WRONG)
async def test_bad_access_request_changes_nothing(
    hall: Toolhall, method: str, path: str, body: Any, status: int
) -> None:
    assert (await manage(hall, method, path, body)).status == status
    assert (hall.access.keys.all, hall.access.grants.all) == ((), ())
