"""Plain REST: the body is the arguments, the reply is the value, an error has a code and a message."""

import json
from typing import Any

import pytest

from tests.conformance.dialects.kit import CANARY
from tests.conformance.wire import Http


async def call(http: Http, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """The status and the value that came back."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = await http.send(body, given, path=f"/tools/{path}")
    assert reply.headers["content-type"] == "application/json"
    return reply.status, json.loads(reply.body)


VALUES = {
    "Calculator/Add": ({"a": 1, "b": 2}, 3),
    "Calculator/Add?version=1.0.0": ({"a": 1, "b": 2}, 3),
    "%43alculator/%41dd": ({"a": 1, "b": 2}, 3),
    "Probe/nothing": ({}, None),
    "Probe/anything": ({"value": {"result": [None]}}, {"result": [None]}),
    "Probe/wrapped": ({}, {"result": 1}),
    "Probe/blocks": ({}, ["a picture", "data:image/png;base64,cG5n"]),
    "weather/get_weather": ({"location": "Oslo"}, "Current weather in Oslo:\nTemperature: 48°F\nConditions: Clear"),
}


@pytest.mark.parametrize("path", VALUES)
async def test_call_response_body_is_the_value_of_the_tool(http: Http, path: str) -> None:
    given, value = VALUES[path]
    assert await call(http, path, given) == (200, value)


async def test_call_without_arguments_needs_no_body(http: Http) -> None:
    assert await call(http, "Probe/nothing") == (200, None)
    assert await call(http, "Probe/nothing", b"") == (200, None)


REFUSALS: list[tuple[str, Any, int, str]] = [
    ("Probe/nowhere", {}, 404, "not_found"),
    ("Nothing/nowhere", {}, 404, "not_found"),
    ("Calculator/Add?version=2.0.0", {"a": 1, "b": 2}, 404, "not_found"),
    ("Calculator", {}, 404, "not_found"),
    ("Calculator/Add/more", {}, 404, "not_found"),
    ("%2543alculator/Add", {"a": 1, "b": 2}, 404, "not_found"),
    ("Calculator%2FAdd", {"a": 1, "b": 2}, 404, "not_found"),
    ("Calculator%2fAdd/more", {"a": 1, "b": 2}, 404, "not_found"),
    ("Calculator/Add%2F", {"a": 1, "b": 2}, 404, "not_found"),
    ("Calculator/Add?version=", {"a": 1, "b": 2}, 400, "malformed"),
    ("Calculator/Add", {"a": "x"}, 422, "bad_arguments"),
    ("Calculator/Add", [1, 2], 400, "malformed"),
    ("Calculator/Add", b"{", 400, "malformed"),
    ("Calculator/Add", b'{"a":1,"a":2,"b":3}', 400, "malformed"),
    ("Calculator/Add?verson=1.0.0", {"a": 1, "b": 2}, 400, "malformed"),
    ("Probe/guarded", {}, 403, "needs_verification"),
    ("Probe/fails", {"why": "no"}, 409, "tool_failed"),
    ("Probe/says_no", {}, 409, "tool_failed"),
    ("Probe/crashes", {}, 500, "crashed"),
    ("Probe/lies", {}, 500, "bad_output"),
    ("Probe/late", {}, 504, "timed_out"),
    ("Probe/asks", {}, 400, "unsupported"),
    ("Probe/ends", {"kind": "Unavailable"}, 503, "unavailable"),
    ("Probe/ends", {"kind": "Broken"}, 500, "broken"),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
async def test_refused_call_has_a_status_a_code_and_a_message(http: Http, number: int) -> None:
    path, given, status, code = REFUSALS[number]
    found, body = await call(http, path, given)
    assert (found, body["error"]["code"]) == (status, code)
    assert body["error"]["message"]
    assert CANARY not in json.dumps(body)


async def test_bad_arguments_error_names_every_argument(http: Http) -> None:
    _, body = await call(http, "Calculator/Add", {})
    assert {problem["path"] for problem in body["error"]["details"]["problems"]} == {"/a", "/b"}


@pytest.mark.parametrize("kind", ["Limited", "Unavailable"])
async def test_rate_limited_or_unavailable_call_has_a_retry_after_header(http: Http, kind: str) -> None:
    reply = await http.send({"kind": kind}, path="/tools/Probe/ends")
    assert int(reply.headers["retry-after"]) >= 1


async def test_unauthenticated_call_does_not_reveal_whether_a_tool_exists(http: Http) -> None:
    for tool in ("Add", "Odd"):
        status, body = await call(http, f"Calculator/{tool}", {}, X_Forwarded_For="203.0.113.9")
        assert (status, body["error"]["message"]) == (401, "a valid credential is required")


async def test_endpoint_other_http_methods_are_405_and_media_types_415(http: Http) -> None:
    reply = await http.send(method="GET", path="/tools/Calculator/Add")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert (await call(http, "Calculator/Add", b"a=1", Content_Type="application/x-www-form-urlencoded"))[0] == 415
