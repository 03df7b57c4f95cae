# ruff: noqa: N802 - tests carry the names of their rows
"""B22, B23: the check of calls as an oracle, and readers who change something."""

import shlex
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.unit.http.api.management_client import PICK, definition, manage
from toolhall import Config, Toolhall, tool
from toolhall.registration.access import NewGrant, NewKey
from toolhall.stores.audit.journal import MemoryJournal

runs: list[str] = []


@tool(version="1.0.0", level=4)
def open_door(door: str = "front") -> str:
    """Open a door."""
    runs.append(door)
    return "open"


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    runs.clear()
    config = Config(profile="server", allowed_hosts=("localhost",), calls_per_second=0.001, call_burst=2)
    with Toolhall(open_door, config=config) as hall:
        await hall.open()
        headers = await bearer(hall, "founder", "admin")
        assert (await manage(hall, "POST", "/api/tools", definition(), headers)).status == 201
        await hall.access.grants.add(NewGrant("ada", "*"), "test")
        yield hall


async def bearer(hall: Toolhall, name: str, *scopes: str) -> dict[str, str]:
    _, secret = await hall.access.keys.create(NewKey(name, scopes=scopes), "test")
    return {"authorization": f"Bearer {secret}"}


def door(hall: Toolhall) -> str:
    (entry,) = hall.registry.snapshot.listed
    return entry.id


def records(hall: Toolhall) -> list[tuple[str, str, str]]:
    assert isinstance(hall.journal, MemoryJournal)
    return [(each.dialect, each.caller, each.outcome) for each in hall.journal.records if each.phase is None]


@pytest.mark.threat("B22")
@pytest.mark.parametrize("scopes", [(), ("tools:*",), ("approve", "act_as", "tools:*")], ids=str)
async def test_B22_check_tells_nobody_else_anything(hall: Toolhall, scopes: Sequence[str]) -> None:
    """Whoever may not read the hall gets one answer, whatever they ask about, and however wrongly."""
    headers = await bearer(hall, "ada", *scopes)
    bodies: list[Any] = [
        {"caller": "ada", "tool": door(hall)},
        {"caller": "ada", "tool": "None.such"},
        {"caller": "nobody", "tool": PICK, "arguments": {"door": 1}},
        {"caller": "ada", "tool": PICK, "draft": {"callers": "*", "tools": "*"}},
        {"caller": 1},
        [],
    ]
    told = [await manage(hall, "POST", "/api/check", body, headers) for body in bodies]
    assert {(each.status, repr(each.body)) for each in told} == {(403, repr(told[0].body))}
    for query in ("", "?callers=ada", "?callers=*&tools=None.such", "?cursor=bad", "?x=1"):
        assert (await manage(hall, "GET", f"/api/access{query}", None, headers)).status == 403, query
    for path, body in (("/api/check", bodies[0]), ("/api/access", None)):
        reply = await manage(hall, "GET" if body is None else "POST", path, body)
        assert reply.status == 401


@pytest.mark.threat("B22")
async def test_B22_check_is_recorded_as_management_and_costs_its_subject_nothing(hall: Toolhall) -> None:
    """No check counts as a call of the caller that it is about, and none is made in secret."""
    headers, ada = await bearer(hall, "watch", "observe"), await bearer(hall, "ada", "tools:*")
    for arguments in ({}, {"door": 1}, {"door": "back"}):
        for _ in range(3):
            body = {"caller": "ada", "tool": door(hall), "arguments": arguments}
            assert (await manage(hall, "POST", "/api/check", body, headers)).status == 200
    assert records(hall)[-9:] == [("api/management", "watch", "ok")] * 9
    assert runs == []
    path = "/tools/" + door(hall).partition("@")[0].replace(".", "/")
    assert (await manage(hall, "POST", path, {}, ada)).status == 200, "two calls are within its limits"
    assert (await manage(hall, "POST", path, {}, ada)).status == 200
    refused = (await manage(hall, "POST", "/api/check", {"caller": "ada", "tool": door(hall)}, headers)).body
    assert (refused["verdict"], [each["stage"] for each in refused["stages"] if each["state"] == "stop"]) == (
        "refused",
        ["limit"],
    )
    assert (await manage(hall, "POST", path, {}, ada)).status == 429


