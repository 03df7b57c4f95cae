"""This machine: a tool that takes nothing and returns an object."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from toolhall import Toolkit, tool


@dataclass(frozen=True)
class Timestamp:
    """A moment."""

    timestamp: Annotated[datetime, "The current system timestamp."]


class System(Toolkit, version="1.0.0", level=0):
    """What the machine knows of itself."""

    @tool(name="GetTimestamp", title="Current time", effect="reads")
    async def get_timestamp(self) -> Timestamp:
        """Retrieves the current system timestamp."""
        return Timestamp(datetime.now(UTC))
