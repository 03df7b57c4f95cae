"""A test of the calendar: every stage of the pipeline, in memory, typed from the methods themselves."""

from datetime import UTC, datetime

from docs_src.calendar_toolkit import Calendar
from toolhall.testing import Client


async def test_an_event_is_listed() -> None:
    calendar = Calendar()
    async with Client(calendar) as client:
        made = await client.call(calendar.create, title="Lunch", start=datetime(2026, 12, 1, 12, tzinfo=UTC))
        assert made.title == "Lunch"
        assert await client.call(calendar.upcoming, limit=1) == [made]
