"""The example toolkits, and one whose tools end in every way there is; tools that wait do so for another call."""

import asyncio
from collections import Counter
from typing import Any, TypedDict

from toolhall import Context, Image, Reply, Text, ToolFailed, Toolhall, ToolhallError, Toolkit, tool
from toolhall.examples.calculator import Calculator
from toolhall.examples.doorbell import Doorbell
from toolhall.examples.house import House
from toolhall.examples.system import System
from toolhall.examples.weather import get_weather
from toolhall.model import errors

CANARY = "canary-4711"  # text of exceptions and details, which no caller may ever see
PATIENCE = 60.0  # seconds after which a tool that waits for another call gives up


class Wrapped(TypedDict):
    """An object that looks like the wrapper of a value."""

    result: int


class Form(TypedDict):
    """What a tool asks the person for."""

    name: str


class Probe(Toolkit, version="2.1.0", level=1):
    """Ends in every way there is."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def _count(self, note: str) -> int:
        async with self._changed:
            self._counts[note] += 1
            self._changed.notify_all()
            return self._counts[note]

    @tool
    async def count(self, note: str, at_least: int = 0) -> int:
        """Count calls with this note; wait until there were so many."""
        number = await self._count(note)
        return await self.reached(note, at_least) if at_least else number

    @tool(effect="reads")
    async def reached(self, note: str, number: int) -> int:
        """Wait until something was counted so often."""
        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: self._counts[note] >= number)
            return self._counts[note]

    @tool(effect="reads")
    async def counted(self, note: str) -> int:
        """How often something was counted."""
        return self._counts[note]

    @tool
    async def waits(self, note: str, stubborn: bool = False) -> str:
        """Say that it waits (`NOTE`), wait, and say when that was ended (`NOTE ended`)."""
        await self._count(note)
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            await self._count(f"{note} ended")
            if not stubborn:
                raise
        return "waited"

    @tool(timeout=0.05)
    async def late(self) -> None:
        """Do not finish in time."""
        await asyncio.sleep(PATIENCE)

    @tool
    async def crashes(self) -> None:
        """Raise what no caller may read."""
        raise RuntimeError(CANARY)

    @tool
    async def fails(self, why: str) -> None:
        """Fail with these words."""
        raise ToolFailed(why, detail=CANARY)

    @tool
    async def says_no(self) -> Reply:
        """Return a result that is an error."""
        return Reply((Text("no"), Text("never")), is_error=True)

    @tool
    async def ends(self, kind: str) -> None:
        """End with an error of the tree."""
        raise made(getattr(errors, kind))

    @tool(output={"type": "integer"})
    async def lies(self) -> Any:
        """Break its own promise."""
        return CANARY

    @tool
    async def asks(self, ctx: Context) -> str:
        """Ask the person, where the dialect can."""
        await ctx.ask("Your name?", Form, key="name")
        return "asked"

    @tool(level=9)
    async def guarded(self) -> str:
        """Need a person's yes."""
        return "allowed"

    @tool
    async def nothing(self) -> None:
        """Return nothing."""

    @tool
    async def anything(self, value: Any = None) -> Any:
        """Repeat any value."""
        return value

    @tool
    async def wrapped(self) -> Wrapped:
        """Return an object that looks like a wrapper."""
        return {"result": 1}

    @tool
    async def blocks(self) -> Reply:
        """Return blocks of content."""
        return Reply((Text("a picture"), Image(b"png")))

    @tool
    async def unstated(self) -> Reply:
        """Return an object without a word about it before."""
        return Reply(value={"status": "success"})

    @tool
    async def plain(self, value: Any = None):  # type: ignore[no-untyped-def]
        """Repeat any value without a word about what comes back."""
        return value

    @tool
    async def several(self, numbers: list[int], place: Form) -> int:
        """Take parameters with parts."""
        return len(numbers)


class Early(Toolkit, version="1.0.0-rc.1", level=1):
    """A version that OXP cannot say as it is."""

    @tool(effect="reads")
    async def look(self) -> str:
        """Look."""
        return "early"


def made(kind: type[ToolhallError]) -> ToolhallError:
    """An error of this kind, with details that stay inside."""
    if issubclass(kind, errors.BadArguments):
        return kind([errors.Problem("/a", "is wrong")], detail=CANARY)
    if issubclass(kind, errors.Limited):
        return kind(1.5, detail=CANARY)
    if issubclass(kind, errors.Unsupported):
        return kind("elicitation", detail=CANARY)
    return kind(detail=CANARY)


EXAMPLES = (Calculator, Doorbell, House, System, get_weather)
TARGETS = (*EXAMPLES, Probe, Early)
hall = Toolhall(*TARGETS)
