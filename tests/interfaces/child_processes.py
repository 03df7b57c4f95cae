"""Other processes that hold a store, for tests that stop them."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def child(code: str, *arguments: object) -> Generator["subprocess.Popen[str]"]:
    """Run this code; it is killed at the end, if it still runs."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def read_line(process: "subprocess.Popen[str]") -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


HOLDING = """
import asyncio, os, sys
from pathlib import Path
from tests.interfaces.tool_records import event, kept
from tests.interfaces.tool_stores import open_store

store = open_store(Path(sys.argv[1]))
if not asyncio.run(store.all()):
    asyncio.run(store.save([kept()], [event(kept())]))
print(os.getpid(), flush=True)
sys.stdin.read()
"""