@pytest.mark.threat("B22")
async def test_B22_check_and_matrix_of_names_from_outside_are_bounded(hall: Toolhall) -> None:
    headers = await bearer(hall, "watch", "observe")
    bodies: list[Any] = [
        {"caller": "a" * 257, "tool": PICK},
        {"caller": "a\nb", "tool": PICK},
        {"caller": "ada\n", "tool": PICK},
        {"caller": "ada", "tool": f"{PICK}\u2028"},
        {"caller": "ada", "tool": ""},
        {"caller": "ada", "tool": PICK, "arguments": []},
        {"caller": "ada", "tool": PICK, "draft": {"callers": "local", "tools": "*"}},
        {"caller": "ada", "tool": PICK, "draft": {"callers": "*", "tools": "["}},
    ]
    for body in bodies:
        assert (await manage(hall, "POST", "/api/check", body, headers)).status == 400, body
    for query in ("?callers=" + ",".join("a" * 21), "?callers=,", "?tools=" + "a" * 257, "?tools=a,", "?tools=%00"):
        assert (await manage(hall, "GET", f"/api/access{query}", None, headers)).status == 400, query


@pytest.mark.threat("B22")
async def test_B22_command_that_the_check_proposes_is_one_command_whatever_the_caller_is_called(hall: Toolhall) -> None:
    """Subjects of tokens are whatever their issuer says; a person copies the command into a shell."""
    headers = await bearer(hall, "watch", "observe")
    name = "corp:a'; touch 'b"
    found = (await manage(hall, "POST", "/api/check", {"caller": name, "tool": door(hall)}, headers)).body
    words = found["stages"][0]["words"].partition("Add one: ")[2].removesuffix(".")
    assert shlex.split(words) == ["toolhall", "grant", "add", name, door(hall).partition("@")[0]]


@pytest.mark.threat("B23")
async def test_B23_observer_changes_nothing(hall: Toolhall) -> None:
    """Every change is refused to readers, and the refusal is recorded."""
    headers = await bearer(hall, "watch", "observe", "tools:*")
    before = (hall.access.keys.all, hall.access.grants.all, hall.registration.all_records)
    changes: list[tuple[str, str, Any]] = [
        ("POST", "/api/keys", {"name": "more", "scopes": ["admin"]}),
        ("DELETE", f"/api/keys/{before[0][0].id}", None),
        ("POST", "/api/grants", {"callers": "watch", "tools": "*"}),
        ("DELETE", f"/api/grants/{before[1][0].id}", None),
        ("POST", "/api/tools", definition("other")),
        ("POST", "/api/audit/accept", {}),
        ("PUT", "/api/secrets/KEY", {"value": "a-long-value"}),
        ("POST", "/api/factors", {"kind": "totp", "person": "watch"}),
    ]
    for method, path, body in changes:
        assert (await manage(hall, method, path, body, headers)).status == 403, path
    assert [each for each in records(hall) if each[1] == "watch"] == [("api/management", "watch", "Denied")] * len(
        changes
    )
    for path in ("/api/secrets", "/api/factors"):
        assert (await manage(hall, "GET", path, None, headers)).status == 403, path
    keys = [(key.id, key.revoked_at) for key in hall.access.keys.all]
    assert keys == [(key.id, key.revoked_at) for key in before[0]]
    assert (hall.access.grants.all, hall.registration.all_records) == before[1:]


@pytest.mark.threat("B23")
async def test_B23_revoked_observer_sees_nothing_more(hall: Toolhall) -> None:
    made, secret = await hall.access.keys.create(NewKey("watch", scopes=("observe",)), "test")
    headers = {"authorization": f"Bearer {secret}"}
    assert (await manage(hall, "GET", "/api/grants", None, headers)).status == 200
    await hall.access.keys.revoke(made.id)
    assert (await manage(hall, "GET", "/api/grants", None, headers)).status == 401
