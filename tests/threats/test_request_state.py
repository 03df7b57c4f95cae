# ruff: noqa: N802 - tests carry the names of their rows
"""C1 to C3, B10, I12: what travels through the client between two rounds opens only where and when it should."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.mcp_messages import MODERN, encoded
from tests.harness.mcp_messages import McpAnswer as Answer
from tests.harness.mcp_messages import tool_call as calling
from tests.harness.server_process import ServerProcess as Served
from tests.harness.sync_mcp_client import SyncHttpMcpClient as HttpLine
from tests.threats.callers import Guest, Halls
from toolhall.mcp.request_state import MAX_ROUNDS, STATE_SECONDS

STALE = -32602
NORTH = {"wall": "north", "coats": 2}
RED = {"colour": {"action": "accept", "content": {"colour": "red"}}}
CODE = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class Painter:
    """A caller of `paint`, with what it takes to cheat."""

    def __init__(self, halls: Halls) -> None:
        self.halls = halls

    async def paint(self, arguments: Any = NORTH, tool: str = "paint", caller: str = "alice", **more: Any) -> Answer:
        """Call a tool that asks for a colour."""
        return await Guest(self.halls, caller, MODERN).ask(calling(MODERN, tool, arguments, **more))

    async def state(self, arguments: Any = NORTH) -> str:
        """The state that comes with the first question."""
        asked = (await self.paint(arguments)).result
        assert asked["resultType"] == "input_required"
        return str(asked["requestState"])

    async def touches(self) -> str:
        """How often anything was painted."""
        return (await Guest(self.halls, "alice", MODERN).ask(calling(MODERN, "touches"))).text


@pytest.fixture
def clock() -> Clock:
    """Time that the test moves."""
    return Clock()


@pytest.fixture
def painter(clock: Clock) -> Iterator[Painter]:
    """A caller of a hall in this process."""
    halls = Halls(clock)
    yield Painter(halls)
    halls.close()


@pytest.mark.threat("C3")
async def test_C3_right_reply_is_taken(painter: Painter) -> None:
    """So that the refusals below mean something."""
    state = await painter.state()
    assert (await painter.paint(requestState=state, inputResponses=RED)).text == "north is red"


SWAPS: dict[str, dict[str, Any]] = {
    "other_argument": {"arguments": {"wall": "south", "coats": 2}},
    "one_argument_more": {"arguments": {**NORTH, "more": 1}},
    "one_argument_less": {"arguments": {"wall": "north"}},
    "no_arguments": {"arguments": {}},
    "other_tool": {"tool": "paint_again"},
    "other_caller": {"caller": "bob"},
    "caller_in_other_case": {"caller": "Alice"},
}


@pytest.mark.threat("C3")
@pytest.mark.threat("B10")
@pytest.mark.parametrize("swap", SWAPS)
async def test_C3_state_of_another_call(painter: Painter, swap: str) -> None:
    """A reply given for one call opens no other: not with other arguments, not another tool, not somebody else's."""
    state, before = await painter.state(), await painter.touches()
    answer = await painter.paint(requestState=state, inputResponses=RED, **SWAPS[swap])
    assert answer.code == STALE
    assert "requestState" in answer.text
    assert await painter.touches() == before


@pytest.mark.threat("C3")
async def test_C3_state_of_another_server(painter: Painter, clock: Clock) -> None:
    """A state sealed with another key is no state."""
    other = Halls(clock, key=bytes([1]) * 32)
    state = await Painter(other).state()
    other.close()
    assert (await painter.paint(requestState=state, inputResponses=RED)).code == STALE


@pytest.mark.threat("C3")
async def test_C3_state_changed_at_every_byte(painter: Painter) -> None:
    """Each letter changed, each letter left out, each cut, anything added: never opened."""
    state, before = await painter.state(), await painter.touches()
    forged = [
        state[:place] + CODE[(CODE.index(letter) + 1) % 64] + state[place + 1 :]
        for place, letter in enumerate(state)
        if letter in CODE
    ]
    forged += [state[:place] + state[place + 1 :] for place in range(len(state))]
    forged += [state[:place] for place in range(len(state))]
    forged += [state + extra for extra in ("A", "=", "====", "\n", " ", "\u00e4")]
    forged += [state.replace("-", "+").replace("_", "/") + "\n", "=" + state, state.swapcase()]
    for each in forged:
        assert (await painter.paint(requestState=each, inputResponses=RED)).code == STALE, each
    assert await painter.touches() == before


@pytest.mark.threat("C3")
@pytest.mark.parametrize("odd", [1, True, [], {}, [1], {"a": 1}, "", "x" * 100_000, "\U0001f600", "AAAA"])
async def test_C3_states_that_are_none(painter: Painter, odd: Any) -> None:
    """Whatever is no state of ours is refused in the same words."""
    answer = await painter.paint(requestState=odd, inputResponses=RED)
    assert (answer.status, answer.code) == (200, STALE)
    assert len(answer.raw) < 300


