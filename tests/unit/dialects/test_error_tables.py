"""Every error of the tree in every dialect, as in the reference, without internal details."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.conformance.dialects.kit import CANARY, made
from tests.tables import each_row
from toolhall import ToolhallError
from toolhall.dialects.error_details import MAX_PROBLEMS
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.hub import messages as hub
from toolhall.dialects.hub.errors import TABLE as HUB
from toolhall.dialects.hub.errors import BadParams, MethodNotFound
from toolhall.dialects.machine import messages as machine
from toolhall.dialects.machine.errors import TABLE as MACHINE
from toolhall.dialects.mcp.errors import TABLE as MCP
from toolhall.dialects.mcp.protocol import REVISIONS, Revision
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.dialects.openapi.errors import TABLE as REST
from toolhall.dialects.openapi.errors import write_error as write_rest
from toolhall.dialects.oxp.errors import TABLE as OXP
from toolhall.dialects.oxp.messages import write_error as write_oxp
from toolhall.model import errors
from toolhall.model.messages import WireResponse

TABLES: dict[str, Mapping[type, object]] = {"machine": MACHINE, "hub": HUB, "oxp": OXP, "rest": REST, "mcp": MCP}
EXECUTE = machine.ExecuteRequest("Kit", "tool", {})
HEADER = machine.MachineHeader("m-1", "request", "agent")
STAMP = machine.MessageStamp("m-2", "2025-03-21T12:00:00+00:00")
USAGE = machine.ExecutionUsage(1.0, 1.0, 1)
REQUEST = hub.HubToolRequest("r-1", "Kit", "tool", {})


class ErrorReference(NamedTuple):
    """What the reference says of one error: Machine's code and status, the hub's code, OXP's and REST's HTTP status."""

    machine: str
    status: str | None
    hub: str
    oxp: int
    rest: int


# dialects.md 5.5, with what 5.7 decides. A status of None is an error message, OXP's 200 is `success: false`.
EXPECTED: dict[type[ToolhallError], ErrorReference] = {
    errors.Malformed: ErrorReference("VALIDATION_ERROR", None, "INVALID_REQUEST", 400, 400),
    errors.NotFound: ErrorReference("NOT_FOUND_ERROR", None, "TOOL_NOT_FOUND", 400, 404),
    errors.NotActive: ErrorReference("RESOURCE_ERROR", None, "TOOL_ERROR", 400, 404),
    errors.Retired: ErrorReference("NOT_FOUND_ERROR", None, "TOOL_NOT_FOUND", 400, 410),
    errors.BadArguments: ErrorReference("VALIDATION_ERROR", None, "INVALID_PARAMS", 422, 422),
    errors.Unsupported: ErrorReference("EXECUTION_ERROR", "failure", "TOOL_ERROR", 200, 400),
    errors.Unauthenticated: ErrorReference("SECURITY_ERROR", None, "UNAUTHENTICATED", 401, 401),
    errors.Denied: ErrorReference("SECURITY_ERROR", None, "FORBIDDEN", 403, 403),
    errors.NeedsVerification: ErrorReference("SECURITY_ERROR", None, "APPROVAL_REQUIRED", 400, 403),
    errors.NeedsRequirement: ErrorReference("SECURITY_ERROR", None, "AUTHORIZATION_REQUIRED", 400, 403),
    errors.Limited: ErrorReference("RESOURCE_ERROR", None, "RATE_LIMITED", 429, 429),
    errors.ToolFailed: ErrorReference("EXECUTION_ERROR", "failure", "TOOL_ERROR", 200, 409),
    errors.ToolError: ErrorReference("EXECUTION_ERROR", "failure", "TOOL_ERROR", 200, 409),
    errors.NotEnded: ErrorReference("RESOURCE_ERROR", "running", "TOOL_ERROR", 200, 409),
    errors.Crashed: ErrorReference("EXECUTION_ERROR", "failure", "TOOL_ERROR", 200, 500),
    errors.TimedOut: ErrorReference("TIMEOUT_ERROR", "timeout", "TIMEOUT", 200, 504),
    errors.Cancelled: ErrorReference("EXECUTION_ERROR", "cancelled", "CANCELLED", 200, 500),
    errors.BadOutput: ErrorReference("EXECUTION_ERROR", "failure", "INTERNAL_ERROR", 200, 500),
    errors.Unavailable: ErrorReference("RESOURCE_ERROR", None, "UNAVAILABLE", 503, 503),
    errors.OutcomeUnknown: ErrorReference("SYSTEM_ERROR", None, "INTERNAL_ERROR", 500, 500),
    errors.Broken: ErrorReference("SYSTEM_ERROR", None, "INTERNAL_ERROR", 500, 500),
}
by_kind = pytest.mark.parametrize("kind", EXPECTED, ids=lambda kind: kind.__name__)


def write_machine(error: ToolhallError) -> WireResponse:
    return machine.write_failure(HEADER, EXECUTE, error, STAMP, USAGE)


def write_hub(error: ToolhallError) -> WireResponse:
    return hub.write_tool_error(REQUEST, error)


def _mcp(revision: Revision, error: ToolhallError) -> WireResponse:
    return McpEncoder(ServerInfo(name="hall", version="1"), revision).error(1, error)


WAYS: dict[str, Callable[[ToolhallError], WireResponse]] = {
    "machine": write_machine,
    "hub": write_hub,
    "oxp": lambda error: write_oxp("c-1", error),
    "rest": write_rest,
    **{f"mcp@{revision.name}": partial(_mcp, revision) for revision in REVISIONS.values()},
}
in_every_way = pytest.mark.parametrize("way", WAYS)


def classes(kind: type[ToolhallError] = ToolhallError) -> set[type[ToolhallError]]:
    """Every class of the tree below this one."""
    below = [each for each in kind.__subclasses__() if each.__module__ == errors.__name__]
    return set(below).union(*map(classes, below))


@each_row("dialect", TABLES)
def test_error_tables_list_every_class(dialect: str) -> None:
    endings = classes() - {errors.Refused, errors.Failed}
    assert endings == set(EXPECTED), "say here what the reference says of it"
    assert set(TABLES[dialect]) == endings


def said(way: str, error: ToolhallError) -> Any:
    return json.loads(WAYS[way](error).body)


@by_kind
def test_machine_errors_match_reference(kind: type[ToolhallError]) -> None:
    expected, reply = EXPECTED[kind], said("machine", made(kind))
    if expected.status is None:
        assert reply["header"]["messageType"] == "error"
        assert reply["error"]["code"] == expected.machine
    else:
        execution = reply["payload"]["execution"]
        assert (execution["status"], execution["error"]["code"]) == (expected.status, expected.machine)


@by_kind
def test_hub_errors_match_reference(kind: type[ToolhallError]) -> None:
    error = said("hub", made(kind))["error"]
    assert error["code"] == EXPECTED[kind].hub
    assert error["details"].items() >= {"tool": "Kit", "method": "tool"}.items()


@by_kind
def test_oxp_errors_match_reference(kind: type[ToolhallError]) -> None:
    wire = WAYS["oxp"](made(kind))
    assert wire.status == EXPECTED[kind].oxp
    if wire.status == 200:
        assert json.loads(wire.body)["result"]["success"] is False


@by_kind
def test_rest_errors_match_reference(kind: type[ToolhallError]) -> None:
    assert WAYS["rest"](made(kind)).status == EXPECTED[kind].rest


@in_every_way
@by_kind
def test_errors_never_leak_detail(way: str, kind: type[ToolhallError]) -> None:
    error = made(kind)
    error.__cause__ = RuntimeError(CANARY)
    error.add_note(CANARY)
    assert error.detail == CANARY
    wire = WAYS[way](error)
    assert CANARY.encode() not in wire.body
    assert CANARY not in str(wire.headers)


@in_every_way
def test_errors_broken_has_fixed_message(way: str) -> None:
    class Odd(ToolhallError):
        """Off the tree."""

    for error in (errors.Broken(CANARY), Odd(CANARY)):
        wire = WAYS[way](error)
        assert CANARY.encode() not in wire.body
        assert errors.Broken.message.encode() in wire.body


@each_row("way", [way for way in WAYS if not way.startswith("mcp@")])
def test_errors_unlisted_class_is_written_like_base(way: str) -> None:
    class HotelFull(errors.ToolFailed):
        """A tool author's own."""

    assert said(way, HotelFull("no room")) == said(way, errors.ToolFailed("no room"))


