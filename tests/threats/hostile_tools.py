"""Tools for tests that attack the server: some count, some wait, some misbehave in every way an author could."""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NoReturn

import msgspec
import pydantic

from toolhall import Context, Image, Reply, ResourceLink, Text, ToolFailed, tool

CANARY = "CANARY-5e2f"  # a secret that no caller may ever read
OSC_LINK = "\x1b]8;;http://evil.example\x07click\x1b]8;;\x07"
_touches = 0


# --- which calls arrived ---------------------------------------------------------------------------------------------


@tool
async def touch(note: str = "") -> int:
    """Count this call."""
    global _touches  # noqa: PLW0603 - the count is what tests ask for
    _touches += 1
    return _touches


@tool(effect="reads")
async def touches() -> int:
    """How often `touch` ran."""
    return _touches


@tool(level=8)
async def dangerous() -> int:
    """Touch something that needs a person's yes."""
    return await touch()


@tool
async def region(
    place: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Place"})], size: int = 0
) -> str:
    """Repeat an argument that also travels in a header."""
    await touch()
    return place


@tool
async def sized(size: Annotated[int, msgspec.Meta(extra_json_schema={"x-mcp-header": "Size"})]) -> int:
    """Repeat a number that also travels in a header."""
    await touch()
    return size


@tool
async def number(value: int) -> int:
    """Repeat a whole number."""
    return value


@tool
async def anything(value: Any = None) -> str:
    """Take anything; tell only what it is."""
    return type(value).__name__


@tool
async def nonce(nonce: str) -> str:
    """Repeat a nonce after a moment, so that calls overlap."""
    await asyncio.sleep(0.02)
    return nonce


# --- what the server holds --------------------------------------------------------------------------------------------


@tool
async def tasks() -> int:
    """How many tasks there are now."""
    return len(asyncio.all_tasks())


@tool
async def steps(ctx: Context, count: int = 5, delay: float = 0.0) -> str:
    """Report progress, step by step."""
    for step in range(count):
        ctx.progress(step + 1, count, "step")
        await asyncio.sleep(delay)
    return "done"


