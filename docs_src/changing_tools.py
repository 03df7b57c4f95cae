"""A hall whose list of tools changes while it is served."""

from toolhall import Toolhall, tool


@tool(effect="reads")
async def secret_door() -> str:
    """Present only while the door is open."""
    return "you are in"


@tool(effect="writes")
async def open_door() -> str:
    """Make another tool available; every connected client is told."""
    hall.add(secret_door)
    return "open"


hall = Toolhall(open_door)
