"""`await OnFirstSuspend(work, hook)` equals `await work`, for any coroutine and whatever is thrown into it."""

import asyncio
from collections.abc import Awaitable, Generator
from itertools import chain, repeat
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from toolhall.concurrency import OnFirstSuspend

Step = Literal["wait", "wait and catch", "wait and clean up", "raise", "return", "nothing"]
steps = st.lists(
    st.sampled_from(["wait", "wait", "wait and catch", "wait and clean up", "raise", "return", "nothing"]), max_size=6
)
Input = Literal["go on", "cancel", "interrupt", "fail"]
inputs = st.lists(st.sampled_from(["go on", "go on", "cancel", "interrupt", "fail"]), max_size=8)
THROWN = {"cancel": asyncio.CancelledError, "interrupt": KeyboardInterrupt, "fail": OSError}


class Pause:
    def __init__(self, place: int) -> None:
        self._place = place

    def __await__(self) -> Generator[int, None, None]:
        yield self._place


async def scripted_coroutine(script: list[Step], log: list[str]) -> str:
    """A coroutine that does what the script says, and notes what happens to it."""
    for place, step in enumerate(script):
        match step:
            case "wait":
                await Pause(place)
            case "wait and catch":
                try:
                    await Pause(place)
                except BaseException as error:  # noqa: BLE001 - a tool may swallow anything
                    log.append(f"{place}: swallowed {type(error).__name__}")
            case "wait and clean up":
                try:
                    await Pause(place)
                finally:
                    await Pause(-place)
                    log.append(f"{place}: cleaned up")
            case "raise":
                raise ValueError(str(place))
            case "return":
                return f"returned at {place}"
            case "nothing":
                log.append(f"{place}: nothing")
    return "returned at the end"


def drive(work: Awaitable[Any], script: list[Input]) -> list[object]:
    """Everything an event loop could see."""
    seen: list[object] = []
    running: Any = work.__await__()
    try:
        seen.append(next(running))
        for each in chain(script, repeat("go on")):  # a script has an end, so this has one
            step = next(running) if each == "go on" else running.throw(THROWN[each]("thrown"))
            seen.append(step)
    except StopIteration as finished:
        seen.append(("returned", finished.value))
    except BaseException as error:  # noqa: BLE001 - every way to end is compared
        seen.append(("raised", type(error), str(error)))
    return seen


@settings(max_examples=examples(300))
@given(steps, inputs)
def test_on_first_suspend_behaves_like_a_plain_await(script: list[Step], given_to_it: list[Input]) -> None:
    plain_log, wrapped_log, waits = list[str](), list[str](), list[str]()
    plain = drive(scripted_coroutine(script, plain_log), given_to_it)
    wrapped = drive(
        OnFirstSuspend(scripted_coroutine(script, wrapped_log), lambda: waits.append("waiting")), given_to_it
    )
    assert wrapped == plain
    assert wrapped_log == plain_log
    waited = isinstance(plain[0], int)
    assert len(waits) == waited


@given(steps, inputs)
def test_on_first_suspend_nested_behaves_like_a_plain_await(script: list[Step], given_to_it: list[Input]) -> None:
    plain_log, nested_log = list[str](), list[str]()
    plain = drive(scripted_coroutine(script, plain_log), given_to_it)
    twice = OnFirstSuspend(OnFirstSuspend(scripted_coroutine(script, nested_log), lambda: None), lambda: None)
    assert drive(twice, given_to_it) == plain
    assert nested_log == plain_log
