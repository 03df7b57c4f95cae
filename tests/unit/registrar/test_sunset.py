"""The end of a tool: said before it comes, kept when it does, with what to call instead."""

import asyncio
from datetime import date

import pytest

from tests.unit.registrar.office import ADD, SUBTRACT, Office, calculator, own
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.tool import Deprecation

DAY = 86_400.0
TOMORROW = date(2027, 1, 16)
MIDNIGHT = 1_800_057_600.0  # when it begins


async def with_a_deprecated_tool() -> Office:
    office = await Office().open()
    await office.register()
    await office.activate(ADD)
    await office.activate(SUBTRACT)
    await office.registrar.deprecate(ADD, "eve", TOMORROW, SUBTRACT)
    return office


async def test_a_deprecated_tool_says_so_and_works_until_its_day() -> None:
    office = await with_a_deprecated_tool()
    kept = office.registrar.find(ADD)
    assert (kept.state, kept.sunset, kept.successor) == ("active", "2027-01-16", SUBTRACT)
    said = Deprecation(since=int(kept.deprecated_at or 0), sunset="2027-01-16", successor=SUBTRACT)
    assert office.registry.snapshot.find(ADD).tool.deprecation == said  # type: ignore[union-attr]
    newest = (await office.registrar.history(ADD))[0]
    assert (newest.what, newest.detail) == ("deprecated", {"sunset": "2027-01-16", "successor": SUBTRACT})
    again = await office.again()
    assert again.registry.snapshot.find(ADD).tool.deprecation == said  # type: ignore[union-attr]


async def test_on_its_day_it_goes_by_itself_and_clients_hear_of_it() -> None:
    office = await with_a_deprecated_tool()
    office.heard.clear()
    office.now += DAY
    office.registrar.watch()
    assert (office.served, office.state(ADD)) == ([SUBTRACT], "retired")
    assert office.heard == [[SUBTRACT]]


async def test_the_alarm_is_set_for_the_first_day(monkeypatch: pytest.MonkeyPatch) -> None:
    office = await with_a_deprecated_tool()
    delays: list[float] = []

    def call_later(delay: float, _: object) -> Alarm:
        delays.append(delay)
        return Alarm()

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    office.now = MIDNIGHT - 600
    office.registrar.watch()
    assert 500 < delays[0] <= 600  # the clock ticks whenever it is read
    office.now = MIDNIGHT - 10 * DAY
    office.registrar.watch()
    assert delays[1] == 3_600  # it looks again now and then, because clocks are set
    monkeypatch.undo()
    office.registrar.close()
    assert Alarm.cancelled == 2


class Alarm:
    """Counts how often one was called off."""

    cancelled = 0

    def cancel(self) -> None:
        Alarm.cancelled += 1


async def test_after_a_restart_past_its_day_it_is_not_there() -> None:
    office = await with_a_deprecated_tool()
    again = Office(office.store)
    again.now += DAY
    await again.open()
    assert (again.served, again.state(ADD)) == ([SUBTRACT], "retired")


async def test_activating_takes_a_deprecation_back() -> None:
    office = await with_a_deprecated_tool()
    office.now += DAY
    office.registrar.watch()
    kept = await office.activate(ADD)
    assert (kept.sunset, kept.successor, kept.deprecated_at) == (None, None, None)
    assert office.registry.snapshot.find(ADD).tool.deprecation is None  # type: ignore[union-attr]


async def test_code_can_be_deprecated_too() -> None:
    office = Office()
    office.bring(own("1.0.0"))
    await office.open()
    await office.registrar.deprecate("Kit.add", "eve", None, None)
    entry = office.registry.snapshot.find("Kit_add")
    assert entry is not None
    said = Deprecation(since=int(office.registrar.find("Kit.add").deprecated_at or 0))
    assert entry.tool.deprecation == said
    again = await office.again(own("1.0.0"))
    assert again.registry.snapshot.find("Kit_add").tool.deprecation == said  # type: ignore[union-attr]


async def test_a_successor_is_known_and_another_tool() -> None:
    office = await with_a_deprecated_tool()
    with pytest.raises(NotFound, match=r"calculator\.multiply is not registered"):
        await office.registrar.deprecate(ADD, "eve", None, "calculator.multiply")
    with pytest.raises(Malformed, match="cannot come after itself"):
        await office.registrar.deprecate(ADD, "eve", None, "calculator.add")
    await office.register(calculator("2.0.0"))
    await office.registrar.deprecate(ADD, "eve", None, "calculator.add@2.0.0")
