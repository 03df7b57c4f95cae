# ruff: noqa: N802 - tests carry the names of their rules
"""OXP's rules on messages (dialects.md 3.1 to 3.5 and 5.7), over HTTP."""

import asyncio
import json
from typing import Any

import pytest

from tests.conformance.dialects import judge
from tests.conformance.dialects.kit import CANARY
from tests.conformance.dialects.talk import Message, new_id
from tests.conformance.wire import Http, Reply

SHORT = "urn:oxp:1.0"
LONG = "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json"
ADD = {"a": 1, "b": 2}


async def post(http: Http, body: Any, **headers: str) -> Reply:
    """Send a call; the reply has a body that fits its status."""
    reply = await http.send(
        body, {name.replace("_", "-"): value for name, value in headers.items()}, path="/oxp/tools/call"
    )
    judge.check_oxp(reply.status, reply.messages[0])
    return reply


async def call(http: Http, tool_id: Any, given: Any = None, **more: Any) -> Reply:
    """Call a tool."""
    return await post(http, {"request": {"tool_id": tool_id, **({} if given is None else {"input": given}), **more}})


async def result(http: Http, tool_id: str, given: Any = None, **more: Any) -> Message:
    """The result of a call that ran."""
    reply = await call(http, tool_id, given, **more)
    assert reply.status == 200, reply
    found: Message = reply.messages[0]["result"]
    return found


async def listing(http: Http, body: Any = None) -> Reply:
    """The list of tools."""
    reply = await http.send(body, method="GET", path="/oxp/tools")
    judge.check_oxp(reply.status, reply.messages[0], "list")
    return reply


@pytest.mark.parametrize("schema", [SHORT, LONG, None])
async def test_D_1_supported_schema_version_is_accepted(http: Http, schema: Any) -> None:
    assert (await post(http, {"$schema": schema, "request": {"tool_id": "Calculator.Add", "input": ADD}})).status == 200
    assert (await listing(http, {"$schema": schema})).status == 200


@pytest.mark.parametrize("schema", ["urn:oxp:2.0", "urn:oxp:1.1", "urn:oxp:1", "", 1.0, [SHORT], {"a": 1}, LONG + "#"])
async def test_D_1_unsupported_schema_version_is_400(http: Http, schema: Any) -> None:
    refused = await post(http, {"$schema": schema, "request": {"tool_id": "Calculator.Add", "input": ADD}})
    assert (refused.status, SHORT in refused.messages[0]["message"]) == (400, True)
    assert (await listing(http, {"$schema": schema})).status == 400


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"$schema":1,"$schema":2}', b"\xff"])
async def test_D_1_tool_list_with_an_unreadable_body_is_400(http: Http, body: bytes) -> None:
    assert (await listing(http, body)).status == 400


async def test_D_1_tool_list_without_a_body_is_answered(http: Http) -> None:
    assert (await listing(http)).status == 200
    assert (await listing(http, {})).status == 200


@pytest.mark.parametrize(
    "tool_id",
    ["Calculator.Add", "Calculator.Add@1", "Calculator.Add@1.0.0", "Early.look@1.0.0", "Early.look@1", "Early.look"],
)
async def test_D_2_tool_id_with_a_served_version_is_called(http: Http, tool_id: str) -> None:
    assert (await result(http, tool_id, ADD if "Add" in tool_id else {}))["success"] is True


@pytest.mark.parametrize("version", ["1.0", "2", "1.0.1", "01", "latest", "", "1.0.0-rc.1", "1.0.0\n", "\u0661", "1.x"])
async def test_D_2_D_4_tool_id_with_a_version_not_served_is_400(http: Http, version: str) -> None:
    assert (await call(http, f"Calculator.Add@{version}", ADD)).status == 400


async def test_D_2_tool_id_with_a_bare_major_number_means_exactly_that_release(http: Http) -> None:
    """Version 2.1.0 is served: it is not meant by 2, which is 2.0.0."""
    assert (await call(http, "Probe.nothing@2")).status == 400
    assert (await call(http, "Probe.nothing@2.1.0")).status == 200


async def test_D_3_unknown_tool_is_400_bad_input_422_and_tool_failure_a_result(http: Http) -> None:
    assert (await call(http, "Probe.nowhere")).status == 400
    assert (await call(http, "Probe.count", {"note": 3})).status == 422
    failed = await result(http, "Probe.fails", {"why": "the shop is closed"})
    assert (failed["success"], failed["error"]["message"]) == (False, "the shop is closed")


