"""The benchmark's tool among bad neighbours: isolated tools that block, crash and leak."""

import mmap
import os
import threading
from typing import TypedDict

from toolhall import tool

_kept: list[mmap.mmap] = []


class Sum(TypedDict):
    """What every server here returns."""

    result: float


@tool
async def add(a: float, b: float) -> Sum:
    """Add two numbers."""
    return {"result": a + b}


@tool(isolated=True, timeout=0.5)
def block() -> None:
    """Never return."""
    threading.Event().wait()


@tool(isolated=True)
def crash() -> None:
    """Take the process down."""
    os.abort()


@tool(isolated=True)
def leak() -> int:
    """Keep what was used."""
    _kept.append(mmap.mmap(-1, 64 << 20))
    return len(_kept)
