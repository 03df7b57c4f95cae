"""This machine: a tool without parameters that returns an object."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from toolhall import Toolkit, tool


@dataclass(frozen=True)
class Timestamp:
    """A moment."""

    timestamp: Annotated[
        datetime, Meta(description="The current system timestamp.", extra_json_schema={"format": "date-time"})
    ]


class System(Toolkit, version="1.0.0", level=0):
    """What the machine knows of itself."""

    @tool(name="GetTimestamp", title="Current time", effect="reads")
    async def get_timestamp(self) -> Timestamp:
        """Retrieves the current system timestamp."""
        return Timestamp(datetime.now(UTC))
