"""The end of a tool: said before it comes, kept when it does, with what to call instead."""

import asyncio
from datetime import date

import pytest

from tests.unit.registration.harness import ADD, SUBTRACT, RegistrationHarness, calculator, own
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.tool import Deprecation

DAY = 86_400.0
TOMORROW = date(2027, 1, 16)
MIDNIGHT = 1_800_057_600.0  # when it begins


async def with_a_deprecated_tool() -> RegistrationHarness:
    harness = await RegistrationHarness().open()
    await harness.register()
    await harness.activate(ADD)
    await harness.activate(SUBTRACT)
    await harness.service.deprecate(ADD, "eve", TOMORROW, SUBTRACT)
    return harness


async def test_deprecated_tool_is_served_with_its_deprecation_until_sunset() -> None:
    harness = await with_a_deprecated_tool()
    kept = harness.service.find(ADD)
    assert (kept.state, kept.sunset, kept.successor) == ("active", "2027-01-16", SUBTRACT)
    said = Deprecation(since=int(kept.deprecated_at or 0), sunset="2027-01-16", successor=SUBTRACT)
    assert harness.registry.snapshot.find(ADD).tool.deprecation == said  # type: ignore[union-attr]
    newest = (await harness.service.history(ADD))[0]
    assert (newest.what, newest.detail) == ("deprecated", {"sunset": "2027-01-16", "successor": SUBTRACT})
    again = await harness.again()
    assert again.registry.snapshot.find(ADD).tool.deprecation == said  # type: ignore[union-attr]


async def test_deprecated_tool_is_retired_at_sunset_and_listeners_are_notified() -> None:
    harness = await with_a_deprecated_tool()
    harness.heard.clear()
    harness.now += DAY
    harness.service.watch()
    assert (harness.served, harness.state(ADD)) == ([SUBTRACT], "retired")
    assert harness.heard == [[SUBTRACT]]


async def test_sunset_timer_is_set_for_the_earliest_sunset(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = await with_a_deprecated_tool()
    delays: list[float] = []

    def call_later(delay: float, _: object) -> FakeTimer:
        delays.append(delay)
        return FakeTimer()

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    harness.now = MIDNIGHT - 600
    harness.service.watch()
    assert 500 < delays[0] <= 600  # the clock ticks whenever it is read
    harness.now = MIDNIGHT - 10 * DAY
    harness.service.watch()
    assert delays[1] == 3_600  # it looks again now and then, because clocks are set
    monkeypatch.undo()
    harness.service.close()
    assert FakeTimer.cancelled == 2


class FakeTimer:
    """A timer handle that counts cancellations."""

    cancelled = 0

    def cancel(self) -> None:
        FakeTimer.cancelled += 1


async def test_deprecated_tool_is_retired_after_a_restart_past_its_sunset() -> None:
    harness = await with_a_deprecated_tool()
    again = RegistrationHarness(harness.store)
    again.now += DAY
    await again.open()
    assert (again.served, again.state(ADD)) == ([SUBTRACT], "retired")


async def test_activate_removes_the_deprecation_of_a_tool() -> None:
    harness = await with_a_deprecated_tool()
    harness.now += DAY
    harness.service.watch()
    kept = await harness.activate(ADD)
    assert (kept.sunset, kept.successor, kept.deprecated_at) == (None, None, None)
    assert harness.registry.snapshot.find(ADD).tool.deprecation is None  # type: ignore[union-attr]


async def test_code_tool_deprecation_survives_a_restart() -> None:
    harness = RegistrationHarness()
    harness.bring(own("1.0.0"))
    await harness.open()
    await harness.service.deprecate("Kit.add", "eve", None, None)
    entry = harness.registry.snapshot.find("Kit_add")
    assert entry is not None
    said = Deprecation(since=int(harness.service.find("Kit.add").deprecated_at or 0))
    assert entry.tool.deprecation == said
    again = await harness.again(own("1.0.0"))
    assert again.registry.snapshot.find("Kit_add").tool.deprecation == said  # type: ignore[union-attr]


async def test_deprecate_successor_must_be_registered_and_another_tool() -> None:
    harness = await with_a_deprecated_tool()
    with pytest.raises(NotFound, match=r"calculator\.multiply is not registered"):
        await harness.service.deprecate(ADD, "eve", None, "calculator.multiply")
    with pytest.raises(Malformed, match="cannot come after itself"):
        await harness.service.deprecate(ADD, "eve", None, "calculator.add")
    await harness.register(calculator("2.0.0"))
    await harness.service.deprecate(ADD, "eve", None, "calculator.add@2.0.0")
