"""Errors that a tool server may report, and those that only the hall may."""

import pytest

from tests.tables import each_row
from toolhall.dialects.hub import results
from toolhall.dialects.hub.call_messages import ErrorPayload, ToolResponseMessage, read_tool_server_message
from toolhall.dialects.hub.messages import HubToolRequest, write_tool_error
from toolhall.model import errors

ASKED = HubToolRequest("7", "Calendar", "create", {}, None)


def raised(code: str, message: str = "words of its own", **details: object) -> errors.ToolhallError:
    with pytest.raises(errors.ToolhallError) as found:
        results.result_or_raise(ToolResponseMessage("17", error=ErrorPayload(code, message, dict(details))))
    return found.value


@pytest.mark.parametrize("code", ["UNAUTHENTICATED", "FORBIDDEN"])
def test_tool_server_error_about_caller_is_tool_failure(code: str) -> None:
    """A client would ask its person to sign in again, or give up a key that is good."""
    error = raised(code)
    wire = write_tool_error(ASKED, error)
    assert isinstance(error, errors.ToolFailed)
    assert (error.message, wire.status, wire.headers) == ("words of its own", 400, ())


def test_tool_server_not_found_is_not_started() -> None:
    error = raised("TOOL_NOT_FOUND")
    assert type(error) is type(raised("METHOD_NOT_FOUND")) is results.NotStarted
    assert "words of its own" not in error.message


@pytest.mark.parametrize("code", ["TOOL_NOT_FOUND", "METHOD_NOT_FOUND"])
def test_tool_server_not_found_by_tool_is_unavailable(code: str) -> None:
    """The tool may have had side effects, so no other replica may run the call."""
    own = errors.ToolError("no such room", code, {"started": False})
    end = read_tool_server_message(results.write_failure("17", own, "Calendar", "create").body)
    assert isinstance(end, ToolResponseMessage)
    with pytest.raises(errors.Unavailable) as found:
        results.result_or_raise(end)
    assert type(found.value) is errors.Unavailable


@each_row(("said", "wait"), [(2.5, 2.5), (3_600, 3_600), (86_400, 3_600), (-1, 0), ("soon", 0)])
def test_tool_server_retry_after_is_at_most_an_hour(said: object, wait: float) -> None:
    error = raised("RATE_LIMITED", retry_after=said)
    assert isinstance(error, errors.Limited)
    assert error.retry_after == wait


def test_hub_error_about_caller_is_kept() -> None:
    assert type(results.read_hub_error(ErrorPayload("FORBIDDEN", "no"))) is errors.Denied
