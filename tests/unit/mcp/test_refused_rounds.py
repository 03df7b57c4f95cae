"""The next request of a call that is refused: whatever waits for it elsewhere is told, and only then."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.harness.asgi_client import AsgiRequest
from tests.harness.local_mcp import LOOPBACK, McpError
from tests.harness.mcp_messages import modern_meta, modern_request
from toolhall import Context, Toolhall, tool

FORM: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
META = modern_meta({"elicitation": {}})


@tool(effect="reads")
async def book(ctx: Context, rounds: int) -> str:
    """Book a seat."""
    await ctx.once("seat", str, "12A")
    for number in range(rounds):
        await ctx.ask(f"question {number}?", FORM, key=f"k{number}")
    if rounds == 1:
        raise LookupError("the seat is gone")
    return "booked"


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    with Toolhall(book) as made:
        yield made


@pytest.fixture
def refused(hall: Toolhall, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, bytes]]:
    """What was told of refused rounds."""
    told: list[Mapping[str, bytes]] = []
    monkeypatch.setattr(hall.upstreams, "end_waiting_call", told.append)
    return told


async def ask(hall: Toolhall, **params: Any) -> Any:
    """The result of a call by a client that can be asked."""
    message, headers = modern_request("tools/call", params, meta=META)
    sent = {"host": "localhost", "content-type": "application/json"}
    sent |= {name.lower(): value for name, value in headers.items()}
    reply = await AsgiRequest(hall, "POST", "/mcp", json.dumps(message).encode(), sent, LOOPBACK).run()
    decoded = json.loads(reply.body)
    if "error" in decoded:
        raise McpError(decoded["error"])
    return decoded["result"]


async def first_round(hall: Toolhall, rounds: int) -> dict[str, Any]:
    result = await ask(hall, name="book", arguments={"rounds": rounds})
    assert result["resultType"] == "input_required"
    return next_round(result, rounds)


def next_round(result: dict[str, Any], rounds: int) -> dict[str, Any]:
    replies = {key: {"action": "accept", "content": {"a": "x"}} for key in result["inputRequests"]}
    state = {"requestState": result["requestState"], "inputResponses": replies}
    return {"name": "book", "arguments": {"rounds": rounds}, **state}


async def test_round_that_fails_is_told_with_what_the_call_remembered(
    hall: Toolhall, refused: list[Mapping[str, bytes]]
) -> None:
    second = await first_round(hall, 1)
    assert (await ask(hall, **second))["isError"]
    assert refused == [{"seat": b'"12A"'}]


async def test_round_that_goes_on_is_not_told(hall: Toolhall, refused: list[Mapping[str, bytes]]) -> None:
    second = await first_round(hall, 2)
    asked = await ask(hall, **second)
    third = next_round(asked, 2)
    assert (await ask(hall, **third))["content"][0]["text"] == "booked"
    assert refused == []


async def test_call_with_too_many_rounds_is_told(hall: Toolhall, refused: list[Mapping[str, bytes]]) -> None:
    following = await first_round(hall, 9)
    for _ in range(4):
        following = next_round(await ask(hall, **following), 9)
    with pytest.raises(McpError, match="more than 5 times"):
        await ask(hall, **following)
    assert len(refused) == 1
