"""A hall whose clients search, with two versions of a tool, and tools that come and go."""

from toolhall import Config, Toolhall, Toolkit, tool


class First(Toolkit, name="Weather", version="1.0.0"):
    """What is pinned."""

    @tool(effect="reads")
    async def get(self, city: str) -> str:
        """The weather, in words."""
        return f"first {city}"


class Second(Toolkit, name="Weather", version="2.0.0"):
    """What is newest."""

    @tool(effect="reads")
    async def get(self, place: str) -> str:
        """The weather, in other words."""
        return f"second {place}"


class Crowd(Toolkit, name="Crowd", version="1.0.0"):
    """What is not listed."""

    @tool(effect="reads")
    async def translate(self, text: str) -> str:
        """Translate a text into another language."""
        return text[::-1]

    @tool(effect="reads")
    async def convert(self, amount: float) -> float:
        """Convert an amount into another currency."""
        return amount * 2


@tool(name="pinned", effect="reads")
async def pinned_tool() -> str:
    """Is listed while it is there."""
    return "pinned"


@tool(name="unpinned", effect="reads")
async def unpinned_tool() -> str:
    """Is never listed."""
    return "unpinned"


class Changes(Toolkit, name="Changes", version="1.0.0"):
    """What changes the tools that are there."""

    @tool(effect="writes")
    async def toggle(self, name: str) -> str:
        """Add one of the tools that come and go, or remove it if it is there."""
        if hall.remove(name):
            return "removed"
        hall.add({"pinned": pinned_tool, "unpinned": unpinned_tool}[name])
        return "added"


hall = Toolhall(
    First(),
    Second(),
    Crowd(),
    Changes(),
    config=Config(search=True, pinned=("Weather.get@^1", "pinned"), page_size=2),
)
