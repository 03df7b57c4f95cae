# ruff: noqa: N802 - tests carry the names of their rules
"""Machine Context's rules on messages (dialects.md 1.1, 1.2 and 5.7), over HTTP."""

import asyncio
import json
from typing import Any

import pytest

from tests.conformance.dialects.kit import CANARY
from tests.conformance.dialects.talk import Message, Posted, activated, definitions, execute, machine_request, new_id
from tests.conformance.serving import Served
from tests.conformance.wire import Http, send_bytes


def calculator(**changed: Any) -> Message:
    """A definition to register, under a name of its own."""
    capability = {"name": "add", "description": "Adds two numbers"}
    usual = {"id": new_id(), "name": "Calculator Tool", "version": "1.0.0", "description": "Performs arithmetic"}
    return {**usual, "capabilities": [capability], "securityLevel": 1, **changed}


async def refused(machine: Posted, message: Any, status: int, code: str) -> Message:
    """The error in an error message."""
    reply = await machine.send(message)
    (said,) = reply.messages
    assert (reply.status, said["header"]["messageType"], said["error"]["code"]) == (status, "error", code), said
    found: Message = said["error"]
    return found


async def execution(machine: Posted, capability: str, **parameters: Any) -> Message:
    """What came of an execution that began."""
    reply = await machine.send(execute("Probe", capability, **parameters))
    (said,) = reply.messages
    assert (reply.status, said["header"]["messageType"]) == (200, "response"), said
    found: Message = said["payload"]["execution"]
    return found


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_A_1_version_1_x_is_accepted(machine: Posted, version: str) -> None:
    request = machine_request({"tool": {"id": "House", "capability": "Look"}}, version=version)
    assert (await machine.ask(request))["header"]["version"] == "1.0"


@pytest.mark.parametrize("version", ["2.0", "1", "1.", "1.x", "", None, 1.0, ["1.0"], "1.0\n", "٤.0"])
async def test_A_1_any_other_version_is_refused(machine: Posted, version: Any) -> None:
    message = execute("House", "Look")
    message["header"]["version"] = version
    error = await refused(machine, message, 400, "VALIDATION_ERROR")
    assert "header.version" in error["message"]


async def test_A_2_reply_request_id_is_the_message_id_of_the_request(machine: Posted) -> None:
    request = execute("House", "Look")
    request["payload"]["context"] = {"request_id": "another"}
    header = (await machine.ask(request))["header"]
    assert (header["requestId"], header["destination"]) == (request["header"]["messageId"], "test")
    assert header["messageId"] != header["requestId"]


async def test_A_2_error_reply_request_id_is_the_message_id_of_the_request(machine: Posted) -> None:
    request = machine_request({}, version="9.0")
    assert (await machine.ask(request))["header"]["requestId"] == request["header"]["messageId"]


@pytest.mark.parametrize("named_by", ["messageId", "request_id"])
async def test_A_2_cancellation_by_message_id_or_request_id_cancels_the_call(machine: Posted, named_by: str) -> None:
    note, ids = new_id(), {"messageId": new_id(), "request_id": new_id()}
    request = execute("Probe", "waits", note=note)
    request["header"]["messageId"] = ids["messageId"]
    request["payload"]["context"] = {"request_id": ids["request_id"]}
    running = asyncio.ensure_future(machine.ask(request))
    await machine.value("Probe", "reached", note=note, number=1)
    reply = await machine.send(machine_request({"cancel": {"requestId": ids[named_by]}}, messageType="notification"))
    assert (reply.status, reply.body) == (202, b"")
    assert (await running)["payload"]["execution"]["status"] == "cancelled"


@pytest.mark.parametrize("bad", [None, "", 7, {}, "x" * 257])
async def test_A_2_message_without_a_valid_message_id_is_refused(machine: Posted, bad: Any) -> None:
    message = execute("House", "Look")
    message["header"]["messageId"] = bad
    await refused(machine, message, 400, "VALIDATION_ERROR")


@pytest.mark.parametrize("kind", ["notification", "response", "error", "broadcast", "Request", None, 3])
async def test_A_3_message_type_other_than_request_is_refused(machine: Posted, kind: Any) -> None:
    message = execute("House", "Look")
    message["header"]["messageType"] = kind
    error = await refused(machine, message, 400, "VALIDATION_ERROR")
    assert "messageType" in error["message"]


async def test_A_4_message_above_one_megabyte_is_413_before_its_body_is_read(kit: Served) -> None:
    """Before it is read: the headers are enough."""
    lines = [
        b"POST /machine HTTP/1.1",
        b"Host: localhost",
        b"Content-Type: application/json",
        b"Content-Length: 1048577",
    ]
    assert (await send_bytes(kit.origin, b"\r\n".join([*lines, b"", b""]))).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("security", [{}, {"token": "anything", "permissions": []}, {"token": None}, "none"])