REASONS: dict[type[ToolhallError], str] = {
    errors.Unauthenticated: "not_authenticated",
    errors.Denied: "not_permitted",
    errors.NeedsVerification: "additional_verification_required",
    errors.NeedsRequirement: "requirement_missing",
}


@each_row("kind", REASONS)
def test_machine_security_errors_have_reasons(kind: type[ToolhallError]) -> None:
    assert said("machine", made(kind))["error"]["details"] == {"reason": REASONS[kind]}


WAITS = [(errors.Limited(1.5), 1500, b"2"), (errors.Unavailable(), 5000, b"5"), (errors.Limited(0.0001), 1, b"1")]


@each_row(("error", "wait_ms", "header"), WAITS)
def test_errors_retryable_have_retry_after(error: ToolhallError, wait_ms: int, header: bytes) -> None:
    assert said("machine", error)["error"]["details"] == {"retry_after_ms": wait_ms}
    assert said("hub", error)["error"]["details"]["retry_after"] == pytest.approx(wait_ms / 1000, abs=0.001)
    body = said("oxp", error)
    assert (body["can_retry"], body["retry_after_ms"]) == (True, wait_ms)
    for way in ("machine", "hub", "oxp", "rest"):
        assert (b"retry-after", header) in WAYS[way](error).headers


