# ruff: noqa: N802 - tests carry the names of their rules
"""The hub's rules on messages (dialects.md 2.1 to 2.5 and 5.7), over HTTP."""

import json
from typing import Any

import pytest

from tests.conformance.dialects.kit import CANARY
from tests.conformance.dialects.talk import (
    Message,
    Posted,
    activated,
    core_request,
    definitions,
    new_id,
    tool_request,
)
from tests.conformance.wire import Http


async def refused(hub: Posted, message: Any, status: int, code: str) -> Message:
    """The error in a reply."""
    reply = await hub.send(message)
    (said,) = reply.messages
    assert (reply.status, said["result"], said["error"]["code"]) == (status, None, code), said
    found: Message = said["error"]
    return found


async def managed(hub: Posted, method: str, **params: Any) -> Any:
    """The result of a request to the hub itself."""
    reply = await hub.ask(core_request(method, **params))
    assert (reply["type"], reply["error"]) == ("response", None), reply
    return reply["result"]


async def listed(hub: Posted) -> list[Message]:
    """Every declaration, page by page."""
    page = await managed(hub, "list_tools")
    found: list[Message] = page["tools"]
    while "nextCursor" in page:
        page = await managed(hub, "list_tools", cursor=page["nextCursor"])
        found += page["tools"]
    return found


def declaration(**changed: Any) -> Message:
    """Params of register_tool, with a name of their own."""
    return {"name": new_id(), "version": "1.0.0", "capabilities": {"methods": ["method1"], "resources": []}, **changed}


@pytest.mark.parametrize("id", ["r1", "", "ü", 0, 7, -1, 2**53 + 1, None])
@pytest.mark.parametrize("kind", ["tool", "core"])
async def test_C_1_request_id_is_echoed_unchanged(hub: Posted, kind: str, id: Any) -> None:  # noqa: A002
    message = tool_request("House", "Look") if kind == "tool" else core_request("health_check")
    (reply,) = (await hub.send({**message, "id": id})).messages
    assert (reply["id"], type(reply["id"])) == (id, type(id))


@pytest.mark.parametrize("id", [1.5, True, ["r1"], {"a": 1}, "x" * 257])
async def test_C_1_request_id_neither_string_nor_integer_is_refused(hub: Posted, id: Any) -> None:  # noqa: A002
    (reply,) = (await hub.send({**tool_request("House", "Look"), "id": id})).messages
    assert (reply["id"], reply["error"]["code"]) == (None, "INVALID_REQUEST")


async def test_C_1_request_without_id_gets_a_null_id(hub: Posted) -> None:
    message = tool_request("House", "Look")
    del message["id"]
    (reply,) = (await hub.send(message)).messages
    assert reply["id"] is None
    assert reply["error"] is None


async def test_C_2_success_response_has_no_error_and_failure_no_result(hub: Posted) -> None:
    good = await hub.ask(tool_request("Calculator", "Add", a=1, b=2))
    assert good == {"type": "tool_response", "id": good["id"], "result": {"result": 3}, "error": None}
    bad = await hub.ask(tool_request("Probe", "fails", why="no"))
    assert (bad["type"], bad["result"]) == ("tool_response", None)


@pytest.mark.parametrize("method", ["crashes", "says_no", "asks"])
async def test_C_3_tool_exception_is_a_tool_error(hub: Posted, method: str) -> None:
    error = await refused(hub, tool_request("Probe", method), 400, "TOOL_ERROR")
    assert CANARY not in json.dumps(error)


async def test_C_3_C_9_unknown_method_has_another_code_than_a_failing_tool(hub: Posted) -> None:
    error = await refused(hub, tool_request("Probe", "fails", why="Unknown method"), 400, "TOOL_ERROR")
    assert error["message"] == "Unknown method"
    await refused(hub, tool_request("Probe", "method1"), 400, "METHOD_NOT_FOUND")
    await refused(hub, tool_request("Nothing", "method1"), 400, "TOOL_NOT_FOUND")


