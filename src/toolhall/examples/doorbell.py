"""A doorbell: a tool that does something and returns nothing."""

from typing import Annotated

from toolhall import Toolkit, tool


class Doorbell(Toolkit, version="0.1.0", level=2):
    """Rings."""

    @tool(name="Ring", title="Ring the doorbell", effect="writes")
    async def ring(self, doorbell_id: Annotated[str, "The ID of the doorbell to ring."]) -> None:
        """Rings a doorbell given a doorbell ID."""
