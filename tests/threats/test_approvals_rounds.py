# ruff: noqa: N802 - tests carry the names of their rows
"""K18 and K19: a yes is to the code that runs; a request state is good once, and carries a yes through its call."""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness.mcp_messages import MODERN, McpAnswer, tool_call
from tests.threats.callers import InProcessHall, McpCaller
from tests.unit.builders import Clock
from tests.unit.web.browser_client import Browser
from toolhall import Config, Context, Toolhall, tool
from toolhall.authoring.code_digest import code_sha256
from toolhall.cli.targets import load_targets
from toolhall.model.caller import LOCAL
from toolhall.model.errors import Limited, NeedsVerification, Unavailable, Unsupported
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.pipeline.rate_buckets import Rate
from toolhall.stores.approvals import Decision
from toolhall.stores.common import DATABASE_FILE

YES = Decision("approved", "local", "totp")
STALE = -32602


class Colour(msgspec.Struct):
    colour: str


RED = {"colour": {"action": "accept", "content": {"colour": "red"}}}


def hall_in(data: Path, *tools: object) -> Toolhall:
    return Toolhall(*tools, config=Config(data=str(data)))


class GivenHall(InProcessHall):
    """A hall that the test made, in the form that `McpCaller` takes."""

    def __init__(self, hall: Toolhall) -> None:
        self.hall = hall
        self.app = hall.http


async def ask(hall: Toolhall, name: str, **more: Any) -> McpAnswer:
    """Call a tool by MCP 2026-07-28."""
    return await McpCaller(GivenHall(hall), None, MODERN).ask(tool_call(MODERN, name, {}, **more))


async def call(hall: Toolhall) -> Any:
    answer = await hall.dispatcher.answer(CallTool("burn", {}, "test"), LOCAL)
    return answer.result.encoded if isinstance(answer, CompletedCall) else answer


async def approve(hall: Toolhall) -> None:
    """The person says yes to the one question that waits."""
    (waiting,) = await hall.approval_components.approvals.store.pending()
    assert await hall.approval_components.approvals.store.decide(waiting.id, YES)


def burn_tool(body: Callable[[], str]) -> Any:
    return tool(name="burn", level=9, effect="destroys", description="Burn a room.")(body)


def first() -> str:
    return "the attic"


def second() -> str:
    return "the whole house"


def plain(body: Callable[[], str]) -> Callable[[], str]:
    return body


def wrapped(body: Callable[[], str]) -> Callable[[], str]:
    def burn() -> str:
        return body()

    return burn


@pytest.mark.threat("K18")
@pytest.mark.parametrize("wrap", [plain, wrapped], ids=["itself", "in a wrapper"])
async def test_K18_approval_is_not_valid_after_a_restart_with_another_tool_body(tmp_path: Path, wrap: Any) -> None:
    """After a restart with another body under the same definition the person is asked anew; the old code may run."""
    with hall_in(tmp_path, burn_tool(wrap(first))) as hall:
        await hall.open()
        assert isinstance(await call(hall), NeedsVerification)
        await approve(hall)
    with hall_in(tmp_path, burn_tool(wrap(second))) as hall:
        await hall.open()
        assert isinstance(await call(hall), NeedsVerification)
    with hall_in(tmp_path, burn_tool(wrap(first))) as hall:
        await hall.open()
        assert await call(hall) == b'"the attic"'


@pytest.mark.threat("K18")
def test_K18_code_digest_covers_the_whole_file_but_not_its_path(tmp_path: Path) -> None:
    """Another text of the file is other code; the same file elsewhere, in another process, is the same."""
    text = (
        "def helper():\n    return {1, 'a', (2.0, None)}\ndef burn(x):\n    return x in {'a', 'b', 'c'} or helper()\n"
    )

    def digest(file: Path, content: str) -> str:
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
        space: dict[str, Any] = {}
        exec(compile(content, str(file), "exec"), space)
        return code_sha256(space["burn"])

    one = digest(tmp_path / "a" / "tools.py", text)
    assert digest(tmp_path / "b" / "other.py", text) == one
    assert digest(tmp_path / "c" / "tools.py", text.replace("2.0", "3.0")) != one
    assert code_sha256(functools.partial(first)) == code_sha256(first) != code_sha256(second)


