from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from toolhall import Toolhall, tool


@tool(effect="reads")
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}"


hall = Toolhall(greet)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncGenerator[None]:
    async with hall.lifespan():
        yield  # between these lines, open what the application itself needs


async def about(_: Request) -> PlainTextResponse:
    return PlainTextResponse("what we do")


app = Starlette(routes=[Route("/about", about), Mount("/hall", hall)], lifespan=lifespan)
