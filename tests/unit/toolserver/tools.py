"""Tools that tool servers run in tests."""

import asyncio
import logging
import threading
from dataclasses import dataclass
from typing import Any

from toolhall import BaseTool, Context, Form, Image, Reply, Text, ToolError, Toolkit, ToolRequest, ToolResponse, tool


@dataclass
class Guest:
    """Who comes."""

    name: str


class Kit(Toolkit, version="1.2.0"):
    """Does one of everything."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.gate = asyncio.Event()
        self.left = asyncio.Event()
        self.ended: list[str] = []
        self.seen: Any = None

    @tool(effect="reads")
    async def add(self, a: int, b: int = 1) -> dict[str, int]:
        """Add."""
        return {"sum": a + b}

    @tool
    async def word(self) -> str:
        return "said"

    @tool
    async def nothing(self) -> None:
        return None

    @tool
    async def picture(self) -> Reply:
        return Reply((Text("a dot"), Image(b"\x00")), {"dots": 1})

    @tool
    def threaded(self, ctx: Context) -> str:
        ctx.progress(1, 2)
        return threading.current_thread().name

    @tool
    async def tells(self, ctx: Context, steps: int = 2) -> str:
        for step in range(steps):
            ctx.progress(step + 1, steps, f"step {step + 1}")
            ctx.log({"step": step + 1}, "debug")
        return "told"

    @tool
    async def odd_news(self, ctx: Context) -> str:
        ctx.progress(float("nan"))
        ctx.progress(1.5, message=3)  # type: ignore[arg-type]
        ctx.log("said", "loudly")  # type: ignore[arg-type]
        return "told"

    @tool
    async def asks(self, ctx: Context) -> str:
        try:
            given = await ctx.ask("Who comes?", Guest)
        finally:
            self.left.set()
        return given.value.name if given.accepted else given.action

    @tool
    async def asks_twice(self, ctx: Context) -> list[str]:
        form = Form("Which?", {"type": "object", "properties": {"x": {"type": "string"}}})
        found = await asyncio.gather(ctx.ask_all({"a": form}), ctx.ask_all({"b": form}))
        return [each[key].content["x"] for each, key in zip(found, "ab", strict=True)]  # type: ignore[union-attr,index]

    @tool
    async def detaches(self, ctx: Context) -> str:
        await ctx.detach(40)
        return "back"

    @tool
    async def waits(self) -> str:
        self.begun.set()
        try:
            await self.gate.wait()
        finally:
            self.ended.append("waits")
            self.left.set()
        return "waited"

    @tool(timeout=30)
    async def slow(self) -> str:
        await asyncio.Event().wait()
        return "never"

    @tool
    async def crashes(self) -> str:
        raise RuntimeError("canary-77")

    @tool
    async def fails(self) -> str:
        raise ToolError("no room", code="FULL", details={"left": 0})

    @tool
    async def unwritable(self) -> Any:
        return object()

    @tool
    async def large(self, size: int) -> str:
        return "x" * size

    @tool(secrets=["API_KEY"], account="google:calendar", user_id=True)
    async def supplied(self, ctx: Context) -> dict[str, Any]:
        logging.getLogger("toolhall.run").warning("the key is %s", ctx.secret("API_KEY"))
        self.seen = ctx
        account = ctx.account
        return {"account": account.token[-3:], "scopes": list(account.scopes), "user": ctx.user_id}

    @tool
    async def who(self, ctx: Context) -> dict[str, Any]:
        caller = ctx.caller
        return {"id": caller.id, "proof": caller.proof, "scopes": sorted(caller.scopes), "can": ctx.can("sampling")}


class Older(Toolkit, name="Kit", version="1.1.0"):
    """Does less."""

    @tool
    async def word(self) -> str:
        return "said before"


class ExampleTool(BaseTool):
    """As the specification writes it, but for the import line."""

    def __init__(self) -> None:
        super().__init__("example-tool", "1.0.0")
        self.health: Any = {"status": "healthy"}

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        try:
            if request.method == "method1":
                result = await self._handle_method1(request.params)
                return ToolResponse(result=result)
            raise ToolError("Unknown method")
        except Exception as e:  # noqa: BLE001 - as it is written there
            raise ToolError(str(e))  # noqa: B904

    async def _handle_method1(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"status": "success"}

    async def health_check(self) -> dict[str, Any]:
        if isinstance(self.health, Exception):
            raise self.health
        if isinstance(self.health, asyncio.Event):
            await self.health.wait()
        return self.health  # type: ignore[no-any-return]
