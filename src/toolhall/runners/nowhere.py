"""For tools that are defined and that nothing runs: a call is answered at once, and says so."""

from toolhall.authoring.context import Patience
from toolhall.model.call import Call
from toolhall.model.errors import Unavailable
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool


class Nowhere:
    """Takes every call and runs none."""

    async def run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> object:  # noqa: ARG002
        """Unavailable, always."""
        raise Unavailable(f"{tool.id} is defined, but nothing runs it")