@tool
async def sleeps(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return "slept"


@tool(timeout=0.5)
def blocks(seconds: float) -> str:
    """Block a thread."""
    time.sleep(seconds)
    return "slept"


@tool(timeout=60)
def naps(seconds: float) -> str:
    """Block a thread, with so much time that no load makes it late."""
    time.sleep(seconds)
    return "slept"


@tool(timeout=5)
def spins(seconds: float) -> str:
    """Keep a thread busy."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return "spun"


@tool(timeout=0.3)
async def stubborn(times: int) -> str:
    """Ignore so many cancellations."""
    while True:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            times -= 1
            if times < 0:
                raise


# --- questions --------------------------------------------------------------------------------------------------------


class Colour(msgspec.Struct):
    """What the person is asked for."""

    colour: str


@tool
async def paint(ctx: Context, wall: str, coats: int = 1) -> str:
    """Ask for a colour, then paint."""
    given = await ctx.ask("Which colour?", Colour, key="colour")
    if not given.accepted:
        return "not painted"
    await touch()
    return f"{wall} is {given.value.colour}"


@tool
async def paint_again(ctx: Context, wall: str, coats: int = 1) -> str:
    """Another tool with the same arguments and the same question."""
    return await paint(ctx, wall, coats)


@tool
async def asks_on(ctx: Context) -> str:
    """Never stop asking."""
    for count in range(100):
        await ctx.ask("And now?", Colour, key=f"question-{count}")
    return "done"


@tool
async def asks_badly(ctx: Context) -> str:
    """Ask with a form that cannot be written."""
    await ctx.ask("?", {"type": "object", "properties": {"a": Unwritable()}}, key="a")
    return "asked"


# --- costly schemas ---------------------------------------------------------------------------------------------------


def doubling(levels: int, leaf: dict[str, Any]) -> dict[str, Any]:
    """A schema that judges a value by `leaf` 2**levels times."""
    definitions: dict[str, Any] = {"level0": leaf}
    for level in range(1, levels + 1):
        reference = {"$ref": f"#/$defs/level{level - 1}"}
        definitions[f"level{level}"] = {"allOf": [reference, reference]}
    return {"$defs": definitions, "$ref": f"#/$defs/level{levels}"}


def listing(levels: int, leaf: dict[str, Any]) -> dict[str, Any]:
    """An object whose `items` are each judged 2**levels times."""
    inner = doubling(levels, leaf)
    items = {"type": "array", "items": {"$ref": inner["$ref"]}}
    return {"type": "object", "properties": {"items": items}, "$defs": inner["$defs"]}


NEVER: dict[str, Any] = {"type": "string", "minLength": 5}
NARROW = listing(3, NEVER)
WIDE = listing(9, NEVER)
WIDEST = listing(13, NEVER)
LONG_NAMES: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": {"enum": ["x" * 80, "y" * 80, "z" * 80]}},
}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"items": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {
            "anyOf": [
                {"type": "array", "items": {"$ref": "#/$defs/node"}},
                {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 100_000},
                {"type": "string", "pattern": "^(a+)+$"},
            ]
        }
    },
}


def costly(name: str, schema: dict[str, Any]) -> Any:
    """A tool that does nothing but have its arguments checked."""

    async def nothing(**arguments: Any) -> int:
        return len(arguments)

    nothing.__module__ = __name__
    return tool(name=name, input=schema)(nothing)


narrow = costly("narrow", NARROW)
wide = costly("wide", WIDE)
widest = costly("widest", WIDEST)
long_names = costly("long_names", LONG_NAMES)
tree = costly("tree", TREE)


# --- secrets ----------------------------------------------------------------------------------------------------------


class Unwritable:
    """Raises the secret whenever anyone looks at it."""

    def __repr__(self) -> str:
        raise RuntimeError(CANARY)

    __str__ = __repr__
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class Trap(Mapping[str, Any]):
    """A mapping whose content cannot be had without an exception."""

    def __getitem__(self, key: str) -> NoReturn:
        raise RuntimeError(CANARY)

    def __iter__(self) -> Iterator[str]:
        raise LookupError(CANARY)

    def __len__(self) -> int:
        return 1


class Model(pydantic.BaseModel):
    """Raises the secret when it is written."""

    name: str = "model"

    @pydantic.field_serializer("name")
    def serialized(self, value: str) -> str:
        raise ArithmeticError(CANARY)


class Careful(pydantic.BaseModel):
    """Refuses every card, and says which."""

    card: str

    @pydantic.field_validator("card")
    @classmethod
    def check(cls, card: str) -> str:
        raise ValueError(f"Invalid card {card}")


@dataclasses.dataclass
class Careless:
    """Refuses every card, and says which, in words that msgspec could have said."""

    card: str

    def __post_init__(self) -> None:
        raise ValueError(f"Invalid card {self.card}")


class Odd(Exception):
    """Cannot even be written to a log without raising."""

    def __str__(self) -> str:
        raise RuntimeError(CANARY)


@tool
async def raises(how: str) -> Any:
    """Raise the secret in one of many ways."""
    return _raise(how)


@tool
def raises_in_thread(how: str) -> Any:
    """The same in a thread."""
    return _raise(how)


def _raise(how: str) -> NoReturn:
    raise RAISES[how]()


def _linked(error: Exception, *, cause: Exception | None = None, context: Exception | None = None) -> Exception:
    error.__context__ = context
    if cause:
        error.__cause__ = cause
    return error


def _noted() -> Exception:
    error = RuntimeError("see the note")
    error.add_note(CANARY)
    return error


RAISES: dict[str, Callable[[], BaseException]] = {
    "text": lambda: RuntimeError(CANARY),
    "cause": lambda: _linked(RuntimeError("see the cause"), cause=ValueError(CANARY)),
    "context": lambda: _linked(RuntimeError("while handling it"), context=ValueError(CANARY)),
    "group": lambda: ExceptionGroup(CANARY, [RuntimeError(CANARY), ValueError(CANARY)]),
    "base_group": lambda: BaseExceptionGroup(CANARY, [RuntimeError(CANARY), SystemExit(CANARY)]),
    "note": _noted,
    "odd": Odd,
    "detail": lambda: ToolFailed("the tool failed politely", detail=CANARY),
    "failed_from": lambda: _linked(ToolFailed("the tool failed politely"), cause=RuntimeError(CANARY)),
    "exit": lambda: SystemExit(CANARY),
    "stop": lambda: StopIteration(CANARY),
    "stop_async": lambda: StopAsyncIteration(CANARY),
    "cancelled": lambda: asyncio.CancelledError(CANARY),
    "timeout": lambda: TimeoutError(CANARY),
    "os": lambda: ConnectionResetError(CANARY),
    "key": lambda: KeyError(CANARY),
    "interrupt": lambda: KeyboardInterrupt(CANARY),
}


@tool
async def returns(how: str) -> Reply:
    """Return something that cannot be written, or only with a secret."""
    return RETURNS[how]()  # type: ignore[no-any-return]  # a Reply would promise nothing, and neither does this


@tool
async def promises(how: str) -> Any:
    """The same from a tool that has an output schema."""
    return RETURNS[how]()


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _deep() -> Any:
    deep: Any = CANARY
    for _ in range(100_000):
        deep = [deep]
    return deep


RETURNS: dict[str, Callable[[], Any]] = {
    "object": Unwritable,
    "nested": lambda: {"a": [Unwritable()]},
    "key": lambda: {Unwritable(): 1},
    "mapping": Trap,
    "model": Model,
    "generator": lambda: (each for each in CANARY),
    "set_of_traps": lambda: {Unwritable()},
    "huge_number": lambda: 10**5_000,
    "large_number": lambda: 2**70,
    "nan": lambda: float("nan"),
    "surrogate": lambda: "\ud800",
    "surrogate_block": lambda: Text("\ud800"),
    "surrogate_link": lambda: ResourceLink(uri="a:b", name="\ud800"),
    "meta": lambda: Reply((Text("x"),), meta={"a": Unwritable()}),
    "block_meta": lambda: Text("x", meta={"a": Unwritable()}),
    "not_bytes": lambda: Image(Unwritable()),  # type: ignore[arg-type]  # as a careless author may
    "not_text": lambda: Text(Unwritable()),  # type: ignore[arg-type]
    "not_blocks": lambda: Reply((Unwritable(),)),  # type: ignore[arg-type]
    "text_as_bytes": lambda: Image("abc"),  # type: ignore[arg-type]
    "text_as_block": lambda: Reply(("abc",)),  # type: ignore[arg-type]
    "text_as_meta": lambda: Reply((Text("x"),), meta="abc"),  # type: ignore[arg-type]
    "object_as_notes": lambda: Text("x", notes={"audience": ["user"]}),  # type: ignore[arg-type]
    "object_as_uri": lambda: ResourceLink(uri=Unwritable(), name="x"),  # type: ignore[arg-type]
    "object_as_mime_type": lambda: Image(b"x", Unwritable()),  # type: ignore[arg-type]
    "nothing_as_content": lambda: Reply(None),  # type: ignore[arg-type]
    "loop": _loop,
    "deep": _deep,
}


@tool
async def careful(order: Careful) -> str:
    """Take a pydantic model."""
    return "paid"


@tool
async def careless(order: Careless) -> str:
    """Take a dataclass."""
    return "paid"


@tool
async def logs_badly(ctx: Context) -> str:
    """Tell the caller something that cannot be written."""
    ctx.log({"a": Unwritable()}, "error")
    return "told"


@tool
def logs_badly_in_thread(ctx: Context) -> str:
    """The same in a thread."""
    ctx.log({"a": Unwritable()}, "error")
    return "told"


# --- output -----------------------------------------------------------------------------------------------------------


@tool
async def escapes(where: str) -> Reply:
    """Put terminal escape sequences into one part of the result."""
    return ESCAPES[where]()  # type: ignore[no-any-return]


def _fails(message: str = OSC_LINK) -> NoReturn:
    raise ToolFailed(message)


ESCAPES: dict[str, Callable[[], Any]] = {
    "text": lambda: Text(OSC_LINK),
    "value": lambda: {"deep": [OSC_LINK]},
    "key": lambda: {OSC_LINK: 1},
    "plain": lambda: OSC_LINK,
    "csi": lambda: "\x1b[31mclick\x1b[0m\x9b2J",
    "c1": lambda: "\x9d0;title\x9cclick\x90dcs\x9c\x7f\x00\x08",
    "link": lambda: ResourceLink(uri="a:b", name=OSC_LINK, title=OSC_LINK, description=OSC_LINK),
    "meta": lambda: Reply((Text("click"),), meta={"note": OSC_LINK}),
    "block_meta": lambda: Text("click", meta={"note": OSC_LINK}),
    "failed": _fails,
}


@tool
async def tells_escapes(ctx: Context) -> str:
    """Put terminal escape sequences into notices."""
    ctx.log(OSC_LINK, "error")
    ctx.progress(1, 2, OSC_LINK)
    return "told"


@tool(output={"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]})
async def breaks_promise() -> dict[str, Any]:
    """Return something other than the output schema says."""
    return {"count": CANARY}


@tool
async def large(how: str, size: int) -> Reply:
    """Return many bytes."""
    return LARGE[how](size)  # type: ignore[no-any-return]


LARGE: dict[str, Callable[[int], Any]] = {
    "text": lambda size: "x" * size,
    "wide_text": lambda size: "\N{SNOWMAN}" * (size // 3),
    "value": lambda size: {"items": ["x" * 1_000] * (size // 1_000)},
    "block": lambda size: Text("x" * size),
    "blocks": lambda size: [Text("x" * 1_000)] * (size // 1_000),
    "image": lambda size: Image(bytes(size)),
    "reply": lambda size: Reply((Text("x" * size),), {"small": True}),
    "meta": lambda size: Reply((Text("x"),), meta={"a": "x" * size}),
    "failed": lambda size: _fails("x" * size),
}