class PaintTool:
    """A tool of level 9 that asks twice, and how often it ran to its end."""

    def __init__(self) -> None:
        self.done = 0

        @tool(name="paint", level=9, effect="writes", description="Paint a wall.")
        async def paint(ctx: Context) -> str:
            given = await ctx.ask("Which colour?", Colour, key="colour")
            sure = await ctx.ask("Sure?", Colour, key="sure")
            self.done += 1
            return f"{given.value.colour}, {sure.value.colour}"

        self.tool = paint


SURE = {"sure": {"action": "accept", "content": {"colour": "yes"}}}


@pytest.mark.threat("K19")
async def test_K19_one_approval_covers_both_questions_of_one_call_and_no_further_call(tmp_path: Path) -> None:
    """Both questions are answered under the first approval, which every record of the call names; then it is over."""
    paint = PaintTool()
    with hall_in(tmp_path, paint.tool) as hall:
        await hall.open()
        assert (await ask(hall, "paint")).is_error
        await approve(hall)
        asked = await ask(hall, "paint")
        assert list(asked.result["inputRequests"]) == ["colour"]
        again = await ask(hall, "paint", requestState=asked.result["requestState"], inputResponses=RED)
        assert list(again.result["inputRequests"]) == ["sure"]
        state = again.result["requestState"]
        done = await ask(hall, "paint", requestState=state, inputResponses=SURE)
        assert done.text == "red, yes"
        assert (await ask(hall, "paint", requestState=state, inputResponses=SURE)).code == STALE
        # Neither a call that begins anew, nor replies without the state, go on with that yes.
        assert (await ask(hall, "paint")).is_error
        assert (await ask(hall, "paint", inputResponses={**RED, **SURE})).is_error
        await hall.journal.flush()
        status, told = await Browser(hall).api("GET", "/api/audit?tool=test_approvals_rounds.paint")
        approvals = {each["approval"] for each in told["records"] if each["outcome"] in ("asked", "ok", "intent")}
        assert (status, len(approvals), paint.done) == (200, 1, 1)
        await hall.settle()


@pytest.mark.threat("K18")
@pytest.mark.threat("K19")
async def test_K18_K19_request_state_with_changed_tool_code_needs_a_new_approval(tmp_path: Path) -> None:
    """A restart with another body between two rounds: the state is still good, the yes is not."""
    with hall_in(tmp_path, PaintTool().tool) as hall:
        await hall.open()
        await ask(hall, "paint")
        await approve(hall)
        state = (await ask(hall, "paint")).result["requestState"]
        await hall.settle()

    @tool(name="paint", level=9, effect="writes", description="Paint a wall.")
    async def paint(ctx: Context) -> str:
        return "black"

    with hall_in(tmp_path, paint) as hall:
        await hall.open()
        answer = await ask(hall, "paint", requestState=state, inputResponses=RED)
        assert answer.is_error
        assert "person's yes" in answer.text
        await hall.settle()


@tool(name="choose", description="Choose.")
async def choose(ctx: Context) -> str:
    given = await ctx.ask("Which colour?", Colour, key="colour")
    return str(given.value.colour)


@pytest.mark.threat("K19")
async def test_K19_request_state_is_accepted_once_across_concurrent_calls_and_restarts(tmp_path: Path) -> None:
    """In two halls that share a folder's key, at the same moment, and after a restart."""
    with hall_in(tmp_path, choose) as hall:
        await hall.open()
        states = [(await ask(hall, "choose")).result["requestState"] for _ in range(2)]
        sent = [ask(hall, "choose", requestState=states[0], inputResponses=RED) for _ in range(4)]
        codes = sorted(each.code or 0 for each in await asyncio.gather(*sent))
        assert codes == [STALE] * 3 + [0]
        await hall.settle()
    assert (tmp_path / DATABASE_FILE).exists()
    with hall_in(tmp_path, choose) as hall:
        await hall.open()
        again = await ask(hall, "choose", requestState=states[0], inputResponses=RED)
        assert (again.code, "good once" in again.text) == (STALE, True)
        assert (await ask(hall, "choose", requestState=states[1], inputResponses=RED)).text == "red"
        await hall.settle()


@pytest.mark.threat("K19")
async def test_K19_rate_limited_call_does_not_use_up_its_request_state(tmp_path: Path) -> None:
    """A limit is no use of the state: nothing ran."""
    config = Config(data=str(tmp_path), pair_limit=Rate(per_second=1, burst=1))
    clock = Clock(1_000.0)
    with Toolhall(choose, config=config) as hall:
        hall.dispatcher.stages.limit.__dict__["_clock"] = clock
        await hall.open()
        state = (await ask(hall, "choose")).result["requestState"]
        for _ in range(2):
            limited = await ask(hall, "choose", requestState=state, inputResponses=RED)
            assert "too many calls" in limited.text
        clock.now += 10
        assert (await ask(hall, "choose", requestState=state, inputResponses=RED)).text == "red"
        clock.now += 10
        assert "good once" in (await ask(hall, "choose", requestState=state, inputResponses=RED)).text
        await hall.settle()


