"""Definitions from outside: names in one spelling, pages of bounded size, every problem at once."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.http.asgi_client import asked
from toolhall import Toolhall
from toolhall.examples.calculator import Calculator
from toolhall.http import dialect_definitions
from toolhall.model.errors import Malformed


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    """One toolkit is served."""
    with Toolhall(Calculator) as hall:
        yield hall


def defined(name: str, *capabilities: str, description: str = "x") -> Any:
    """A definition."""
    listed = [{"name": each, "description": "x"} for each in capabilities or ("look",)]
    return {"id": name, "name": name, "version": "1.0.0", "description": description, "capabilities": listed}


async def active(hall: Toolhall, definition: Any) -> None:
    """Register a definition and activate all of it, as somebody who looked at it."""
    assert (await asked(hall, "/machine/tools", "POST", definition))[0] == 201
    for kept in hall.registration.all_records:
        if kept.state == "quarantined":
            await hall.registration.activate(kept.id, "ada", kept.document_digest)


async def core(hall: Toolhall, method: str, **params: Any) -> Any:
    """The reply of the hub itself."""
    return (await asked(hall, "/hub", "POST", {"type": "request", "id": "1", "method": method, "params": params}))[1]


async def test_register_code_toolkit_is_refused(hall: Toolhall) -> None:
    status, reply = await asked(hall, "/machine/tools", "POST", defined("Calculator"))
    assert (status, reply["error"]["message"]) == (
        400,
        "'Calculator' is served already, from code; register under another name",
    )
    declared = {"name": "Calculator", "version": "1.0.0", "capabilities": {"methods": ["look"]}}
    assert (await core(hall, "register_tool", **declared))["error"]["code"] == "INVALID_PARAMS"


async def test_register_name_in_other_case_cannot_be_activated(hall: Toolhall) -> None:
    assert (await asked(hall, "/machine/tools", "POST", defined("calculator", "Add")))[0] == 201
    kept = hall.registration.find("calculator.Add")
    with pytest.raises(Malformed, match="rename one of them"):
        await hall.registration.activate(kept.id, "ada", kept.document_digest)


async def test_register_conflicting_names_are_refused(hall: Toolhall) -> None:
    assert (await asked(hall, "/machine/tools", "POST", defined("kit")))[0] == 201
    status, reply = await asked(hall, "/machine/tools", "POST", {**defined("Kit"), "version": "2.0.0"})
    assert (status, "cannot tell apart from kit.look@1.0.0" in reply["error"]["message"]) == (400, True)
    status, reply = await asked(hall, "/machine/tools", "POST", defined("other", "look", "Look"))
    assert (status, "Look, look" in reply["error"]["message"]) == (400, True)


async def test_hub_list_is_paged(hall: Toolhall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect_definitions, "PAGE", 2)
    for number in range(4):
        await active(hall, defined(f"kit{number}"))
    names: list[str] = []
    params: dict[str, str] = {}
    while True:
        page = (await core(hall, "list_tools", **params))["result"]
        assert len(page["tools"]) <= 2
        names += [each["tool"]["name"] for each in page["tools"]]
        if "nextCursor" not in page:
            break
        params = {"cursor": page["nextCursor"]}
    assert names == ["Calculator", "kit0", "kit1", "kit2", "kit3"]
    for cursor in ("x", 1, ["0"]):
        assert (await core(hall, "list_tools", cursor=cursor))["error"]["code"] == "INVALID_PARAMS"


async def test_machine_list_page_is_bounded_in_bytes_and_never_empty(
    hall: Toolhall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect_definitions, "PAGE_BYTES", 5_000)
    for number in range(3):
        await active(hall, defined(f"kit{number}", description="x" * 6_000))
    seen, cursor = [], ""
    while True:
        _, page = await asked(hall, f"/machine/tools{cursor}")
        seen.append([each["id"] for each in page["tools"]])
        if "nextCursor" not in page:
            break
        cursor = f"?cursor={page['nextCursor']}"
    assert seen == [["Calculator"], ["kit0"], ["kit1"], ["kit2"]]


async def test_documents_are_found_by_name(hall: Toolhall) -> None:
    for version in ("9.0.0", "10.0.0"):
        await active(hall, {**defined("kit"), "version": version})
    assert (await core(hall, "get_tool", name="kit"))["result"]["tool"]["version"] == "10.0.0"
    assert (await core(hall, "get_tool", name="kit", version="9.0.0"))["result"]["tool"]["version"] == "9.0.0"
    assert (await core(hall, "get_tool", name="Calculator"))["result"]["tool"]["version"] == "1.0.0"
    assert "list_tools" in (await core(hall, "get_tool", name="Kit"))["error"]["message"]


async def test_quarantined_tool_is_in_no_list_of_any_dialect(hall: Toolhall) -> None:
    assert (await asked(hall, "/machine/tools", "POST", defined("abacus")))[0] == 201
    for path in ("/machine/tools", "/oxp/tools", "/tools?dialect=machine", "/tools?dialect=hub", "/openapi.json"):
        assert "abacus" not in json.dumps(await asked(hall, path))
    assert "abacus" not in json.dumps(await core(hall, "list_tools"))
    assert "error" in await core(hall, "get_tool", name="abacus")


async def test_register_bad_definition_reports_every_problem(hall: Toolhall) -> None:
    bad = {**defined("kit"), "capabilities": [{"name": f"look{number}"} for number in range(30)]}
    _, reply = await asked(hall, "/machine/tools", "POST", bad)
    problems = reply["error"]["details"]["problems"]
    assert [problem["path"] for problem in problems] == [f"/capabilities/{number}/description" for number in range(30)]
    assert problems[0].keys() == {"path", "rule", "fix"}
    declared = {"name": "kit", "version": "one", "capabilities": {"methods": [{}, {"name": 1}]}}
    error = (await core(hall, "register_tool", **declared))["error"]
    assert error["code"] == "INVALID_PARAMS"
    assert [problem["path"] for problem in error["details"]["problems"]] == [
        "/version",
        "/capabilities/methods/0/name",
        "/capabilities/methods/1/name",
    ]
