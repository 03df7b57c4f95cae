"""Opens a file of definitions, or the standard input."""

import contextlib
import os
import stat
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias

import msgspec
from cyclopts import Parameter

from toolhall.cli.documents.reading import Documents, read_documents
from toolhall.cli.failure import CommandFailed, WrongUsage

STANDARD = "-"
# The parser would take `-` for an option.
File: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True)]
_LINES = (".jsonl", ".ndjson")


class Opened(msgspec.Struct, frozen=True):
    """A file that can be read: what to call it, and its size if it has one."""

    name: str
    stream: BinaryIO
    size: int | None

    def documents(self) -> Documents:
        """What is in it; BadJson if that is neither JSON nor JSON lines."""
        return read_documents(self.stream, lines=self.name.lower().endswith(_LINES))


@contextlib.contextmanager
def opened(file: str) -> Generator[Opened, None, None]:
    """The file, or the standard input for `-`; one line says why there is none."""
    if file == STANDARD:
        if sys.stdin is None:
            raise WrongUsage("there is no standard input; name a file instead of -")
        yield Opened("<stdin>", sys.stdin.buffer, None)
        return
    check_file(file)
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(Path(file).open("rb"))
        except OSError as error:
            raise CommandFailed(f"{file} cannot be read: {error.strerror}") from None
        about = os.fstat(stream.fileno())
        yield Opened(file, stream, about.st_size if stat.S_ISREG(about.st_mode) else None)


@contextlib.contextmanager
def failing_in_words() -> Generator[None, None, None]:
    """A full disk or a file that fails is one line too; a reader that has seen enough is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandFailed(f"reading or writing failed: {error.strerror}; mend that and try again") from None


def check_file(file: str) -> None:
    """Refuse a name that cannot be one of a file of definitions."""
    if file == STANDARD:
        return
    path = Path(file)
    if file.startswith("-") and not path.exists():
        raise WrongUsage(f"there is no option {file}; see --help")
    if path.is_dir():
        raise WrongUsage(f"{file} is a folder; name the files in it")
    if not path.exists():
        raise WrongUsage(f"there is no file {file}; write - for the standard input")
