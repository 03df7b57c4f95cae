"""What a tool that failed advises, in every dialect: whether to try again, when, and what the model should read."""

import json
from typing import Any

import pytest

from tests.conformance.dialects.kit import CANARY
from tests.unit.dialects.test_error_tables import WAYS
from toolhall import ToolFailed, ToolhallError, tool
from toolhall.dialects.mcp.protocol import REVISIONS
from toolhall.testing import Client

LATER = ToolFailed("the shop is closed", detail=CANARY, retry_after=1.5, prompt="It opens at nine.")
SOME_TIME = ToolFailed("the shop is busy", detail=CANARY, can_retry=True)
NEVER = ToolFailed("the shop is gone", detail=CANARY, prompt="Try another shop.")
RETRY = "dev.toolhall/retry"
PLAIN = ToolFailed("no", detail=CANARY)


def said(way: str, error: ToolhallError) -> Any:
    body = WAYS[way](error).body
    assert CANARY.encode() not in body
    return json.loads(body)


def test_oxp_has_a_member_for_each() -> None:
    assert said("oxp", LATER)["result"]["error"] == {
        "message": "the shop is closed",
        "can_retry": True,
        "retry_after_ms": 1500,
        "additional_prompt_content": "It opens at nine.",
    }
    assert said("oxp", SOME_TIME)["result"]["error"] == {"message": "the shop is busy", "can_retry": True}
    assert said("oxp", PLAIN)["result"]["error"] == {"message": "no", "can_retry": False}


def test_machine_has_them_in_its_details() -> None:
    found = [said("machine", each)["payload"]["execution"]["error"]["details"] for each in (LATER, SOME_TIME, NEVER)]
    assert found == [
        {"retry_after_ms": 1500, "can_retry": True, "prompt": "It opens at nine."},
        {"can_retry": True},
        {"prompt": "Try another shop."},
    ]


def test_so_has_the_hub() -> None:
    named = {"tool": "Kit", "method": "tool"}
    assert [said("hub", each)["error"]["details"] for each in (LATER, SOME_TIME, PLAIN)] == [
        {**named, "can_retry": True, "prompt": "It opens at nine.", "retry_after": 1.5},
        {**named, "can_retry": True},
        named,
    ]
    assert WAYS["hub"](LATER).headers == ((b"retry-after", b"2"),)


def test_so_has_rest_with_a_header() -> None:
    wire = WAYS["rest"](LATER)
    assert (wire.status, wire.headers) == (409, ((b"retry-after", b"2"),))
    details = said("rest", LATER)["error"]["details"]
    assert details == {"can_retry": True, "prompt": "It opens at nine.", "retry_after": 1.5}
    assert said("rest", NEVER)["error"]["details"] == {"prompt": "Try another shop."}
    assert "details" not in said("rest", PLAIN)["error"]


@pytest.mark.parametrize("revision", REVISIONS)
def test_mcp_says_it_to_the_model_and_in_meta(revision: str) -> None:
    later, some_time, never, plain = (
        said(f"mcp@{revision}", each)["result"] for each in (LATER, SOME_TIME, NEVER, PLAIN)
    )
    assert later["content"][0]["text"] == "the shop is closed\nTry again in 1.5 seconds.\nIt opens at nine."
    assert later["_meta"][RETRY] == {"canRetry": True, "retryAfterMs": 1500}
    assert some_time["content"][0]["text"] == "the shop is busy\nTry again later."
    assert never["content"][0]["text"] == "the shop is gone\nTry another shop."
    assert never["_meta"][RETRY] == {"canRetry": False}
    assert plain["content"][0]["text"] == "no"
    assert RETRY not in plain.get("_meta", {})


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e12])
def test_a_wait_is_a_number_of_seconds(seconds: float) -> None:
    with pytest.raises(ValueError, match="retry_after"):
        ToolFailed("no", retry_after=seconds)


def test_a_wait_says_that_trying_again_helps() -> None:
    assert ToolFailed("no", retry_after=0).can_retry
    assert not ToolFailed("no").can_retry


async def test_what_a_tool_advises_is_cleaned_like_all_its_words() -> None:
    @tool
    async def closed() -> None:
        raise ToolFailed("\x1b[31mclosed", prompt="\x1b[2Jcome back" + "!" * 100_000)

    async with Client(closed) as client:
        with pytest.raises(ToolFailed) as failed:
            await client.call(closed)
    assert failed.value.message == "closed"
    assert failed.value.prompt is not None
    assert failed.value.prompt.startswith("come back")
    assert len(failed.value.prompt) < 10_000