async def test_A_5_A_14_security_claims_in_a_message_do_not_change_the_caller(machine: Posted, security: Any) -> None:
    """What a message claims adds nothing and takes nothing: this caller is proven by its address."""
    request = execute("House", "Unlock", door="front")
    request["payload"]["security"] = security
    assert (await machine.ask(request))["payload"]["execution"]["status"] == "success"
    request = execute("House", "OpenVault", vault="main")
    request["payload"]["security"] = {"token": "root", "permissions": ["admin"]}
    await refused(machine, request, 403, "SECURITY_ERROR")


async def test_A_6_unknown_fields_are_ignored_and_metadata_is_echoed(machine: Posted) -> None:
    request: Message = execute("House", "Look")
    request |= {"metadata": {"trace": ["a", {"b": None}]}, "x-more": 1}
    request["header"]["x-more"] = request["payload"]["x-more"] = request["payload"]["tool"]["x-more"] = True
    reply = await machine.ask(request)
    assert reply["metadata"] == {"trace": ["a", {"b": None}]}
    assert "metadata" not in await machine.ask(execute("House", "Look"))
    refusal = await machine.ask(execute("House", "Nothing") | {"metadata": {"trace": 1}})
    assert refusal["metadata"] == {"trace": 1}


async def test_A_8_field_names_are_spelled_as_in_the_specification(machine: Posted) -> None:
    reply = await machine.ask(execute("House", "Look"))
    assert {"messageId", "messageType", "requestId"} < reply["header"].keys()
    assert {"execution_time_ms", "resource_usage"} < reply["payload"]["execution"].keys()
    listed = await machine.ask(machine_request({"discover": {}}))
    assert listed["payload"]["tools"][0]["securityLevel"] == 1


@pytest.mark.parametrize("capability", ["crashes", "lies", "says_no", "asks", "late"])
async def test_A_9_A_42_failure_after_execution_began_is_a_response(machine: Posted, capability: str) -> None:
    found = await execution(machine, capability)
    assert found["status"] == ("timeout" if capability == "late" else "failure")
    assert found["error"]["code"] == ("TIMEOUT_ERROR" if capability == "late" else "EXECUTION_ERROR")
    assert CANARY not in json.dumps(found)


async def test_A_9_failure_response_carries_the_message_of_the_tool(machine: Posted) -> None:
    assert (await execution(machine, "fails", why="the shop is closed"))["error"]["message"] == "the shop is closed"
    assert (await execution(machine, "says_no"))["error"]["message"] == "no\nnever"


BEFORE = {
    "unknown tool": (execute("Nothing", "look"), 404, "NOT_FOUND_ERROR"),
    "unknown capability": (execute("Probe", "nowhere"), 404, "NOT_FOUND_ERROR"),
    "bad parameters": (execute("Probe", "count"), 400, "VALIDATION_ERROR"),
    "needs a person": (execute("Probe", "guarded"), 403, "SECURITY_ERROR"),
}


@pytest.mark.parametrize("case", BEFORE)
async def test_A_9_A_10_A_42_failure_before_execution_is_an_error_message(machine: Posted, case: str) -> None:
    await refused(machine, *BEFORE[case])


async def test_A_10_quarantined_tool_is_not_executed(machine: Posted, http: Http) -> None:
    definition = calculator()
    await machine.ask(machine_request({"register": definition}))
    error = await refused(machine, execute(definition["id"], "add"), 409, "RESOURCE_ERROR")
    assert error["details"] == {"state": "quarantined"}
    await activated(http, definition["id"])
    await refused(machine, execute(definition["id"], "add", a=1, b=2), 503, "RESOURCE_ERROR")  # nothing runs it yet
    await refused(machine, execute(definition["id"], "divide"), 404, "NOT_FOUND_ERROR")


async def test_A_11_bad_parameter_is_named_with_a_reason_and_a_suggestion(machine: Posted) -> None:
    details = (await refused(machine, execute("Calculator", "Add", a="x", b=1), 400, "VALIDATION_ERROR"))["details"]
    assert (details["parameter"], "number" in details["reason"]) == ("a", True)
    assert "'a'" in details["suggestion"]


async def test_A_11_missing_and_bad_parameters_are_all_listed(machine: Posted) -> None:
    details = (await refused(machine, execute("Calculator", "Add"), 400, "VALIDATION_ERROR"))["details"]
    assert {problem["parameter"] for problem in details["problems"]} == {"a", "b"}
    request = execute("Probe", "several", numbers=[1, "x"], place={"name": 3})
    details = (await refused(machine, request, 400, "VALIDATION_ERROR"))["details"]
    listed = {(problem["parameter"], problem["path"]) for problem in details["problems"]}
    assert listed == {("numbers", "/numbers/1"), ("place", "/place/name")}


