from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from toolhall import Toolhall, tool

words: dict[str, str] = {}


@tool(effect="reads")
async def greet() -> str:
    """Say hello."""
    return words["hello"]


@asynccontextmanager
async def models(hall: Toolhall) -> AsyncGenerator[None]:
    words["hello"] = f"Hello from {hall.config.name}"
    yield
    words.clear()


hall = Toolhall(greet, lifespan=models)
