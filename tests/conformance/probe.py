"""A toolkit that makes every rule of the protocol visible from outside; the wire tests are run against it.

Its list has several pages. Tools that wait do so for another call, never for a time.
"""

import asyncio
import os
import threading
import time
from collections import defaultdict
from typing import Any, TypedDict

import msgspec

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
    ToolFailed,
    Toolhall,
    Toolkit,
    tool,
)
from toolhall.model.messages import LOG_LEVELS, Form, Roots, Sample

PAGE_SIZE = 10
PATIENCE = 60.0  # seconds after which a tool that waits for another call gives up
CANARY = "canary-4711"  # text of an exception, which no client may ever see
NAME_FORM: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Nonce(TypedDict):
    """What came in goes out."""

    nonce: str


class Fate(TypedDict):
    """How a held call ended."""

    fate: str


class Name(TypedDict):
    """A form with one field."""

    name: str


class Point(msgspec.Struct):
    """A value with two parts."""

    x: int
    y: int = 0


class Held:
    """One call that waits, and how it ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.released = asyncio.Event()
        self.ended = asyncio.Event()
        self.fate = ""


class Calls(Toolkit, name="probe"):
    """Calls that end when another call says so."""

    def __init__(self) -> None:
        self._held: defaultdict[str, Held] = defaultdict(Held)
        self._stopped: defaultdict[str, threading.Event] = defaultdict(threading.Event)

    @tool(effect="reads")
    async def nonce(self, ctx: Context, nonce: str) -> Nonce:
        """Report progress, let others run, give the nonce back."""
        ctx.progress(1, 1, nonce)
        await asyncio.sleep(0)
        return {"nonce": nonce}

    @tool(effect="reads")
    async def hold(self, ctx: Context, key: str) -> Fate:
        """Report progress, then wait until this key is released or the call is cancelled."""
        held = self._held[key]
        held.begun.set()
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

    @tool(effect="reads")
    async def detach(self, ctx: Context, key: str) -> Fate:
        """Send the client away, then hold."""
        await ctx.detach(retry_ms=50)
        return await self.hold(ctx, key)

    @tool(effect="reads")
    async def detach_later(self, ctx: Context, key: str) -> Fate:
        """Hold, send the client away in the middle of its stream, and hold again."""
        await self.hold(ctx, key)
        await ctx.detach(retry_ms=60)
        return await self.hold(ctx, f"{key}-again")

    @tool(effect="reads")
    async def begun(self, key: str) -> str:
        """Wait until a call holds this key."""
        async with asyncio.timeout(PATIENCE):
            await self._held[key].begun.wait()
        return "begun"

    @tool(effect="writes")
    async def release(self, key: str) -> str:
        """Let the call that holds this key go on."""
        self._held[key].released.set()
        return "released"

    @tool(effect="reads")
    async def fate(self, key: str) -> Fate:
        """Wait until the call that held this key has ended, and say how."""
        async with asyncio.timeout(PATIENCE):
            await self._held[key].ended.wait()
        return {"fate": self._held[key].fate}

    @tool(effect="reads")
    def spin(self, ctx: Context, key: str) -> str:
        """Work in a thread, which nobody can stop, and report progress until it learns that nobody listens."""
        done, end = 0, time.monotonic() + PATIENCE
        while not ctx.cancelled and time.monotonic() < end:
            done += 1
            ctx.progress(done)
            time.sleep(0.01)
        ctx.progress(done + 1, None, "too late")
        self._stopped[key].set()
        return "stopped"

    @tool(effect="reads")
    def spun(self, key: str) -> bool:
        """Wait until the call of probe_spin with this key has stopped."""
        return self._stopped[key].wait(PATIENCE)


class Notices(Toolkit, name="probe"):
    """What a tool says while it runs, and after."""

    def __init__(self) -> None:
        self._talking: set[asyncio.Task[None]] = set()

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
                await asyncio.sleep(0.005)
                ctx.progress(done, None, "too late")
                ctx.log("too late", "emergency")

        task = asyncio.create_task(talk())
        self._talking.add(task)
        task.add_done_callback(self._talking.discard)
        return "done"

    @tool(effect="reads")
    async def shout(self) -> str:
        """Print to the standard output, in more than one way."""
        print("printed\n{not json}", flush=True)  # noqa: T201
        os.write(1, b"written\n")
        return "line one\nline two\r\nline three\u2028line four"


class Results(Toolkit, name="probe"):
    """Every kind of result."""

    @tool(effect="reads")
    async def echo(self, value: Any) -> Any:
        """Give a value back."""
        return value

    @tool(effect="reads")
    async def point(self, x: int, y: int = 0) -> Point:
        """Return an object."""
        return Point(x, y)

    @tool(effect="reads")
    async def number(self) -> int:
        """Return a number."""
        return 42

    @tool(effect="reads")
    async def words(self) -> list[str]:
        """Return a list."""
        return ["one", "two"]

    @tool(effect="reads")
    async def maybe(self) -> int | None:
        """Return nothing where a number could be."""
        return None

    @tool(effect="writes")
    async def nothing(self) -> None:
        """Return nothing."""

    @tool(effect="reads")
    async def blocks(self) -> Reply:
        """Return every kind of block."""
        notes = Notes(audience=("user", "assistant"), priority=0.5, last_modified="2026-07-28T12:00:00Z")
        return Reply(
            content=(
                Text("text", notes, {"com.example/mark": 1}),
                Image(b"png", "image/png", notes),
                Audio(b"wav", "audio/wav"),
                ResourceLink(
                    uri="https://example.com/a", name="a", title="A", mime_type="text/plain", size=3, notes=notes
                ),
                Resource(uri="test://text", content="text", mime_type="text/plain"),
                Resource(uri="test://bytes", content=b"bytes"),
            ),
            meta={"com.example/mark": True},
        )

    @tool(effect="reads", output={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    async def liar(self) -> Any:
        """Return something other than it promises."""
        return {"n": CANARY}

    @tool(effect="reads")
    async def crash(self) -> None:
        """Raise an exception whose text is nobody's business."""
        raise RuntimeError(CANARY)

    @tool(effect="reads")
    async def fail(self) -> None:
        """Say that it could not be done."""
        raise ToolFailed("the city is not known; try another")

    @tool(effect="reads")
    async def escape(self) -> str:
        """Return what would move a terminal's cursor."""
        return "red \x1b[31mtext\x1b[0m\x07 and \x9b2J more"

    @tool(effect="destroys", level=9)
    async def guarded(self) -> str:
        """Do what needs a person's yes."""
        return "done"

    @tool(
        title="Decorated",
        effect="writes",
        annotations=Annotations(title="Hinted", idempotent=True, open_world=False),
        icons=(
            Icon(src="https://example.com/icon.png", mime_type="image/png", sizes=("48x48",), theme="light"),
            Icon(src="data:image/png;base64,iVBORw0KGgo="),
        ),
        tags=("one", "two"),
        meta={"com.example/mark": "kept"},
    )
    async def decorated(self) -> str:
        """Carry everything that a definition can."""
        return "done"

    @tool(
        effect="reads",
        input={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "shard": {"type": ["integer", "null"], "description": "not in a header: only one type may be"},
                "count": {"type": "integer", "x-mcp-header": "Count"},
                "dry": {"type": "boolean", "x-mcp-header": "Dry"},
                "place": {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}},
            },
        },
    )
    async def routed(self, **arguments: Any) -> Any:
        """Take arguments that are repeated in headers."""
        return arguments

    @tool(
        effect="reads",
        input={
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "definitions": {"even": {"type": "integer", "multipleOf": 2}},
            "properties": {"pair": {"items": [{"$ref": "#/definitions/even"}, {"type": "string"}]}},
        },
    )
    async def draft07(self, **arguments: Any) -> Any:
        """Take arguments by a schema of an older draft, where `items` may be a list."""
        return arguments