CODES = {
    "Malformed": ("VALIDATION_ERROR", 400),
    "Denied": ("SECURITY_ERROR", 403),
    "Unauthenticated": ("SECURITY_ERROR", 401),
    "Limited": ("RESOURCE_ERROR", 429),
    "Unavailable": ("RESOURCE_ERROR", 503),
    "Broken": ("SYSTEM_ERROR", 500),
}


@pytest.mark.parametrize("kind", CODES)
async def test_A_12_A_13_error_kind_has_its_code_and_http_status(machine: Posted, kind: str) -> None:
    code, status = CODES[kind]
    error = await refused(machine, execute("Probe", "ends", kind=kind), status, code)
    assert CANARY not in json.dumps(error)
    assert ("retry_after_ms" in error["details"]) == (code == "RESOURCE_ERROR")


async def test_A_15_response_reports_execution_time_and_memory(machine: Posted) -> None:
    found = await execution(machine, "nothing")
    assert found["execution_time_ms"] > 0
    assert found["resource_usage"]["memory_bytes"] > 0


@pytest.mark.parametrize("cancelled", [None, {}, "x", {"requestId": 3}])
async def test_A_16_cancellation_without_a_request_id_is_refused(machine: Posted, cancelled: Any) -> None:
    message = machine_request({"cancel": cancelled}, messageType="notification")
    await refused(machine, message, 400, "VALIDATION_ERROR")


async def test_5_7_discover_lists_the_served_tools(machine: Posted) -> None:
    listed = (await machine.ask(machine_request({"discover": {}})))["payload"]["tools"]
    assert {"Calculator", "Probe", "weather"} <= {tool["id"] for tool in listed}


async def test_5_7_definition_is_registered_once_and_listed_unchanged_once_active(machine: Posted, http: Http) -> None:
    definition = calculator(metadata={"category": "utility", "tags": ["math"]})
    reply = await http.send(definition, path="/machine/tools")
    assert reply.status == 201
    assert reply.messages == [{"registered": {"id": definition["id"], "version": "1.0.0", "state": "quarantined"}}]
    assert (await http.send(definition, path="/machine/tools")).status == 400
    await refused(machine, machine_request({"register": calculator(id="Calculator")}), 400, "VALIDATION_ERROR")
    assert definition not in await definitions(http)
    await activated(http, definition["id"])
    assert definition in await definitions(http)


@pytest.mark.parametrize("cursor", ["²", "-1", "x", "9" * 5000, "1.5", ""])
async def test_5_7_discover_cursor_that_was_never_issued_is_refused(machine: Posted, http: Http, cursor: str) -> None:
    await refused(machine, machine_request({"discover": {"cursor": cursor}}), 400, "VALIDATION_ERROR")
    assert (await http.send(method="GET", path=f"/machine/tools?cursor={cursor}")).status == 400


async def test_5_7_discover_pages_hold_every_tool_once_in_order(machine: Posted, http: Http) -> None:
    for _ in range(101):
        definition = calculator()
        assert (await http.send(definition, path="/machine/tools")).status == 201
        await activated(http, definition["id"])
    first = (await machine.ask(machine_request({"discover": {}})))["payload"]
    more = machine_request({"discover": {"cursor": first["nextCursor"]}})
    second = (await machine.ask(more))["payload"]["tools"]
    ids = [tool["id"] for tool in (*first["tools"], *second)]
    assert (len(first["tools"]), len(set(ids))) == (100, len(ids))
    assert [tool["id"] for tool in await definitions(http)][: len(ids)] == ids


async def test_5_7_unauthenticated_call_does_not_reveal_whether_a_tool_exists(http: Http) -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.9"}
    hidden = await http.send(execute("Calculator", "Add", a=1, b=2), forwarded, path="/machine")
    missing = await http.send(execute("Calculator", "Odd", a=1, b=2), forwarded, path="/machine")
    texts = [reply.messages[0]["error"]["message"] for reply in (hidden, missing)]
    assert texts == ["a valid credential is required"] * 2
    assert hidden.status == missing.status == 401


@pytest.mark.parametrize(("method", "path"), [("GET", "/machine"), ("PUT", "/machine"), ("DELETE", "/machine/tools")])
async def test_endpoint_other_http_methods_are_405(http: Http, method: str, path: str) -> None:
    reply = await http.send(method=method, path=path)
    assert reply.status == 405
    assert "POST" in reply.headers["allow"]


async def test_endpoint_other_media_type_is_415_and_empty_body_400(http: Http) -> None:
    assert (await http.send(b"{}", {"Content-Type": "text/plain"}, path="/machine")).status == 415
    assert (await http.send(b"", path="/machine")).status == 400
