"""The value of a secret: typed without being shown, or from the standard input; never on the command line."""

import getpass
import sys
import warnings

from toolhall.cli.failure import CommandFailed
from toolhall.model.secret import Secret

MOST_BYTES = 64 * 1024
_UNCHANGED = "nothing was changed"


def read_secret() -> Secret:
    """What is typed twice at a terminal, else the whole standard input without the line break at its end."""
    text = _typed() if sys.stdin is not None and sys.stdin.isatty() else _piped()
    if not text:
        raise CommandFailed(f"{_UNCHANGED}: there was no value; type it, or send it on the standard input")
    try:
        return Secret(text)
    except ValueError as error:
        raise CommandFailed(f"{_UNCHANGED}: {error}") from None


def _typed() -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            first = getpass.getpass("Value (it is not shown): ")
            again = getpass.getpass("The same again: ")
        except EOFError:
            return ""
        except getpass.GetPassWarning:
            raise CommandFailed(
                f"{_UNCHANGED}: this terminal shows what is typed; send the value on the standard input instead"
            ) from None
    if first != again:
        raise CommandFailed(f"{_UNCHANGED}: the two were not the same; try again")
    return first


def _piped() -> str:
    raw = sys.stdin.buffer.read(MOST_BYTES + 3) if sys.stdin is not None else b""  # a line break may come on top
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        if len(raw) <= MOST_BYTES + 2:
            raise CommandFailed(
                f"{_UNCHANGED}: the value is no text in UTF-8; encode it, for example in base64"
            ) from None
        text = raw.decode(errors="replace")
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if len(raw) > MOST_BYTES + 2 or len(text.encode()) > MOST_BYTES:
        raise CommandFailed(f"{_UNCHANGED}: a value has at most {MOST_BYTES // 1024} KiB; keep files elsewhere")
    return text
