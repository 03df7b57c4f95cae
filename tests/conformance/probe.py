"""A toolkit that makes every rule of the protocol visible from outside; the wire tests are run against it.

Its list has several pages. Tools that wait do so for another call, never for a time.
"""

import asyncio
import os
import time
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta

from toolhall import (
    Annotations,
    Audio,
    Config,
    Context,
    Icon,
    Image,
    Notes,
    Reply,
    Resource,
    ResourceLink,
    Text,
    Toolhall,
    Toolkit,
    ToolFailed,
    tool,
)
from toolhall.model.exchange import LOG_LEVELS

PAGE_SIZE = 10
PATIENCE = 5.0  # seconds after which a tool that waits for another call gives up
SECRET = "canary-4711"  # text of an exception, which no client may ever see


class Name(TypedDict):
    """A form with one field."""

    name: str


class Nonce(TypedDict):
    """What came in goes out."""

    nonce: str


class Fate(TypedDict):
    """How a held call ended."""

    fate: str


class Place(msgspec.Struct):
    """An object with a part that goes into a header."""

    city: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "City"})] = "Oslo"


class Held:
    """One call that waits, and how it ended."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.ended = asyncio.Event()
        self.fate = ""


@tool(name="probe_fleeting", effect="reads")
async def fleeting() -> str:
    """Is there only while it is toggled on."""
    return "here"


class Calls(Toolkit, name="probe"):
    """Calls that end when another call says so."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}

    def _call(self, key: str) -> Held:
        return self._held.setdefault(key, Held())

    @tool(effect="reads")
    async def nonce(self, ctx: Context, nonce: str) -> Nonce:
        """Report progress, let others run, give the nonce back."""
        ctx.progress(1, 1, nonce)
        await asyncio.sleep(0)
        return {"nonce": nonce}

    @tool(effect="reads")
    async def hold(self, ctx: Context, key: str) -> Fate:
        """Report progress, then wait until this key is released or the call is cancelled."""
        held = self._call(key)
        ctx.progress(1, None, "holding")
        try:
            async with asyncio.timeout(PATIENCE):
                await held.released.wait()
            held.fate = "released"
        except asyncio.CancelledError:
            held.fate = "cancelled"
            raise
        finally:
            held.ended.set()
        return {"fate": held.fate}

    @tool(effect="writes")
    async def release(self, key: str) -> str:
        """Let the call that holds this key go on."""
        self._call(key).released.set()
        return "released"

    @tool(effect="reads")
    async def fate(self, key: str) -> Fate:
        """Wait until the call that held this key has ended, and say how."""
        held = self._call(key)
        async with asyncio.timeout(PATIENCE):
            await held.ended.wait()
        return {"fate": held.fate}

    @tool(effect="reads")
    async def detach(self, ctx: Context, key: str) -> Fate:
        """Send the client away, then wait until this key is released."""
        await ctx.detach(retry_ms=50)
        return await self.hold(ctx, key)

    @tool(effect="reads")
    def thread(self, ctx: Context, key: str) -> Fate:
        """Work in a thread, which cannot be stopped, until the call is over; report progress all the time."""
        held, done = self._call(key), 0
        end = time.monotonic() + PATIENCE
        while not ctx.cancelled and time.monotonic() < end:
            done += 1
            ctx.progress(done)
            time.sleep(0.01)
        ctx.progress(done + 1)
        held.fate = "stopped"
        ctx._link  # noqa: B018
        return {"fate": held.fate}


class Notices(Toolkit, name="probe"):
    """What a tool says while it runs, and after."""

    def __init__(self) -> None:
        self._late: set[asyncio.Task[None]] = set()

    @tool(effect="reads")
    async def steps(self, ctx: Context, values: list[float]) -> str:
        """Report these values as progress, in this order."""
        for value in values:
            ctx.progress(value)
        return "done"

    @tool(effect="reads")
    async def logs(self, ctx: Context) -> str:
        """Write one line of every level to the client's log."""
        for level in LOG_LEVELS:
            ctx.log({"level": level}, level)
        return "done"

    @tool(effect="reads")
    async def late(self, ctx: Context) -> str:
        """Go on talking after the answer."""

        async def talk() -> None:
            for done in range(10, 20):
                await asyncio.sleep(0.01)
                ctx.progress(done)
                ctx.log("too late", "emergency")

        task = asyncio.create_task(talk())
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        return "done"

    @tool(effect="reads")
    async def shout(self) -> str:
        """Print to the standard output, in every way there is."""
        print("printed\n{not json}", flush=True)  # noqa: T201
        os.write(1, b"written\n")
        return "line one\nline two\r\nline three\u2028line four"
