# ruff: noqa: T201 - prints are what is tested
"""Tools that write their secret to the log by every way that is not an answer; for a server of its own."""

import asyncio
import contextlib
import gc
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

from toolhall import Context, tool

NAME = "NOISY"
_kept = logging.StreamHandler()  # what a library makes while it is imported
_CHILD = "import sys; print('child out', sys.argv[1], flush=True); print('child err', sys.argv[1], file=sys.stderr)"


class Final:
    """Raises its secret when it is collected."""

    def __init__(self, secret: str) -> None:
        self.secret = secret

    def __del__(self) -> None:
        raise RuntimeError(f"unraisable {self.secret}")


def _prints(secret: str) -> None:
    print("print", secret)
    print("bytes", end=" ", flush=True)
    print(secret[:9], end="", flush=True)
    print(secret[9:], flush=True)
    sys.stdout.buffer.write(f"buffer {secret}\n".encode())
    sys.stdout.buffer.flush()
    sys.stderr.write(f"stderr {secret}\n")
    print("original", secret, file=sys.__stderr__, flush=True)
    print("original", secret, file=sys.__stdout__, flush=True)


def _warns(secret: str) -> None:
    warnings.warn(f"warning {secret}", stacklevel=1)


def _in_thread(secret: str) -> None:
    def work() -> None:
        logging.getLogger("of.a.library").error("thread log %s", secret)
        raise RuntimeError(f"thread exception {secret}")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def _in_task(secret: str) -> None:
    async def work() -> None:
        raise RuntimeError(f"task {secret}")

    def late() -> None:
        print("late", secret, flush=True)
        raise RuntimeError(f"callback {secret}")

    loop = asyncio.get_running_loop()
    loop.create_task(work())  # noqa: RUF006 - nobody retrieves it
    loop.call_later(0.05, late)
    loop.call_later(0.05, gc.collect)


def _finalizes(secret: str) -> None:
    Final(secret)


def _child(secret: str) -> None:
    subprocess.run([sys.executable, "-c", _CHILD, secret], check=True)


def _descriptors(secret: str) -> None:
    os.write(2, f"descriptor 2 {secret}\n".encode())
    os.write(1, f"descriptor 1 {secret}\n".encode())
    with contextlib.suppress(OSError):
        os.write(2, secret[:10].encode())
        os.write(2, f"{secret[10:]}\n".encode())


def _kept_handler(secret: str) -> None:
    logger = logging.getLogger("of.another.library")
    logger.addHandler(_kept)
    logger.error("kept handler %s", secret)


WAYS: dict[str, tuple[Callable[[str], None], tuple[str, ...]]] = {
    "prints": (_prints, ("print", "buffer", "stderr", "original")),
    "warns": (_warns, ("warning",)),
    "in thread": (_in_thread, ("thread log", "thread exception")),
    "in task": (_in_task, ("task", "callback", "late")),
    "finalizes": (_finalizes, ("unraisable",)),
    "child": (_child, ("child out", "child err")),
    "descriptors": (_descriptors, ("descriptor 1", "descriptor 2")),
    "kept handler": (_kept_handler, ("kept handler",)),
}


@tool(secrets=[NAME])
async def writes(ctx: Context, way: str) -> str:
    """Write the secret."""
    WAYS[way][0](ctx.secret(NAME))
    return way


@tool(secrets=[NAME])
async def dies(ctx: Context) -> str:
    """Print the secret, and end the process at once."""
    print("last words", ctx.secret(NAME))
    os._exit(3)