@pytest.mark.threat("C2")
async def test_C2_state_expires(painter: Painter, clock: Clock) -> None:
    """A state lives for ten minutes, and no clock of the caller's counts."""
    state, other = await painter.state(), await painter.state()
    clock.now += STATE_SECONDS - 1
    assert (await painter.paint(requestState=state, inputResponses=RED)).text == "north is red"
    clock.now += 2
    late = await painter.paint(requestState=other, inputResponses=RED)
    assert (late.code, "too old" in late.text) == (STALE, True)


@pytest.mark.threat("C1")
async def test_C1_no_reply_of_the_client_is_an_approval(painter: Painter) -> None:
    """A call that needs a person's yes does not run because the request itself says yes."""
    before = await painter.touches()
    for key in ("approval", "approve", "confirm", "form_1", "level"):
        yes = {"action": "accept", "content": {"approved": True, "confirm": True}}
        answer = await painter.paint({}, tool="dangerous", inputResponses={key: yes})
        assert answer.is_error
        assert "person" in answer.text
    assert await painter.touches() == before


@pytest.mark.threat("C1")
async def test_C1_replies_to_what_was_not_asked(painter: Painter) -> None:
    """Replies under other names are no replies; the person is asked again."""
    state, before = await painter.state(), await painter.touches()
    odd = {"other": RED["colour"], "COLOUR": RED["colour"], "": RED["colour"]}
    answer = await painter.paint(requestState=state, inputResponses=odd)
    assert list(answer.result["inputRequests"]) == ["colour"]
    assert await painter.touches() == before


@pytest.mark.threat("C1")
@pytest.mark.parametrize(
    "reply",
    [None, 1, "accept", [], {}, {"action": "yes"}, {"action": ["accept"]}, {"action": "accept", "content": "red"},
     {"action": "accept", "content": {"colour": 1}}, {"action": "accept", "content": {}}, {"action": "accept"}],
)  # fmt: skip
async def test_C1_replies_of_the_wrong_form(painter: Painter, reply: Any) -> None:
    """A reply that does not fit the question is refused, and nothing is painted."""
    state, before = await painter.state(), await painter.touches()
    answer = await painter.paint(requestState=state, inputResponses={"colour": reply})
    assert answer.code == STALE or answer.is_error, answer
    assert await painter.touches() == before


@pytest.mark.threat("C1")
@pytest.mark.parametrize("replies", [1, "x", [], [RED], True])
async def test_C1_responses_that_are_no_object(painter: Painter, replies: Any) -> None:
    """Nor is anything but an object read as replies."""
    state = await painter.state()
    assert (await painter.paint(requestState=state, inputResponses=replies)).code == STALE


@pytest.mark.threat("C1")
async def test_C1_declined(painter: Painter) -> None:
    """A no is a no, also when a yes is sent along under another name."""
    state = await painter.state()
    said = {"colour": {"action": "decline"}, "color": RED["colour"]}
    assert (await painter.paint(requestState=state, inputResponses=said)).text == "not painted"


@pytest.mark.threat("I12")
async def test_I12_rounds_are_counted(painter: Painter) -> None:
    """A tool that never stops asking is stopped, and the client cannot make the server forget the count."""
    more: dict[str, Any] = {}
    for count in range(MAX_ROUNDS):
        answer = await painter.paint({}, tool="asks_on", **more)
        assert answer.result["resultType"] == "input_required"
        key = f"question-{count}"
        assert list(answer.result["inputRequests"]) == [key]
        more = {"requestState": answer.result["requestState"], "inputResponses": {key: RED["colour"]}}
    answer = await painter.paint({}, tool="asks_on", **more)
    assert answer.code == STALE
    assert str(MAX_ROUNDS) in answer.text


@pytest.mark.threat("I12")
async def test_I12_unanswered_rounds_count_too(painter: Painter) -> None:
    """Coming back without a reply is a round as well."""
    state = await painter.state()
    for _ in range(MAX_ROUNDS - 1):
        state = (await painter.paint(requestState=state)).result["requestState"]
    assert (await painter.paint(requestState=state)).code == STALE


@pytest.mark.threat("C3")
def test_C3_forged_states_are_forgotten(server: Served) -> None:
    """Many large forgeries, of which nothing stays in memory."""
    line = HttpLine(server.port, MODERN)
    forged = encoded(calling(MODERN, "paint", NORTH, requestState="A" * 900_000))
    assert line.ask(forged).code == STALE
    before = server.rss
    for _ in range(40):
        assert line.ask(forged).code == STALE
    assert server.rss - before < 12 * 1024 * 1024
