"""Tools that need a person, and one that does not."""

from toolhall import tool


@tool(effect="reads")
def greet() -> str:
    """Greet whoever asks."""
    return "hello"


@tool(level=8, effect="writes")
def unlock(door: str) -> str:
    """Unlock a door."""
    return f"unlocked {door}"


@tool(level=9, effect="destroys")
def burn(room: str, why: str = "", with_: list[str] | None = None) -> str:
    """Burn a room down."""
    return f"burnt {room}"
