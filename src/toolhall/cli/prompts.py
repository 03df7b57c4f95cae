"""Prompts at the terminal: yes/no questions, one-time codes, secret values, non-blocking line input."""

import asyncio
import os
import sys
import warnings

from toolhall.cli.errors import CommandError
from toolhall.cli.output import YELLOW, is_interactive, styled
from toolhall.model.secret import Secret

if sys.platform != "win32":
    import termios

MAX_SECRET_BYTES = 64 * 1024
_MAX_LINE_BYTES = 4_096
_MAX_CODE_LENGTH = 64
_NOTHING_CHANGED = "nothing was changed"


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a change; returns if the person agrees or gave --yes, else raises CommandError."""
    if yes:
        return
    if not is_interactive():
        raise CommandError(f"there is nobody to ask: {question} Add --yes if you have decided")
    if not ask_yes_no(question):
        raise CommandError(f"{_NOTHING_CHANGED}: you did not say yes")


def ask_yes_no(question: str) -> bool:
    """Ask at the terminal; True only for a typed `y` or `yes`, False for everything else and the end of input."""
    discard_typed_input()
    print_prompt(styled(f"{question} [y/N] ", YELLOW, sys.stderr))
    return is_yes(sys.stdin.readline())


def is_yes(line: str | None) -> bool:
    """Whether a typed line is `y` or `yes`."""
    return line is not None and line.strip().lower() in ("y", "yes")


def discard_typed_input() -> None:
    """Discard what was typed before the question was shown: it cannot be an answer to it."""
    if sys.platform != "win32":
        termios.tcflush(0, termios.TCIFLUSH)


async def read_line() -> str | None:
    """The next typed line, None at the end of input; on cancellation it stops reading, so no input is lost."""
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def take() -> None:
        if not typed.done():
            typed.set_result(os.read(0, _MAX_LINE_BYTES))

    loop.add_reader(0, take)
    try:
        line = await typed
    finally:
        loop.remove_reader(0)
    return line.decode(errors="replace").strip() if line else None


def print_prompt(text: str) -> None:
    """Write a question to stderr and leave the cursor behind it."""
    sys.stderr.write(text)
    sys.stderr.flush()


def prompt_code(question: str) -> str:
    """A one-time code, typed at the terminal or read from standard input."""
    if is_interactive():
        discard_typed_input()
        print_prompt(styled(f"{question}: ", YELLOW, sys.stderr))
    line = sys.stdin.readline(_MAX_CODE_LENGTH).strip() if sys.stdin is not None else ""
    if not line:
        raise CommandError(f"{_NOTHING_CHANGED}: there was no code; type it, or send it on the standard input")
    return line


def prompt_secret() -> Secret:
    """A secret, typed twice at a terminal, else all of standard input without the line break at its end."""
    text = _prompt_twice() if sys.stdin is not None and sys.stdin.isatty() else _read_stdin()
    if not text:
        raise CommandError(f"{_NOTHING_CHANGED}: there was no value; type it, or send it on the standard input")
    try:
        return Secret(text)
    except ValueError as error:
        raise CommandError(f"{_NOTHING_CHANGED}: {error}") from None


def _prompt_twice() -> str:
    import getpass  # lazy: only where a secret is typed

    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            first = getpass.getpass("Value (it is not shown): ")
            again = getpass.getpass("The same again: ")
        except EOFError:
            return ""
        except getpass.GetPassWarning:
            raise CommandError(
                f"{_NOTHING_CHANGED}: this terminal shows what is typed; send the value on the standard input instead"
            ) from None
    if first != again:
        raise CommandError(f"{_NOTHING_CHANGED}: the two were not the same; try again")
    return first


def _read_stdin() -> str:
    raw = sys.stdin.buffer.read(MAX_SECRET_BYTES + 3) if sys.stdin is not None else b""  # with a line break
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        if len(raw) <= MAX_SECRET_BYTES + 2:
            raise CommandError(
                f"{_NOTHING_CHANGED}: the value is no text in UTF-8; encode it, for example in base64"
            ) from None
        text = raw.decode(errors="replace")
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if len(raw) > MAX_SECRET_BYTES + 2 or len(text.encode()) > MAX_SECRET_BYTES:
        raise CommandError(
            f"{_NOTHING_CHANGED}: a value has at most {MAX_SECRET_BYTES // 1024} KiB; keep files elsewhere"
        )
    return text
