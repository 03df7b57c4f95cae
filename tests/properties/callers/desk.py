"""A toolkit with a tool for every way a call can end; it keeps what each was entered with."""

import asyncio
from typing import Any, TypedDict

from tests.harness.dialect_clients import BLOCKS, FREE, NOTHING, OBJECT, TEXT, VALUE
from toolhall import Context, Image, Reply, ResourceLink, Text, ToolFailed, Toolkit, tool
from toolhall.model import errors
from toolhall.model.json import JsonObject

VERSION = "1.2.0"
DEADLINE = 0.01

# What a tool may raise by itself, and the hall passes on: not NotFound, for a tool that was entered was found, and not
# Broken, for a tool cannot speak for the hall.
RAISED: dict[str, errors.ToolhallError] = {
    "BadArguments": errors.BadArguments([errors.Problem("/kind", "use another one")]),
    "Unauthenticated": errors.Unauthenticated("sign in again"),
    "Denied": errors.Denied("not on a Sunday"),
    "NeedsVerification": errors.NeedsVerification("ask somebody"),
    "NeedsRequirement": errors.NeedsRequirement("link an account"),
    "Limited": errors.Limited(7.0),
    "ToolFailed": errors.ToolFailed("out of paper"),
    "TimedOut": errors.TimedOut("the printer sleeps"),
    "Cancelled": errors.Cancelled("never mind"),
    "BadOutput": errors.BadOutput("unreadable"),
    "Unavailable": errors.Unavailable("the printer is away"),
}


class Note(TypedDict):
    """What most tools here return."""

    text: str
    count: int


class Desk(Toolkit, version=VERSION):
    """Every tool keeps its call in `entered` before it does anything else."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, JsonObject]] = []

    @tool(effect="reads")
    async def read(self, text: str, count: int = 1) -> Note:
        self.entered.append(("read", {"text": text, "count": count}))
        return {"text": text, "count": count}

    @tool(effect="reads")
    def read_in_thread(self, text: str, count: int = 1) -> Note:
        self.entered.append(("read_in_thread", {"text": text, "count": count}))
        return {"text": text, "count": count}

    @tool(effect="writes", level=5)
    async def write(self, data: Any) -> dict[str, Any]:
        self.entered.append(("write", {"data": data}))
        return {"written": data}

    @tool(effect="destroys", level=7)
    async def shred(self, number: int) -> None:
        self.entered.append(("shred", {"number": number}))

    @tool(effect="writes", level=8)
    async def sign(self, text: str) -> str:
        self.entered.append(("sign", {"text": text}))
        return f"signed: {text}"

    @tool(effect="reads", tags=["hidden"])
    async def peek(self, text: str) -> str:
        self.entered.append(("peek", {"text": text}))
        return text

    @tool
    async def add(self, numbers: list[float]) -> float:
        self.entered.append(("add", {"numbers": numbers}))
        return sum(numbers)

    @tool
    async def sort(self, numbers: list[int]) -> list[int]:
        self.entered.append(("sort", {"numbers": numbers}))
        return sorted(numbers)

    @tool
    async def find(self, text: str) -> int | None:
        self.entered.append(("find", {"text": text}))
        return len(text) or None

    @tool
    async def echo(self, data: Any) -> Any:
        self.entered.append(("echo", {"data": data}))
        return data

    @tool
    async def free(self, data: Any):  # type: ignore[no-untyped-def]  # it promises nothing
        self.entered.append(("free", {"data": data}))
        return data

    @tool
    async def picture(self, text: str) -> Image:
        self.entered.append(("picture", {"text": text}))
        return Image(text.encode())

    @tool
    async def pages(self, text: str) -> list[Text | Image | ResourceLink]:
        self.entered.append(("pages", {"text": text}))
        return [Text(text), Image(b"x"), ResourceLink(uri="https://example.org/page", name="page")]

    @tool(returns=Note)
    async def annotated(self, text: str) -> Reply:
        self.entered.append(("annotated", {"text": text}))
        return Reply((Text("read this"),), {"text": text, "count": 1}, {"example.org/mark": 1})

    @tool
    async def decline(self, text: str) -> Reply:
        self.entered.append(("decline", {"text": text}))
        return Reply((Text("no:"), Text(text)), is_error=True)

    @tool
    async def refuse(self, kind: str) -> str:
        self.entered.append(("refuse", {"kind": kind}))
        raise RAISED.get(kind) or (errors.Broken("the drawer is stuck") if kind == "Broken" else ToolFailed(kind))

    @tool
    async def stumble(self, text: str) -> str:
        self.entered.append(("stumble", {"text": text}))
        raise ValueError(text)

    @tool
    async def misprint(self, text: str) -> Note:
        self.entered.append(("misprint", {"text": text}))
        wrong: Any = {"text": text, "count": "many"}
        return wrong  # type: ignore[no-any-return]

    @tool
    async def scribble(self, text: str) -> Any:
        self.entered.append(("scribble", {"text": text}))
        return object()

    @tool(timeout=DEADLINE)
    async def dawdle(self, text: str) -> str:
        self.entered.append(("dawdle", {"text": text}))
        await asyncio.Event().wait()
        return text

    @tool
    async def report(self, ctx: Context, data: Any) -> str:
        self.entered.append(("report", {"data": data}))
        ctx.log(data)
        ctx.progress(1, 2, "half")
        await asyncio.sleep(0)
        return "reported"

    @tool
    async def mumble(self, ctx: Context, text: str) -> str:
        self.entered.append(("mumble", {"text": text}))
        ctx.log(object())
        return text

    @tool
    async def ask(self, ctx: Context, text: str) -> str:
        self.entered.append(("ask", {"text": text}))
        return (await ctx.ask(text, Answer)).action

    @tool
    async def insist(self, ctx: Context, text: str) -> str:
        self.entered.append(("insist", {"text": text}))
        ctx.need("elicitation")
        return text


class Answer(TypedDict):
    """The form of the tool that asks."""

    yes: bool


# How the value of each tool is declared, which decides how a dialect writes it.
SHAPES: dict[str, str] = {
    "read": OBJECT,
    "read_in_thread": OBJECT,
    "write": OBJECT,
    "shred": NOTHING,
    "sign": TEXT,
    "peek": TEXT,
    "add": VALUE,
    "sort": VALUE,
    "find": VALUE,
    "echo": VALUE,
    "free": FREE,
    "picture": BLOCKS,
    "pages": BLOCKS,
    "annotated": OBJECT,
    "decline": BLOCKS,
    "refuse": TEXT,
    "stumble": TEXT,
    "misprint": OBJECT,
    "scribble": VALUE,
    "dawdle": TEXT,
    "report": TEXT,
    "mumble": TEXT,
    "ask": TEXT,
    "insist": TEXT,
}