class RaisingTools:
    """Tools of level 9 that ask, do what they do, and end as if a limit or their client had stopped them."""

    def __init__(self) -> None:
        self.done = 0

        @tool(name="wipe", level=9, effect="destroys", description="Wipe a disk.")
        async def wipe(ctx: Context) -> str:
            await ctx.ask("Which colour?", Colour, key="colour")
            self.done += 1
            error = Limited(0.0)
            error.reached_tool = False  # what a tool says of itself counts for nothing
            raise error

        @tool(name="pick", description="Pick.")
        async def pick(ctx: Context) -> str:
            await ctx.ask("Which colour?", Colour, key="colour")
            self.done += 1
            raise Unsupported("elicitation")

        self.tools = (wipe, pick)


@pytest.mark.threat("K19")
async def test_K19_tool_that_raises_a_rate_limit_error_has_used_up_its_request_state(tmp_path: Path) -> None:
    """A tool that raises what a limit raises has run: its state is used up, with a person's yes and without one."""
    raising = RaisingTools()
    with hall_in(tmp_path, *raising.tools) as hall:
        await hall.open()
        await ask(hall, "wipe")
        await approve(hall)
        for name, says in (("wipe", "too many calls"), ("pick", "elicitation")):
            raising.done = 0
            state = (await ask(hall, name)).result["requestState"]
            ended = await ask(hall, name, requestState=state, inputResponses=RED)
            assert says in ended.text
            for _ in range(2):
                assert (await ask(hall, name, requestState=state, inputResponses=RED)).code == STALE
            assert raising.done == 1
        await hall.settle()


ISOLATED = """
import msgspec
from toolhall import Context, tool
from toolhall.model.errors import Limited

class Colour(msgspec.Struct):
    colour: str

@tool(level=4, effect="writes", isolated=True)
async def sell(ctx: Context) -> str:
    "Sell."
    await ctx.ask("Which colour?", Colour, key="colour")
    raise Limited(0.0)
"""


@pytest.mark.threat("K19")
async def test_K19_isolated_tool_that_raises_a_rate_limit_error_has_used_up_its_request_state(tmp_path: Path) -> None:
    """The error comes over the worker's wire, and is the tool's own all the same."""
    file = tmp_path / "selling_tools.py"
    file.write_text(ISOLATED)
    with hall_in(tmp_path / "data", *load_targets([str(file)])) as hall:
        await hall.open()
        state = (await ask(hall, "sell")).result["requestState"]
        assert "too many calls" in (await ask(hall, "sell", requestState=state, inputResponses=RED)).text
        assert (await ask(hall, "sell", requestState=state, inputResponses=RED)).code == STALE
        await hall.settle()


BURNING = """
from toolhall import tool

ROOM = "the attic"

@tool(level=9, effect="destroys", isolated=True)
def burn() -> str:
    "Burn a room."
    return ROOM
"""


@pytest.mark.threat("K18")
async def test_K18_worker_refuses_to_run_a_tool_file_changed_after_its_approval(tmp_path: Path) -> None:
    """The file changes while the hall runs: its worker, which imported that, refuses, also when the file is put back.

    After a restart the code that is there is what people are asked about.
    """
    file = tmp_path / "burning_tools.py"
    file.write_text(BURNING)
    with hall_in(tmp_path / "data", *load_targets([str(file)])) as hall:
        await hall.open()
        assert isinstance(await call(hall), NeedsVerification)
        await approve(hall)
        file.write_text(BURNING.replace("attic", "whole house"))
        changed = await call(hall)
        assert isinstance(changed, Unavailable)
        assert "restart the hall" in changed.message
        file.write_text(BURNING)
        assert isinstance(await call(hall), NeedsVerification)
        await approve(hall)
        assert isinstance(await call(hall), Unavailable)
        await hall.settle()
    with hall_in(tmp_path / "data", *load_targets([str(file)])) as hall:
        await hall.open()
        assert isinstance(await call(hall), NeedsVerification)
        await approve(hall)
        assert await call(hall) == b'"the attic"'
        await hall.settle()
