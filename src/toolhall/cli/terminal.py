"""A person at the terminal: questions on the error output, answers from the keyboard, without blocking the loop."""

import asyncio
import os
import sys

if sys.platform != "win32":
    import termios

_MOST_BYTES = 4_096


def forget_typed() -> None:
    """Throw away what was typed before the question was shown: it cannot be an answer to it."""
    if sys.platform != "win32":
        termios.tcflush(0, termios.TCIFLUSH)


async def read_line() -> str | None:
    """The next line that is typed; None at the end of the input. Cancelling leaves the keyboard alone."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def take() -> None:
        if not typed.done():
            typed.set_result(os.read(0, _MOST_BYTES))

    loop.add_reader(0, take)
    try:
        line = await typed
    finally:
        loop.remove_reader(0)
    return line.decode(errors="replace").strip() if line else None


def says_yes(line: str | None) -> bool:
    """Only a clear yes is one."""
    return line is not None and line.strip().lower() in ("y", "yes")


def prompt(text: str) -> None:
    """Show the question and leave the cursor behind it."""
    sys.stderr.write(text)
    sys.stderr.flush()
