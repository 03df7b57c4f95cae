"""A program that has a process write to an audit and kills it, again and again, at moments that a seed chooses.

What the process was promised it says through a pipe, which outlives it; at the end this program prints all of that.
"""

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path
from random import Random

from toolhall.app import Toolhall
from toolhall.authoring.declaration import tool
from toolhall.config import Config
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool
from toolhall.stores.audit.hash_chain import AuditSigner
from toolhall.stores.audit.journal import AuditJournal
from toolhall.stores.audit.writer import Retention

WORD = 16  # bytes of what is said at once
SMALL = Retention(sign_records=5, segment_bytes=3_000)


async def commit(data: Path, start: int, say: int) -> None:
    """Say each record that is safe, once it is."""
    journal = AuditJournal(data, SMALL)
    for number in count(start):
        journal.append(AuditRecord(1.0, f"aside-{number}", "ada", "mcp", "Kit.pick@1.0.0", "ok"))
        await journal.commit(AuditRecord(1.0, f"call-{number}", "ada", "mcp", "Kit.pick@1.0.0", "ok"))
        os.write(say, f"call-{number}".encode().ljust(WORD))


async def act(data: Path, start: int, say: int) -> None:
    """Say each side effect, while it happens."""

    @tool(level=4, effect="writes")
    async def touch(number: int) -> None:
        os.write(say, f"{number}".encode().ljust(WORD))

    hall = Toolhall(touch, config=Config(data=str(data)))
    for number in count(start):
        await hall.dispatcher.answer(CallTool("touch", {"number": number}, "test", 0), LOCAL)


def main() -> None:
    how, data, rounds, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    chance = Random(seed)
    data.joinpath("audit").mkdir(exist_ok=True)
    AuditSigner(data / "audit")  # loads what it takes to sign, once for all
    said: list[str] = []
    for number in range(rounds):
        hear, say = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(hear)
            asyncio.run({"commit": commit, "act": act}[how](data, number * 1_000, say))
            os._exit(1)
        os.close(say)
        heard = b""
        for _ in range(chance.randrange(12)):
            heard += os.read(hear, WORD)
        for _ in range(chance.randrange(20_000)):
            pass  # a moment, as long as the machine makes it
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(hear, 65_536):
            heard += more
        os.close(hear)
        said += heard.decode().split()
    sys.stdout.write("\n".join(said))


main()
