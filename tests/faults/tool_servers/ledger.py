"""A toolkit whose every effect can be counted; `ledger.ts` holds the same one in TypeScript."""

import asyncio
import os
from pathlib import Path

from toolhall import Context, Toolkit, tool


class PyLedger(Toolkit, name="PyLedger", version="1.0.0"):
    """Writes lines into a file."""

    @tool(effect="writes", timeout=5)
    async def write(self, ctx: Context, nonce: str, pause: float, tell: bool) -> str:
        """Write it down in the middle of a pause, and say so before if told to."""
        return await written(ctx, nonce, pause, tell)

    @tool(effect="writes", timeout=25)
    async def keep(self, ctx: Context, nonce: str, pause: float, tell: bool) -> str:
        """The same, with more time than a lease has."""
        return await written(ctx, nonce, pause, tell)


async def written(ctx: Context, nonce: str, pause: float, tell: bool) -> str:
    if tell:
        ctx.progress(0, 1, "about to write")
    await asyncio.sleep(pause / 2)
    append(nonce)
    await asyncio.sleep(pause / 2)
    return nonce


def append(nonce: str) -> None:
    """One line by one system call, so that lines of several processes never mix."""
    file = os.open(Path(os.environ["LEDGER"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{nonce} {os.getpid()}\n".encode())
    finally:
        os.close(file)
