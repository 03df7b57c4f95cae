"""What a test of a runner replies, compares and waits for."""

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.harness.http_client import Message
from tests.harness.patience import patience
from tests.interfaces.running.reach import Reach
from tests.interfaces.running.ways import KILLED


def exact(value: Any) -> str:
    """JSON tells 1 from 1.0 and from true, where Python does not."""
    return json.dumps(value, sort_keys=True, indent=1)


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def always(reply: Message) -> Callable[[Message], Message]:
    """Give the same reply to every question."""
    return lambda _: reply


def after_a_while(content: Message) -> Callable[[Message], Message]:
    """Fill in a form, but take more time than the tool has."""

    def respond(_: Message) -> Message:
        time.sleep(2.0)
        return {"action": "accept", "content": content}

    return respond


def own_meta(result: Message) -> Message:
    """The notes of the tool itself; the hall adds who it is, and whose words these are."""
    ours = ("dev.toolhall/", "io.modelcontextprotocol/")
    return {key: value for key, value in result.get("_meta", {}).items() if not key.startswith(ours)}


def told(notice: Message) -> Message:
    """What a notice says, without what only the client needs."""
    return {key: value for key, value in notice["params"].items() if key not in ("progressToken", "_meta")}


async def stopped(hall: Reach, file: Path) -> None:
    """The tool has written down that it was stopped; where it was killed instead, its process is gone."""
    if KILLED in hall.place.differs:
        await eventually(lambda: not is_alive(int(lines(file)[0].removeprefix("began "))))
        assert len(lines(file)) == 1
    else:
        await eventually(lambda: lines(file)[1:] == ["stopped"])


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(patience()):
        while not holds():  # noqa: ASYNC110 - what another process does wakes nobody here
            await asyncio.sleep(0.01)