class Questions(Toolkit, name="probe"):
    """Every kind of question."""

    @tool(effect="reads")
    async def ask(self, ctx: Context, greeting: str = "Hello") -> str:
        """Ask for a name."""
        given = await ctx.ask("Your name?", Name, key="name")
        return f"{greeting}, {given.value['name']}!" if given.accepted else given.action

    @tool(effect="reads")
    async def ask_often(self, ctx: Context, times: int) -> str:
        """Ask one thing after the other."""
        names = [(await ctx.ask(f"Name {number}?", Name, key=f"name{number}")) for number in range(times)]
        return ", ".join(given.value["name"] if given.accepted else given.action for given in names)

    @tool(effect="reads")
    async def ask_all(self, ctx: Context) -> list[str]:
        """Ask everybody at once."""
        prompt = {"role": "user", "content": {"type": "text", "text": "Say something."}}
        answers = await ctx.ask_all(
            {
                "person": Form("Your name?", NAME_FORM),
                "model": Sample(messages=(prompt,), max_tokens=10, system="Be brief.", temperature=0.5, stop=("END",)),
                "client": Roots(),
            }
        )
        return sorted(f"{key}: {type(answer).__name__}" for key, answer in answers.items())

    @tool(effect="reads")
    async def visit(self, ctx: Context) -> str:
        """Ask the user to open a page."""
        agreed = await ctx.visit("Please sign in.", "https://example.com/connect/1", key="connect")
        return "agreed" if agreed else "refused"

    @tool(effect="reads")
    async def impatient(self, ctx: Context) -> str:
        """Ask for a name, but wait only for a moment."""
        try:
            async with asyncio.timeout(0.1):
                return (await ctx.ask("Your name, quickly?", Name, key="name")).action
        except TimeoutError:
            return "too slow"


class Changes(Toolkit, name="probe"):
    """What changes the list of tools."""

    def __init__(self, hall: Toolhall) -> None:
        self._hall = hall

    @tool(effect="writes")
    async def toggle(self) -> str:
        """Add the tool probe_fleeting, or remove it if it is there."""
        if self._hall.remove("probe_fleeting"):
            return "removed"
        self._hall.add(fleeting)
        return "added"


@tool(name="probe_fleeting", effect="reads")
async def fleeting() -> str:
    """Is there only while it is toggled on."""
    return "here"


hall = Toolhall(Calls(), Notices(), Results(), Questions(), config=Config(page_size=PAGE_SIZE))
hall.add(Changes(hall))
