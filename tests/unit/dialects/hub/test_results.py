"""A tool server speaks for its tools, not for the hall."""

import pytest

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
def test_who_the_caller_is_and_what_they_may_is_not_its_to_say(code: str) -> None:
    """A client would ask its person to sign in again, or give up a key that is good."""
    error = raised(code)
    wire = write_tool_error(ASKED, error)
    assert isinstance(error, errors.ToolFailed)
    assert (error.message, wire.status, wire.headers) == ("words of its own", 400, ())


def test_a_tool_that_it_has_lost_is_still_known_to_the_hall() -> None:
    error = raised("TOOL_NOT_FOUND")
    assert type(error) is type(raised("METHOD_NOT_FOUND")) is results.NotStarted
    assert "words of its own" not in error.message


@pytest.mark.parametrize("code", ["TOOL_NOT_FOUND", "METHOD_NOT_FOUND"])
def test_what_a_tool_itself_does_not_find_has_begun(code: str) -> None:
    """It may have done something before: nobody else runs it then."""
    own = errors.ToolError("no such room", code, {"started": False})
    end = read_tool_server_message(results.write_failure("17", own, "Calendar", "create").body)
    assert isinstance(end, ToolResponseMessage)
    with pytest.raises(errors.Unavailable) as found:
        results.result_or_raise(end)
    assert type(found.value) is errors.Unavailable


@pytest.mark.parametrize(("said", "wait"), [(2.5, 2.5), (3_600, 3_600), (86_400, 3_600), (-1, 0), ("soon", 0)])
def test_it_sends_nobody_away_for_longer_than_an_hour(said: object, wait: float) -> None:
    error = raised("RATE_LIMITED", retry_after=said)
    assert isinstance(error, errors.Limited)
    assert error.retry_after == wait


def test_what_the_hall_says_to_a_question_is_its_own_word() -> None:
    assert type(results.read_hub_error(ErrorPayload("FORBIDDEN", "no"))) is errors.Denied