async def test_C_4_tool_error_is_inside_the_tool_response(hub: Posted) -> None:
    error = (await hub.ask(tool_request("Probe", "fails", why="no")))["error"]
    assert error == {
        "type": "tool_error",
        "code": "TOOL_ERROR",
        "message": "no",
        "details": {"tool": "Probe", "method": "fails"},
    }


METHOD: Message = {"name": "method1", "description": "Does it", "params": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("method", ["method1", METHOD], ids=["name", "object"])
async def test_C_5_register_tool_accepts_plain_and_wrapped_declarations(
    hub: Posted, http: Http, method: Any, wrapped: bool
) -> None:
    given = declaration(capabilities={"methods": [method], "resources": []})
    result = await managed(hub, "register_tool", **({"tool": given} if wrapped else given))
    assert result == {"tool_id": f"{given['name']}@1.0.0", "status": "registered", "state": "quarantined"}
    await activated(http, given["name"])
    assert await managed(hub, "get_tool", name=given["name"]) == {"tool": given}


BAD_DECLARATIONS: list[Message] = [
    {},
    {"name": "x"},
    {"name": "x", "version": "1.0.0", "capabilities": {"methods": []}},
    {"name": "x", "version": "1.0.0", "capabilities": {"methods": [{}]}},
    {"name": "x", "version": "1.0.0", "capabilities": {"methods": "method1"}},
    {"name": "x", "version": "1.0.0", "capabilities": {"methods": ["a", "a"]}},
    {"name": "Calculator", "version": "9.0.0", "capabilities": {"methods": ["a"]}},
    {"tool": []},
]


async def test_C_5_register_tool_with_an_invalid_declaration_is_refused(hub: Posted) -> None:
    for declared in BAD_DECLARATIONS:
        error = await refused(hub, core_request("register_tool", **declared), 400, "INVALID_PARAMS")
        assert "type" not in error


async def test_C_6_health_check_reports_the_overall_status_and_the_requested_components(hub: Posted) -> None:
    whole = await managed(hub, "health_check")
    assert (whole["status"], whole["components"]["core"]) == ("healthy", "healthy")
    assert whole["components"]["tools"]["Calculator"] == "healthy"
    assert whole == await managed(hub, "health_check", components=["all"])
    assert (await managed(hub, "health_check", components=["tools"]))["components"].keys() == {"tools"}


@pytest.mark.parametrize("components", ["core", ["database"], [["core"]], [None], {"core": 1}, 3])
async def test_C_6_health_check_with_unknown_components_is_refused(hub: Posted, components: Any) -> None:
    await refused(hub, core_request("health_check", components=components), 400, "INVALID_PARAMS")


async def test_C_7_registered_tool_is_listed_once_active_and_can_be_unregistered(hub: Posted, http: Http) -> None:
    given = declaration()
    await managed(hub, "register_tool", **given)
    await managed(hub, "register_tool", **given | {"version": "2.0.0"})
    assert given["name"] not in [tool["tool"]["name"] for tool in await listed(hub)]
    await activated(http, given["name"])
    names = [tool["tool"]["name"] for tool in await listed(hub)]
    assert "Calculator" in names
    assert names.count(given["name"]) == 2
    assert (await managed(hub, "get_tool", name=given["name"]))["tool"]["version"] == "2.0.0"
    assert (await managed(hub, "get_tool", name=given["name"], version="1.0.0"))["tool"]["version"] == "1.0.0"
    assert await managed(hub, "unregister_tool", name=given["name"], version="2.0.0") == {"status": "unregistered"}
    assert (await managed(hub, "get_tool", name=given["name"]))["tool"]["version"] == "1.0.0"
    assert await managed(hub, "unregister_tool", name=given["name"]) == {"status": "unregistered"}
    await refused(hub, core_request("get_tool", name=given["name"]), 400, "INVALID_PARAMS")
    await refused(hub, core_request("unregister_tool", name="Calculator"), 400, "INVALID_PARAMS")


@pytest.mark.parametrize("method", ["get_tool", "unregister_tool"])
@pytest.mark.parametrize("params", [{}, {"name": 3}, {"name": "Calculator", "version": 1}, {"name": ["Calculator"]}])
async def test_C_7_tool_name_or_version_that_is_no_string_is_refused(hub: Posted, method: str, params: Message) -> None:
    await refused(hub, core_request(method, **params), 400, "INVALID_PARAMS")


async def test_C_7_tool_registered_in_either_message_dialect_is_listed_in_both(hub: Posted, http: Http) -> None:
    given = declaration()
    await managed(hub, "register_tool", **given)
    capabilities = [{"name": "add", "description": "Adds"}]
    other: Message = {"id": new_id(), "name": "X", "version": "1.0.0", "description": "x", "capabilities": capabilities}
    assert (await http.send(other, path="/machine/tools")).status == 201
    await activated(http, given["name"])
    await activated(http, other["id"])
    declared = await managed(hub, "get_tool", name=other["id"])
    assert [method["name"] for method in declared["tool"]["capabilities"]["methods"]] == ["add"]
    (found,) = (tool for tool in await definitions(http) if tool["id"] == given["name"])
    assert [capability["name"] for capability in found["capabilities"]] == ["method1"]


CODES: dict[str, tuple[Any, int]] = {
    "INVALID_REQUEST": ({"type": "nothing"}, 400),
    "INVALID_PARAMS": (tool_request("Calculator", "Add", a="x"), 400),
    "TOOL_ERROR": (tool_request("Probe", "crashes"), 400),
    "INTERNAL_ERROR": (tool_request("Probe", "lies"), 500),
    "TIMEOUT": (tool_request("Probe", "late"), 504),
    "APPROVAL_REQUIRED": (tool_request("Probe", "guarded"), 403),
    "AUTHORIZATION_REQUIRED": (tool_request("Probe", "ends", kind="NeedsRequirement"), 403),
    "FORBIDDEN": (tool_request("Probe", "ends", kind="Denied"), 403),
    "UNAUTHENTICATED": (tool_request("Probe", "ends", kind="Unauthenticated"), 401),
    "RATE_LIMITED": (tool_request("Probe", "ends", kind="Limited"), 429),
    "UNAVAILABLE": (tool_request("Probe", "ends", kind="Unavailable"), 503),
}


@pytest.mark.parametrize("code", CODES)
async def test_C_8_C_28_error_code_has_its_http_status(hub: Posted, code: str) -> None:
    """Known errors are 400 unless the code is ours, what the hub does not know is 500 with a fixed text."""
    message, status = CODES[code]
    error = await refused(hub, message, status, code)
    assert CANARY not in json.dumps(error)
    assert ("retry_after" in error["details"]) == (code in ("RATE_LIMITED", "UNAVAILABLE"))


async def test_C_28_internal_error_has_a_fixed_message(hub: Posted) -> None:
    error = await refused(hub, tool_request("Probe", "ends", kind="Broken"), 500, "INTERNAL_ERROR")
    assert error["message"] == "internal error; the details are in the server's log"


@pytest.mark.parametrize("params", [[], "x", 3, False])
async def test_C_8_params_that_are_no_object_are_refused(hub: Posted, params: Any) -> None:
    of_tool, of_hub = tool_request("Calculator", "Add"), core_request("health_check")
    error = await refused(hub, {**of_tool, "params": params}, 400, "INVALID_PARAMS")
    assert error["details"] == {"tool": "Calculator", "method": "Add"}
    await refused(hub, {**of_hub, "params": params}, 400, "INVALID_PARAMS")


async def test_C_8_invalid_params_error_names_every_bad_parameter(hub: Posted) -> None:
    error = await refused(hub, tool_request("Calculator", "Add"), 400, "INVALID_PARAMS")
    assert {problem["path"] for problem in error["details"]["problems"]} == {"/a", "/b"}


async def test_C_9_unknown_method_of_a_tool_or_the_hub_is_told_apart_by_reply_type(hub: Posted) -> None:
    of_tool = await hub.ask(tool_request("Calculator", "register_tool"))
    of_hub = await hub.ask(core_request("Add", a=1, b=2))
    assert of_tool["error"]["code"] == of_hub["error"]["code"] == "METHOD_NOT_FOUND"
    assert (of_tool["type"], of_hub["type"]) == ("tool_response", "response")
    assert of_tool["error"]["details"] == {"tool": "Calculator", "method": "register_tool"}
    assert "register_tool" in of_hub["error"]["message"]


async def test_2_1_core_pipeline_request_form_is_accepted(hub: Posted) -> None:
    asked = {"tool": "Calculator", "action": "Add", "params": {"a": 1, "b": 2}}
    for metadata in ({"version": "1.0.0", "source": "core"}, {"source": "core"}, {"version": None}):
        (reply,) = (await hub.send({**asked, "metadata": metadata})).messages
        assert (reply["type"], reply["result"]) == ("tool_response", {"result": 3})
    error = await refused(hub, {**asked, "metadata": {"version": "2.0.0"}}, 400, "TOOL_NOT_FOUND")
    assert error["details"] == {"tool": "Calculator", "method": "Add", "version": "2.0.0"}
    await refused(hub, {**asked, "metadata": {"version": 1}}, 400, "INVALID_REQUEST")
    await refused(hub, {**asked, "action": "Divide", "metadata": {"version": "1.0.0"}}, 400, "METHOD_NOT_FOUND")


async def test_2_2_update_config_applies_the_log_level_and_refuses_anything_else(hub: Posted) -> None:
    changed = await managed(hub, "update_config", config={"logging": {"level": "warning"}})
    assert changed == {"status": "updated", "applied_changes": ["logging.level"]}
    refusals: list[Any] = [{}, {"logging": {}}, {"logging": {"level": "LOUD"}}, {"logging": {}, "port": 1}, [], None]
    for config in refusals:
        await refused(hub, core_request("update_config", config=config), 400, "INVALID_PARAMS")


async def test_5_5_call_of_a_quarantined_tool_reports_its_state(hub: Posted, http: Http) -> None:
    given = declaration()
    await managed(hub, "register_tool", **given)
    error = await refused(hub, tool_request(given["name"], "method1"), 400, "TOOL_ERROR")
    assert error["details"]["state"] == "quarantined"
    await activated(http, given["name"])
    await refused(hub, tool_request(given["name"], "method1"), 503, "UNAVAILABLE")  # nothing runs it yet


async def test_5_7_unauthenticated_call_does_not_reveal_whether_a_tool_exists(http: Http) -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.9"}
    for method in ("Add", "Odd"):
        reply = await http.send(tool_request("Calculator", method, a=1, b=2), forwarded, path="/hub")
        (said,) = reply.messages
        assert (said["error"]["code"], said["error"]["message"]) == (
            "UNAUTHENTICATED",
            "a valid credential is required",
        )
    health = (await http.send(core_request("health_check"), forwarded, path="/hub")).messages[0]
    assert health["result"]["components"]["tools"] == {}


async def test_C_21_health_live_and_ready_endpoints_answer_over_http(http: Http) -> None:
    whole = (await http.send(method="GET", path="/health")).messages[0]
    assert {"status", "uptime", "components"} <= whole.keys()
    assert (await http.send(method="GET", path="/health/live")).messages == [{"status": "alive"}]
    assert (await http.send(method="GET", path="/health/ready")).messages == [{"status": "ready"}]


async def test_endpoint_other_http_methods_are_405_and_media_types_415(http: Http) -> None:
    reply = await http.send(method="GET", path="/hub")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert (await http.send(b"{}", {"Content-Type": "text/plain"}, path="/hub")).status == 415
    assert (await http.send(b"", path="/hub")).status == 400
