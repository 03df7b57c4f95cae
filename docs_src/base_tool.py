from typing import ClassVar

from toolhall import BaseTool, ToolError, ToolRequest, ToolResponse


class Rooms(BaseTool):
    """A tool in the hub's own form: one place for every method."""

    capabilities: ClassVar = {
        "methods": [
            {
                "name": "book",
                "description": "Book a room.",
                "params": {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]},
            }
        ]
    }

    def __init__(self) -> None:
        super().__init__("Rooms", "1.0.0")
        self._taken: set[str] = set()

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        room = request.params["room"]
        if room in self._taken:
            raise ToolError(f"{room} is taken; choose another room")
        self._taken.add(room)
        return ToolResponse(result={"booked": room})

    async def health_check(self) -> dict[str, str]:
        return {"status": "degraded" if len(self._taken) > 100 else "healthy"}