@pytest.mark.parametrize("tool", ["crashes", "lies", "says_no", "asks", "late"])
async def test_D_3_D_5_tool_that_crashes_or_times_out_is_a_result_with_an_error(http: Http, tool: str) -> None:
    found = await result(http, f"Probe.{tool}")
    assert (found["success"], found["error"]["can_retry"]) == (False, False)
    assert CANARY not in json.dumps(found)


async def test_D_3_bad_input_errors_are_keyed_by_parameter(http: Http) -> None:
    for given, names in (({}, {"a", "b"}), ({"a": 1}, {"b"}), ({"a": "x", "b": 1}, {"a"})):
        assert (await call(http, "Calculator.Add", given)).messages[0]["parameter_errors"].keys() == names
    nested = (await call(http, "Probe.several", {"numbers": [1, "x"], "place": {}})).messages[0]["parameter_errors"]
    assert nested.keys() == {"numbers", "place"}
    assert nested["place"].startswith("name: ")


@pytest.mark.parametrize(
    "tool_id", ["Nothing.Add", "Calculator.Divide", "Calculator", "Calculator.Add.More", "", 3, None, "a-b.c"]
)
async def test_D_4_unknown_or_malformed_tool_id_is_400(http: Http, tool_id: Any) -> None:
    assert (await call(http, tool_id, ADD)).status == 400


async def test_D_6_rate_limited_or_unavailable_call_carries_retry_hints(http: Http) -> None:
    for kind, status in (("Limited", 429), ("Unavailable", 503)):
        reply = await call(http, "Probe.ends", {"kind": kind})
        said = reply.messages[0]
        assert (reply.status, said["can_retry"], said["retry_after_ms"] > 0) == (status, True, True)
        assert int(reply.headers["retry-after"]) >= 1
    assert "can_retry" not in (await call(http, "Probe.ends", {"kind": "Denied"})).messages[0]


async def test_D_9_result_value_is_absent_without_output_and_otherwise_any_json(http: Http) -> None:
    assert "value" not in await result(http, "Probe.nothing")
    for value in (None, 0, "", [], {}, {"result": 1}, [None]):
        assert (await result(http, "Probe.anything", {"value": value}))["value"] == value
    assert (await result(http, "Probe.blocks"))["value"] == ["a picture", "data:image/png;base64,cG5n"]


@pytest.mark.parametrize("authorization", ["Bearer nonsense", "Basic !!", "x"])
async def test_D_11_invalid_credential_of_a_local_caller_is_ignored(http: Http, authorization: str) -> None:
    body = {"request": {"tool_id": "Calculator.Add", "input": ADD}}
    assert (await post(http, body, Authorization=authorization, OXP_API_Key="nonsense")).status == 200


STATUSES = {
    "Malformed": 400,
    "Unauthenticated": 401,
    "Denied": 403,
    "NeedsVerification": 400,
    "NeedsRequirement": 400,
    "Broken": 500,
}


@pytest.mark.parametrize("kind", STATUSES)
async def test_5_7_error_kind_has_its_http_status(http: Http, kind: str) -> None:
    reply = await call(http, "Probe.ends", {"kind": kind})
    assert reply.status == STATUSES[kind]
    assert CANARY not in reply.body.decode()
    assert ("missing_requirements" in reply.messages[0]) == kind.startswith("Needs")


async def test_3_2_call_without_call_id_is_given_one(http: Http) -> None:
    first, second = await result(http, "Probe.nothing"), await result(http, "Probe.nothing")
    assert first["call_id"] != second["call_id"]
    assert first["duration"] >= 0
    assert (await result(http, "Probe.nothing", call_id="c-1"))["call_id"] == "c-1"


async def test_3_2_call_repeated_with_its_call_id_returns_the_same_answer_and_runs_once(http: Http) -> None:
    note, call_id = new_id(), new_id()
    first = await call(http, "Probe.count", {"note": note}, call_id=call_id, trace_id="t-1")
    again = await call(http, "Probe.count", {"note": note}, trace_id="t-2", call_id=call_id)
    assert first.body == again.body
    assert (await result(http, "Probe.counted", {"note": note}))["value"] == 1


async def test_3_2_call_sent_twice_at_once_with_one_call_id_runs_once(http: Http) -> None:
    note, call_id = new_id(), new_id()
    given = {"note": note, "at_least": 2}
    both = [asyncio.ensure_future(call(http, "Probe.count", given, call_id=call_id)) for _ in range(2)]
    await result(http, "Probe.reached", {"note": note, "number": 1})
    assert (await result(http, "Probe.count", {"note": note}))["value"] == 2
    first, second = await asyncio.gather(*both)
    assert first.body == second.body
    assert (await result(http, "Probe.counted", {"note": note}))["value"] == 2


