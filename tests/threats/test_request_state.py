# ruff: noqa: N802 - tests carry the names of their rows
"""C1 to C3, B10, I12: what travels through the client between two rounds opens only where and when it should."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.mcp_messages import MODERN, McpAnswer, encoded, tool_call
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncHttpMcpClient
from tests.threats.callers import InProcessHall, McpCaller
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


class PaintCaller:
    """A caller of `paint`, with what it takes to cheat."""

    def __init__(self, hall_app: InProcessHall) -> None:
        self.hall_app = hall_app

    async def paint(self, arguments: Any = NORTH, tool: str = "paint", caller: str = "alice", **more: Any) -> McpAnswer:
        """Call a tool that asks for a colour."""
        return await McpCaller(self.hall_app, caller, MODERN).ask(tool_call(MODERN, tool, arguments, **more))

    async def state(self, arguments: Any = NORTH) -> str:
        """The state that comes with the first question."""
        asked = (await self.paint(arguments)).result
        assert asked["resultType"] == "input_required"
        return str(asked["requestState"])

    async def touches(self) -> str:
        """How often anything was painted."""
        return (await McpCaller(self.hall_app, "alice", MODERN).ask(tool_call(MODERN, "touches"))).text


@pytest.fixture
def clock() -> Clock:
    """Time that the test moves."""
    return Clock()


@pytest.fixture
def paint_caller(clock: Clock) -> Iterator[PaintCaller]:
    """A caller of a hall in this process."""
    hall_app = InProcessHall(clock)
    yield PaintCaller(hall_app)
    hall_app.close()


@pytest.mark.threat("C3")
async def test_C3_elicitation_reply_with_its_own_request_state_is_accepted(paint_caller: PaintCaller) -> None:
    """So that the refusals below mean something."""
    state = await paint_caller.state()
    assert (await paint_caller.paint(requestState=state, inputResponses=RED)).text == "north is red"


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
async def test_C3_request_state_of_another_tool_arguments_or_caller_is_refused(
    paint_caller: PaintCaller, swap: str
) -> None:
    """A reply given for one call opens no other: not with other arguments, not another tool, not somebody else's."""
    state, before = await paint_caller.state(), await paint_caller.touches()
    answer = await paint_caller.paint(requestState=state, inputResponses=RED, **SWAPS[swap])
    assert answer.code == STALE
    assert "requestState" in answer.text
    assert await paint_caller.touches() == before


@pytest.mark.threat("C3")
async def test_C3_request_state_sealed_with_another_key_is_refused(paint_caller: PaintCaller, clock: Clock) -> None:
    """A state sealed with another key is no state."""
    other = InProcessHall(clock, key=bytes([1]) * 32)
    state = await PaintCaller(other).state()
    other.close()
    assert (await paint_caller.paint(requestState=state, inputResponses=RED)).code == STALE


@pytest.mark.threat("C3")
async def test_C3_request_state_altered_at_any_byte_is_refused(paint_caller: PaintCaller) -> None:
    """Each letter changed, each letter left out, each cut, anything added: never opened."""
    state, before = await paint_caller.state(), await paint_caller.touches()
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
        assert (await paint_caller.paint(requestState=each, inputResponses=RED)).code == STALE, each
    assert await paint_caller.touches() == before


@pytest.mark.threat("C3")
@pytest.mark.parametrize("odd", [1, True, [], {}, [1], {"a": 1}, "", "x" * 100_000, "\U0001f600", "AAAA"])
async def test_C3_request_state_of_a_wrong_type_or_form_is_refused(paint_caller: PaintCaller, odd: Any) -> None:
    """Whatever is no state of ours is refused in the same words."""
    answer = await paint_caller.paint(requestState=odd, inputResponses=RED)
    assert (answer.status, answer.code) == (200, STALE)
    assert len(answer.raw) < 300


@pytest.mark.threat("C2")
async def test_C2_request_state_older_than_ten_minutes_is_refused(paint_caller: PaintCaller, clock: Clock) -> None:
    """A state lives for ten minutes, and no clock of the caller's counts."""
    state, other = await paint_caller.state(), await paint_caller.state()
    clock.now += STATE_SECONDS - 1
    assert (await paint_caller.paint(requestState=state, inputResponses=RED)).text == "north is red"
    clock.now += 2
    late = await paint_caller.paint(requestState=other, inputResponses=RED)
    assert (late.code, "too old" in late.text) == (STALE, True)