@each_row("way", ["machine", "hub", "oxp", "rest"])
def test_errors_unauthenticated_have_challenge(way: str) -> None:
    wire = WAYS[way](errors.Unauthenticated())
    assert (wire.status, wire.headers) == (401, ((b"www-authenticate", b"Bearer"),))


def test_oxp_bad_arguments_name_parameter() -> None:
    problems = [
        errors.Problem("/a~1b~0c", "is wrong"),
        errors.Problem("/list/0/name", "is missing"),
        errors.Problem("/list", "is short"),
        errors.Problem("", "is too much"),
    ]
    assert said("oxp", errors.BadArguments(problems))["parameter_errors"] == {
        "a/b~c": "is wrong",
        "list": "0/name: is missing; is short",
        "": "is too much",
    }


def test_machine_bad_arguments_name_parameter() -> None:
    details = said("machine", errors.BadArguments([errors.Problem("/a~1b/0", "is wrong")]))["error"]["details"]
    assert (details["parameter"], details["reason"]) == ("a/b", "is wrong")
    assert "'a/b'" in details["suggestion"]


@pytest.mark.parametrize(
    ("path", "reason", "suggestion"),
    [
        ("/c", "Additional properties are not allowed ('c' was unexpected)", "leave out 'c'"),
        ("", "Unevaluated properties are not allowed ('c', 'd' were unexpected)", "leave out what"),
    ],
)
def test_machine_unexpected_parameter_has_suggestion(path: str, reason: str, suggestion: str) -> None:
    details = said("machine", errors.BadArguments([errors.Problem(path, reason)]))["error"]["details"]
    assert details["suggestion"].startswith(suggestion)


FINDINGS = [Finding(f"/{number}", "kit/rule", "mend it") for number in range(30)]


@pytest.mark.parametrize("way", ["machine", "hub", "rest"])
def test_errors_bad_document_lists_problems(way: str) -> None:
    """The message names the first ones only."""
    listed = [{"path": each.path, "rule": each.rule, "fix": each.fix} for each in FINDINGS]
    assert said(way, BadDocument(FINDINGS))["error"]["details"]["problems"] == listed
    assert len(said(way, BadDocument(FINDINGS * 1000))["error"]["details"]["problems"]) == MAX_PROBLEMS


def test_hub_management_errors_have_own_codes() -> None:
    """C-8: TOOL_NOT_FOUND is a code for calls of tools."""
    request = hub.HubRequest("r-1", "get_tool", {})
    for error in (errors.NotFound(), errors.Malformed(), BadDocument(FINDINGS)):
        assert json.loads(hub.write_error(request, error).body)["error"]["code"] == "INVALID_PARAMS"


@pytest.mark.parametrize("read", [machine.read_message, hub.read_message], ids=["machine", "hub"])
def test_read_message_empty_and_too_large_differ(read: Callable[[bytes | None], object]) -> None:
    with pytest.raises((machine.MachineDecodeError, hub.HubDecodeError), match="is empty"):
        read(b"")
    with pytest.raises((machine.MachineDecodeError, hub.HubDecodeError), match="larger than is read"):
        read(None)


@pytest.mark.parametrize(
    ("error", "code"),
    [(MethodNotFound("no"), "METHOD_NOT_FOUND"), (BadParams("no"), "INVALID_PARAMS")],
)
def test_hub_specific_errors_have_own_codes(error: ToolhallError, code: str) -> None:
    wire = WAYS["hub"](error)
    assert json.loads(wire.body)["error"]["code"] == code
    assert (wire.status, wire.headers) == (400, ())
