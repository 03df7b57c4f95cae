"""A toolkit with two tools: the example of the README."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from toolhall import Context, Toolkit, tool


@dataclass
class Event:
    title: str
    start: datetime


class Calendar(Toolkit, version="1.2.0"):
    """Read and change a calendar."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    @tool(effect="writes")
    async def create(self, ctx: Context, title: Annotated[str, "What it is about"], start: datetime) -> Event:
        """Put an event into the calendar."""
        self.events.append(Event(title, start))
        ctx.progress(1, total=1)
        return self.events[-1]

    @tool(effect="reads")
    def upcoming(self, limit: int = 10) -> list[Event]:
        """List the next events."""
        return sorted(self.events, key=lambda event: event.start)[:limit]
