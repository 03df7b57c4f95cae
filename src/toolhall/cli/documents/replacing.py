"""A file that takes its place only once it is complete."""

import contextlib
import os
import secrets
import stat
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from toolhall.cli.failure import CommandFailed, WrongUsage


class NewFile:
    """Written under a name beside the real one."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()  # a link stays a link; what it leads to is replaced
        self._draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        mode = _mode(path)
        descriptor = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode)
        self.stream: BinaryIO = os.fdopen(descriptor, "wb")
        if mode is not None:
            self._draft.chmod(mode)

    def is_same(self, file: str) -> bool:
        """Whether it would replace that file."""
        return self._path.exists() and Path(file).exists() and self._path.samefile(file)

    def keep(self) -> None:
        """Put it in its place, in one step."""
        self.stream.close()
        self._draft.replace(self._path)

    def drop(self) -> None:
        """Remove it, unless it was kept."""
        with contextlib.suppress(OSError):
            self.stream.close()
        self._draft.unlink(missing_ok=True)


@contextlib.contextmanager
def new_file(path: Path) -> Generator[NewFile, None, None]:
    """A new file; gone again unless it was kept."""
    if path.is_dir():
        raise WrongUsage(f"--out {path} is a folder; name a file in it")
    if path.exists() and not path.is_file():
        raise WrongUsage(f"--out {path} is no plain file; leave out --out and redirect the output there")
    try:
        made = NewFile(path)
    except OSError as error:
        raise CommandFailed(f"--out {path} cannot be written: {error.strerror}; choose another place") from None
    try:
        yield made
    finally:
        made.drop()


def _mode(path: Path) -> int | None:
    """The permissions of the file that is there already."""
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None