@pytest.mark.threat("C1")
async def test_C1_input_response_of_the_client_is_no_approval(paint_caller: PaintCaller) -> None:
    """A call that needs a person's yes does not run because the request itself says yes."""
    before = await paint_caller.touches()
    for key in ("approval", "approve", "confirm", "form_1", "level"):
        yes = {"action": "accept", "content": {"approved": True, "confirm": True}}
        answer = await paint_caller.paint({}, tool="dangerous", inputResponses={key: yes})
        assert answer.is_error
        assert "person" in answer.text
    assert await paint_caller.touches() == before


@pytest.mark.threat("C1")
async def test_C1_input_response_under_an_unknown_key_is_ignored_and_the_question_repeated(
    paint_caller: PaintCaller,
) -> None:
    """Replies under other names are no replies; the person is asked again."""
    state, before = await paint_caller.state(), await paint_caller.touches()
    odd = {"other": RED["colour"], "COLOUR": RED["colour"], "": RED["colour"]}
    answer = await paint_caller.paint(requestState=state, inputResponses=odd)
    assert list(answer.result["inputRequests"]) == ["colour"]
    assert await paint_caller.touches() == before


@pytest.mark.threat("C1")
@pytest.mark.parametrize(
    "reply",
    [None, 1, "accept", [], {}, {"action": "yes"}, {"action": ["accept"]}, {"action": "accept", "content": "red"},
     {"action": "accept", "content": {"colour": 1}}, {"action": "accept", "content": {}}, {"action": "accept"}],
)  # fmt: skip
async def test_C1_input_response_that_does_not_match_the_question_is_refused(
    paint_caller: PaintCaller, reply: Any
) -> None:
    """A reply that does not fit the question is refused, and nothing is painted."""
    state, before = await paint_caller.state(), await paint_caller.touches()
    answer = await paint_caller.paint(requestState=state, inputResponses={"colour": reply})
    assert answer.code == STALE or answer.is_error, answer
    assert await paint_caller.touches() == before


@pytest.mark.threat("C1")
@pytest.mark.parametrize("replies", [1, "x", [], [RED], True])
async def test_C1_input_responses_that_are_no_object_are_refused(paint_caller: PaintCaller, replies: Any) -> None:
    """Nor is anything but an object read as replies."""
    state = await paint_caller.state()
    assert (await paint_caller.paint(requestState=state, inputResponses=replies)).code == STALE


@pytest.mark.threat("C1")
async def test_C1_declined_input_response_counts_despite_an_acceptance_under_another_key(
    paint_caller: PaintCaller,
) -> None:
    """A no is a no, also when a yes is sent along under another name."""
    state = await paint_caller.state()
    said = {"colour": {"action": "decline"}, "color": RED["colour"]}
    assert (await paint_caller.paint(requestState=state, inputResponses=said)).text == "not painted"


@pytest.mark.threat("I12")
async def test_I12_tool_that_keeps_asking_is_stopped_after_the_maximum_of_rounds(paint_caller: PaintCaller) -> None:
    """A tool that never stops asking is stopped, and the client cannot make the server forget the count."""
    more: dict[str, Any] = {}
    for count in range(MAX_ROUNDS):
        answer = await paint_caller.paint({}, tool="asks_on", **more)
        assert answer.result["resultType"] == "input_required"
        key = f"question-{count}"
        assert list(answer.result["inputRequests"]) == [key]
        more = {"requestState": answer.result["requestState"], "inputResponses": {key: RED["colour"]}}
    answer = await paint_caller.paint({}, tool="asks_on", **more)
    assert answer.code == STALE
    assert str(MAX_ROUNDS) in answer.text


@pytest.mark.threat("I12")
async def test_I12_rounds_without_an_answer_count_toward_the_maximum(paint_caller: PaintCaller) -> None:
    """Coming back without a reply is a round as well."""
    state = await paint_caller.state()
    for _ in range(MAX_ROUNDS - 1):
        state = (await paint_caller.paint(requestState=state)).result["requestState"]
    assert (await paint_caller.paint(requestState=state)).code == STALE


@pytest.mark.threat("C3")
def test_C3_large_forged_request_states_leave_nothing_in_memory(server: ServerProcess) -> None:
    """Many large forgeries, of which nothing stays in memory."""
    line = SyncHttpMcpClient(server.port, MODERN)
    forged = encoded(tool_call(MODERN, "paint", NORTH, requestState="A" * 900_000))
    assert line.ask(forged).code == STALE
    before = server.rss
    for _ in range(40):
        assert line.ask(forged).code == STALE
    assert server.rss - before < 12 * 1024 * 1024
