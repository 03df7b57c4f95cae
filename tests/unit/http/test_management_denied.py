"""Whoever may not manage the hall changes nothing and sees nothing of what is registered; every try is recorded."""

import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import pytest

from tests.harness.asgi_client import FORWARDED, send_json, send_to_hub
from toolhall import Toolhall, tool
from toolhall.model.caller import ANONYMOUS, LOCAL
from toolhall.pipeline.admin import NOT_ADMIN

Message: TypeAlias = dict[str, Any]


@tool
def pick() -> str:
    return "one"


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    """One tool is served, another is registered; the log keeps its level."""
    log = logging.getLogger("toolhall")
    level = log.level
    with Toolhall(pick) as hall:
        yield hall
    log.setLevel(level)


def core(method: str, **params: Any) -> Message:
    return {"type": "request", "id": "1", "method": method, "params": params}


def payload(**payload: Any) -> Message:
    return {"header": {"version": "1.0", "messageId": "1", "messageType": "request"}, "payload": payload}


DECLARED: Message = {"name": "kept", "version": "1.0.0", "capabilities": {"methods": ["look"]}}
DEFINED: Message = {
    "id": "greeter",
    "name": "Greeter",
    "version": "1.0.0",
    "description": "Says hello.",
    "capabilities": [{"name": "greet", "description": "Greets somebody."}],
}
HUB = {
    "register greeter@1.0.0": core("register_tool", **DECLARED | {"name": "greeter"}),
    "unregister kept": core("unregister_tool", name="kept"),
    "configure": core("update_config", config={"logging": {"level": "ERROR"}}),
}


async def keep(hall: Toolhall) -> None:
    """Register something as somebody who may, and forget that this was recorded."""
    await hall.hub.answer(json.dumps(core("register_tool", **DECLARED)).encode(), LOCAL)
    hall.journal.records.clear()  # type: ignore[union-attr]


def records(hall: Toolhall) -> Any:
    return [each for each in hall.journal.records if each.phase is None]  # type: ignore[union-attr]


async def by_post(hall: Toolhall, message: Message, headers: dict[str, str] | None = None) -> Any:
    return (await send_json(hall, "/hub", "POST", message, headers))[1]


Way: TypeAlias = Callable[..., Awaitable[Any]]
WAYS: dict[str, Way] = {"post": by_post, "socket": send_to_hub}
in_every_way = pytest.mark.parametrize("way", WAYS)


@in_every_way
@pytest.mark.parametrize("what", HUB)
async def test_hub_change_by_non_admin_is_denied(hall: Toolhall, way: str, what: str) -> None:
    await keep(hall)
    before = logging.getLogger("toolhall").level
    reply = await WAYS[way](hall, HUB[what], FORWARDED)
    assert (reply["result"], reply["error"]["code"]) == (None, "FORBIDDEN")
    assert logging.getLogger("toolhall").level == before
    listed = (await by_post(hall, core("list_tools")))["result"]["tools"]
    assert [each["tool"]["name"] for each in listed] == ["test_management_denied"]
    assert [each.id for each in hall.registration.all_records if each.state == "quarantined"] == ["kept.look@1.0.0"]
    (record,) = records(hall)
    assert (record.caller, record.dialect, record.tool) == (ANONYMOUS.id, "hub/management", what)
    assert (record.outcome, len(record.arguments_sha256)) == ("Denied", 64)
    assert (record.verdict, record.reason) == ("deny", NOT_ADMIN)


@in_every_way
@pytest.mark.parametrize("what", HUB)
async def test_hub_change_by_local_caller_is_allowed(hall: Toolhall, way: str, what: str) -> None:
    await keep(hall)
    assert (await WAYS[way](hall, HUB[what]))["error"] is None
    (record,) = records(hall)
    assert (record.caller, record.dialect, record.tool, record.outcome) == (LOCAL.id, "hub/management", what, "ok")
    assert (record.verdict, record.reason) == (None, None)


@in_every_way
async def test_hub_hides_registered_tools_from_non_admin(hall: Toolhall, way: str) -> None:
    await keep(hall)
    assert (await WAYS[way](hall, core("list_tools"), FORWARDED))["result"] == {"tools": []}
    for name in ("kept", "test_management_denied", "nothing"):
        said = (await WAYS[way](hall, core("get_tool", name=name), FORWARDED))["error"]
        assert (said["code"], said["message"]) == ("INVALID_PARAMS", "there is no such tool; list_tools names them")
    call = {"type": "tool_request", "id": "1", "tool": "kept", "method": "look"}
    assert (await WAYS[way](hall, call, FORWARDED))["error"]["code"] == "UNAUTHENTICATED"
    assert (await WAYS[way](hall, call))["error"]["code"] == "TOOL_ERROR"  # whoever may know is told its state


@pytest.mark.parametrize(("path", "message"), [("/machine/tools", DEFINED), ("/machine", payload(register=DEFINED))])
async def test_machine_register_by_non_admin_is_denied(hall: Toolhall, path: str, message: Message) -> None:
    status, reply = await send_json(hall, path, "POST", message, FORWARDED)
    assert (status, reply["error"]["code"], reply["error"]["details"]) == (
        403,
        "SECURITY_ERROR",
        {"reason": "not_permitted"},
    )
    assert "greeter" not in json.dumps(await send_json(hall, "/machine/tools"))
    assert (await send_json(hall, path, "POST", message))[0] in (200, 201)
    assert [(each.caller, each.dialect, each.tool, each.outcome) for each in records(hall)] == [
        (ANONYMOUS.id, "machine/management", "register greeter@1.0.0", "Denied"),
        (LOCAL.id, "machine/management", "register greeter@1.0.0", "ok"),
    ]


async def test_machine_hides_registered_tools_from_non_admin(hall: Toolhall) -> None:
    await keep(hall)
    assert await send_json(hall, "/machine/tools", headers=FORWARDED) == (200, {"tools": []})
    _, reply = await send_json(hall, "/machine", "POST", payload(discover={}), FORWARDED)
    assert reply["payload"] == {"tools": []}
    call = payload(tool={"id": "kept", "capability": "look"})
    assert (await send_json(hall, "/machine", "POST", call, FORWARDED))[0] == 401
    status, told = await send_json(hall, "/machine", "POST", call)  # whoever may know is told its state
    assert (status, told["error"]["details"]) == (409, {"state": "quarantined"})


@pytest.mark.parametrize("given", [{}, {"id": 3, "version": ["1"]}, [], "text", {"tool": 1}])
async def test_refused_definition_is_audited(hall: Toolhall, given: Any) -> None:
    assert (await send_json(hall, "/machine/tools", "POST", given))[0] == 400
    (record,) = records(hall)
    assert record.tool.startswith("register ?")
    assert record.outcome == "BadDocument"