async def test_3_2_call_id_reused_for_another_call_is_refused(http: Http) -> None:
    note, call_id = new_id(), new_id()
    await result(http, "Probe.count", {"note": note}, call_id=call_id)
    for tool, given in (("count", {"note": new_id()}), ("counted", {"note": note})):
        reply = await call(http, f"Probe.{tool}", given, call_id=call_id)
        assert (reply.status, "call_id" in reply.messages[0]["message"]) == (400, True)
    assert (await result(http, "Probe.counted", {"note": note}))["value"] == 1


@pytest.mark.parametrize("kind", ["Limited", "Unavailable", "Unauthenticated"])
async def test_3_2_call_id_of_a_call_that_did_not_run_can_be_sent_again(http: Http, kind: str) -> None:
    call_id = new_id()
    assert (await call(http, "Probe.ends", {"kind": kind}, call_id=call_id)).status != 200
    assert (await result(http, "Probe.nothing", call_id=call_id))["success"] is True


async def test_3_2_call_id_of_a_crashed_call_returns_the_same_answer(http: Http) -> None:
    call_id = new_id()
    first, again = [await call(http, "Probe.crashes", call_id=call_id) for _ in range(2)]
    assert first.body == again.body


BAD_REQUESTS: list[Any] = [
    b"", b"{", b"null", b"[]", b'{"request":{"tool_id":"A.b","tool_id":"A.c"}}', b"[" * 100_000, b'{"request":NaN}',
    {}, {"request": None}, {"request": []}, {"request": {"tool_id": "Calculator.Add", "extra": 1}},
    {"request": {"tool_id": "Calculator.Add", "input": [1]}}, {"request": {"tool_id": "Calculator.Add", "call_id": ""}},
    {"request": {"tool_id": "Calculator.Add", "call_id": 3}}, {"request": {"tool_id": "Calculator.Add", "context": []}},
    {"request": {"tool_id": "Calculator.Add", "context": {"user_id": 3}}},
    {"request": {"tool_id": "Calculator.Add", "context": {"secrets": [{"id": "KEY"}]}}},
    {"request": {"tool_id": "Calculator.Add", "context": {"authorization": {"id": "google", "token": "x"}}}},
]  # fmt: skip


async def test_3_2_malformed_request_is_400(http: Http) -> None:
    for body in BAD_REQUESTS:
        assert (await post(http, body)).status == 400, body


async def test_3_4_table_1_2_6_tool_list_has_items_and_tools_with_versioned_ids(http: Http) -> None:
    body = (await listing(http)).messages[0]
    assert body["items"] == body["tools"]
    assert all(tool["id"].endswith(f"@{tool['version']}") for tool in body["items"])
    assert all(tool["input_schema"].keys() == {"parameters"} for tool in body["items"])


async def test_3_4_table_3_call_accepts_input_or_inputs_but_not_both(http: Http) -> None:
    assert (await result(http, "Calculator.Add", None, inputs=ADD))["value"] == 3
    assert (await call(http, "Calculator.Add", ADD, inputs=ADD)).status == 400


async def test_3_4_table_5_call_on_another_path_is_404(http: Http) -> None:
    assert (await http.send({"request": {"tool_id": "Calculator.Add"}}, path="/oxp/call")).status == 404


async def test_3_4_table_10_health_endpoint_is_200(http: Http) -> None:
    assert (await http.send(method="GET", path="/oxp/health")).status == 200


async def test_5_7_unauthenticated_call_does_not_reveal_whether_a_tool_exists(http: Http) -> None:
    for tool_id in ("Calculator.Add", "Calculator.Odd", "Calculator.Add@1.0.0"):
        reply = await post(http, {"request": {"tool_id": tool_id}}, X_Forwarded_For="203.0.113.9")
        assert (reply.status, reply.messages[0]["message"]) == (401, "a valid credential is required")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/oxp/tools/call"), ("POST", "/oxp/tools"), ("POST", "/oxp/health")]
)
async def test_endpoints_other_http_methods_are_405_and_media_types_415(http: Http, method: str, path: str) -> None:
    assert (await http.send(method=method, path=path)).status == 405
    assert (await http.send(b"{}", {"Content-Type": "text/plain"}, path="/oxp/tools/call")).status == 415
