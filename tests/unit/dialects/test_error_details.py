"""Retry advice of a failed tool in every dialect: whether, when, and what the model should read."""

import json
from typing import Any

import pytest

from tests.conformance.dialects.kit import CANARY
from tests.tables import each_row
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


def test_retry_advice_in_oxp_members() -> None:
    assert said("oxp", LATER)["result"]["error"] == {
        "message": "the shop is closed",
        "can_retry": True,
        "retry_after_ms": 1500,
        "additional_prompt_content": "It opens at nine.",
    }
    assert said("oxp", SOME_TIME)["result"]["error"] == {"message": "the shop is busy", "can_retry": True}
    assert said("oxp", PLAIN)["result"]["error"] == {"message": "no", "can_retry": False}


def test_retry_advice_in_machine_details() -> None:
    found = [said("machine", each)["payload"]["execution"]["error"]["details"] for each in (LATER, SOME_TIME, NEVER)]
    assert found == [
        {"retry_after_ms": 1500, "can_retry": True, "prompt": "It opens at nine."},
        {"can_retry": True},
        {"prompt": "Try another shop."},
    ]


def test_retry_advice_in_hub_details() -> None:
    named = {"tool": "Kit", "method": "tool"}
    assert [said("hub", each)["error"]["details"] for each in (LATER, SOME_TIME, PLAIN)] == [
        {**named, "can_retry": True, "prompt": "It opens at nine.", "retry_after": 1.5},
        {**named, "can_retry": True},
        named,
    ]
    assert WAYS["hub"](LATER).headers == ((b"retry-after", b"2"),)


def test_retry_advice_in_rest_details_and_header() -> None:
    wire = WAYS["rest"](LATER)
    assert (wire.status, wire.headers) == (409, ((b"retry-after", b"2"),))
    details = said("rest", LATER)["error"]["details"]
    assert details == {"can_retry": True, "prompt": "It opens at nine.", "retry_after": 1.5}
    assert said("rest", NEVER)["error"]["details"] == {"prompt": "Try another shop."}
    assert "details" not in said("rest", PLAIN)["error"]


@each_row("revision", REVISIONS)
def test_retry_advice_in_mcp_text_and_meta(revision: str) -> None:
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


@each_row("seconds", [-1, float("nan"), float("inf"), 1e12])
def test_retry_after_must_be_seconds(seconds: float) -> None:
    with pytest.raises(ValueError, match="retry_after"):
        ToolFailed("no", retry_after=seconds)


def test_retry_after_implies_can_retry() -> None:
    assert ToolFailed("no", retry_after=0).can_retry
    assert not ToolFailed("no").can_retry


async def test_retry_prompt_is_sanitized() -> None:
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
