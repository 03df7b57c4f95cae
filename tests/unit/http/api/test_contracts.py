"""`/api/contracts` and what stands below a tool about its versions and dialects."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.asgi_client import FORWARDED
from tests.unit.http.api.management_client import PICK, activated, definition, manage, place, registered
from tests.unit.http.api.test_described import check, described
from toolhall import Config, Toolhall
from toolhall.contracts.lockfile import lock_document
from toolhall.contracts.release import check_release
from toolhall.dialects.catalogs import CATALOGS, WRITE_ONLY_CATALOGS
from toolhall.examples.calculator import Calculator
from toolhall.http.api.contracts import locks_of
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool
from toolhall.stores.audit.journal import MemoryJournal

NEXT, BROKEN = "Kit.pick@1.1.0", "Kit.pick@2.0.0"
NEEDS_MORE = {"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    """A tool of three versions, the last of which breaks its callers; the first is served."""
    with Toolhall(Calculator) as hall:
        await hall.open()
        await registered(
            hall,
            definition(),
            definition(version="1.1.0", description="Pick one, or none."),
            definition(version="2.0.0", inputSchema=NEEDS_MORE),
        )
        await activated(hall, PICK)
        yield hall


async def get(hall: Toolhall, path: str) -> Any:
    reply = await manage(hall, "GET", path)
    assert reply.status == 200, reply
    return reply.body


async def call(hall: Toolhall, name: str) -> None:
    await hall.dispatcher.answer(CallTool(name, {}, "test"), LOCAL)


async def test_diff_of_quarantined_tool_is_against_what_is_served(hall: Toolhall) -> None:
    found = await get(hall, place(BROKEN, "diff"))
    old, new = (hall.registration.tool(hall.registration.find(each)) for each in (PICK, BROKEN))
    checked = check_release([old], [new])
    assert (found["from"], found["to"]) == (PICK, BROKEN)
    assert (found["required"], found["declared"], found["ok"]) == ("major", "major", True)
    assert [(each["kind"], each["path"], each["reason"]) for each in found["changes"]] == [
        (each.kind, each.path, each.reason) for each in checked.changes
    ]
    assert found["documents"]["to"]["inputSchema"] == NEEDS_MORE
    assert found["documents"]["from"]["inputSchema"] == {"type": "object"}


async def test_diff_is_against_version_before_or_the_stated_one(hall: Toolhall) -> None:
    await activated(hall, BROKEN)
    assert (await get(hall, place(BROKEN, "diff")))["from"] == NEXT
    assert (await get(hall, f"{place(BROKEN, 'diff')}?from={PICK}"))["from"] == PICK
    assert (await manage(hall, "GET", f"{place(BROKEN, 'diff')}?from=No.such")).status == 404
    first = await get(hall, place(PICK, "diff"))
    assert (first["from"], first["documents"]["from"], first["changes"], first["ok"]) == (None, None, [], True)
    same = await get(hall, f"{place(PICK, 'diff')}?from={PICK}")
    assert (same["required"], same["changes"], same["callers"]) == ("none", [], [])


async def test_diff_names_callers_of_the_earlier_version(hall: Toolhall) -> None:
    await call(hall, "Kit_pick")
    await call(hall, "Kit_pick")
    (caller,) = (await get(hall, place(BROKEN, "diff")))["callers"]
    assert (caller["caller"], caller["calls"]) == ("local", 2)


async def test_losses_cover_every_dialect_and_revision(hall: Toolhall) -> None:
    rows = {each["dialect"]: each for each in (await get(hall, place("Calculator.Add", "losses")))["dialects"]}
    assert set(rows) == {*CATALOGS, *WRITE_ONLY_CATALOGS}
    for name, row in rows.items():
        assert row["exact"] == (row["refused"] is None and row["losses"] == []), name
        listed = await get(hall, f"/tools?dialect={name}&tool=Calculator_Add")
        assert row["losses"] == [{key: each[key] for key in ("path", "reason")} for each in listed["losses"]], name
    free = {"type": "object", "additionalProperties": True}
    await registered(hall, definition("free", inputSchema=free))
    rows = {each["dialect"]: each for each in (await get(hall, place("Kit.free", "losses")))["dialects"]}
    assert rows["openai@strict"]["refused"], "strict mode cannot say that other members are allowed"


async def test_contracts_list_what_breaks_and_what_ends(hall: Toolhall) -> None:
    await call(hall, "Kit_pick")
    sunset = {"sunset": "2099-01-31", "successor": NEXT}
    assert (await manage(hall, "POST", place(PICK, "deprecate"), sunset)).status == 200
    found = await get(hall, "/api/contracts")
    (pair,) = found["breaking"]
    assert (pair["from"], pair["to"], pair["callers"]) == (NEXT, BROKEN, [])
    assert {each["kind"] for each in pair["changes"]} == {"breaking"}
    (ending,) = found["deprecations"]
    assert (ending["id"], ending["sunset"], ending["successor"]) == (PICK, "2099-01-31", NEXT)
    assert [(each["caller"], each["calls"]) for each in ending["callers"]] == [("local", 1)]
    await manage(hall, "DELETE", place(BROKEN))
    assert (await get(hall, "/api/contracts"))["breaking"] == []


async def test_lock_check_says_what_verify_says(hall: Toolhall) -> None:
    current, _ = locks_of([entry.tool for entry in hall.registry.snapshot.listed])
    lock = lock_document(current)
    reply = await manage(hall, "POST", "/api/contracts/lock", {"lock": lock})
    assert (reply.status, reply.body) == (200, {"ok": True, "checked": len(current), "drift": []})
    changed = {**lock["tools"], "Gone.tool@1.0.0": lock["tools"][PICK]}
    changed[PICK] = {**changed[PICK], "shown": "sha256-" + "0" * 64}
    del changed["Calculator.Add@" + hall.registration.find("Calculator.Add").version]
    reply = await manage(hall, "POST", "/api/contracts/lock", {"lock": {"lock": 1, "tools": changed}})
    assert not reply.body["ok"]
    assert {(each["tool"].partition("@")[0], each["what"]) for each in reply.body["drift"]} == {
        ("Calculator.Add", "added"),
        ("Gone.tool", "removed"),
        ("Kit.pick", "shown"),
    }


@pytest.mark.parametrize("body", [{}, {"lock": []}, {"lock": {"lock": 2, "tools": {}}}, {"lock": {"tools": 1}}])
async def test_bad_lock_is_refused(hall: Toolhall, body: Any) -> None:
    reply = await manage(hall, "POST", "/api/contracts/lock", body)
    assert (reply.status, reply.body["error"]["code"]) == (400, "malformed")


async def test_nothing_is_recorded_or_changed_by_looking(hall: Toolhall) -> None:
    assert isinstance(hall.journal, MemoryJournal)
    before = len(hall.journal.records)
    for path in ("/api/contracts", place(BROKEN, "diff"), place(BROKEN, "losses")):
        await get(hall, path)
    await manage(hall, "POST", "/api/contracts/lock", {"lock": {"lock": 1, "tools": {}}})
    assert len(hall.journal.records) == before


async def test_responses_match_openapi_and_are_for_observers(hall: Toolhall) -> None:
    document = await described(hall)
    await call(hall, "Kit_pick")
    await manage(hall, "POST", place(PICK, "deprecate"), {})
    for method, path, target, body in (
        ("get", "/api/contracts", "/api/contracts", None),
        ("get", "/api/tools/{id}/diff", place(BROKEN, "diff"), None),
        ("get", "/api/tools/{id}/diff", place(PICK, "diff"), None),
        ("get", "/api/tools/{id}/losses", place("Calculator.Add", "losses"), None),
        ("post", "/api/contracts/lock", "/api/contracts/lock", {"lock": {"lock": 1, "tools": {}}}),
        ("post", "/api/contracts/lock", "/api/contracts/lock", {}),
    ):
        check(document, path, method, await manage(hall, method.upper(), target, body))
        assert (await manage(hall, method.upper(), target, body, FORWARDED)).status == 403


async def test_callers_are_read_from_the_audit_of_a_data_folder(tmp_path: Path) -> None:
    async with Toolhall(config=Config(data=str(tmp_path))) as hall:
        await registered(hall, definition(), definition(version="2.0.0", inputSchema=NEEDS_MORE))
        await activated(hall, PICK)
        await manage(hall, "POST", "/api/grants", {"callers": "*", "tools": "*"})
        await call(hall, "Kit_pick")
        (pair,) = (await get(hall, "/api/contracts"))["breaking"]
        assert [each["caller"] for each in pair["callers"]] == ["local"]
