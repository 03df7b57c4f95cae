"""FolderFiles: reads and lists the regular files below one directory, and nothing outside of it.

Theory of operation. A path is split and each name is judged as a text first: no empty name, nothing that begins with a
dot (so neither `..` nor hidden files), no backslash, drive letter or control character. Then each directory is opened
relative to the one before, and no link is followed, so that there is no moment between a check and the use of its
result: whatever is moved or linked meanwhile, what is opened is below the directory. Where the system cannot open
relative to a directory (Windows), the real path is compared before and after opening instead, which is safe as long as
nobody else swaps directories at that very moment.

The directory itself may be a link. Links below it are not served, wherever they lead.
"""

import errno
import os
import re
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec

from toolhall.authoring.mime_types import is_textual, mime_type_of

MAX_LISTED = 1_000
MAX_SCANNED = 50_000  # names in all directories of one listing
MAX_DEPTH = 32
MAX_NAME_BYTES = 255
_NO_NAME = re.compile(r"[\x00-\x1f\x7f\\/]|^[A-Za-z]:|[. ]$")  # Windows drops dots and spaces at the end
_RELATIVE = os.open in os.supports_dir_fd and os.scandir in os.supports_fd and hasattr(os, "O_NOFOLLOW")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_ROOT_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_DIRECTORY", 0)
_DIRECTORY_FLAGS = _ROOT_FLAGS | _NO_FOLLOW
# Without O_NONBLOCK, opening a FIFO that took a file's place would wait for a writer.
_FILE_FLAGS = (
    os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
)
_NOT_THERE = {
    errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EMLINK, errno.EACCES, errno.EPERM, errno.ENXIO,
    errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ,
}  # fmt: skip
_Directory: TypeAlias = int | Path  # a descriptor; the real path where nothing can be opened relative to one


class FileTooLarge(ValueError):
    """A file with more bytes than may be read."""


class FolderFile(msgspec.Struct, frozen=True):
    """One file of a listing; `modified` in seconds since 1970, `mime_type` None if its name does not tell."""

    path: str  # relative, with `/`
    size: int
    modified: float
    mime_type: str | None
    stamp: tuple[int, ...] = ()  # differs once the file was written or replaced: its inode, size and times


class FolderListing(msgspec.Struct, frozen=True):
    """The files below a directory, sorted by path; not all of them if `truncated`."""

    files: tuple[FolderFile, ...]
    truncated: bool = False


class FileContents(msgspec.Struct, frozen=True):
    """A file's content: text if its type is textual and it is UTF-8, else bytes."""

    content: str | bytes
    mime_type: str
    modified: float


class FolderFiles:
    """The files below a directory; every method blocks, so call it in a thread."""

    def __init__(self, root: Path, mime_type: str | None = None) -> None:
        self._root = root
        self._mime_type = mime_type  # of all files

    def read(self, path: str, limit: int) -> FileContents | None:
        """The contents of a file; None if there is none to serve; FileTooLarge beyond `limit` bytes."""
        names = split_path(path)
        if names is None:
            return None
        try:
            with self._entered(names[:-1]) as directory:
                file = _open_file(directory, names[-1])
        except OSError as error:
            if error.errno in _NOT_THERE:
                return None
            raise
        if file is None:
            return None
        with os.fdopen(file, "rb", closefd=True) as opened:
            modified = os.fstat(file).st_mtime
            data = opened.read(limit + 1)
        if len(data) > limit:
            raise FileTooLarge(f"the file has more than {limit} bytes")
        return self._contents(names[-1], data, modified)

    def list_files(self, limit: int = MAX_LISTED, only: str | None = None) -> FolderListing:
        """The regular files, or those with the name `only`, in the order of their paths; no hidden ones, no links."""
        walk = _Walk(limit, self._mime_type, only)
        with self._entered(()) as directory:
            walk.visit(directory, "", 1)
        return FolderListing(tuple(walk.files), walk.truncated)

    def _contents(self, name: str, data: bytes, modified: float) -> FileContents:
        mime_type = self._mime_type or mime_type_of(name)
        if mime_type is None:
            text = None if b"\0" in data else _as_text(data)
            mime_type = "application/octet-stream" if text is None else "text/plain"
        else:
            text = _as_text(data) if is_textual(mime_type) else None
        return FileContents(data if text is None else text, mime_type, modified)

    @contextmanager
    def _entered(self, names: tuple[str, ...]) -> Generator[_Directory]:
        """Open the directory at these names, below the root."""
        if _RELATIVE:
            directory: _Directory = os.open(self._root, _ROOT_FLAGS)
        else:
            directory = self._root.resolve(strict=True)
        try:
            for name in names:
                inner = _enter(directory, name)
                _leave(directory)
                directory = inner
            yield directory
        finally:
            _leave(directory)


def split_path(path: str) -> tuple[str, ...] | None:
    """The names of a relative path, or None if no such path is ever served."""
    names = tuple(path.split("/", MAX_DEPTH))
    return names if len(names) <= MAX_DEPTH and all(map(_is_served, names)) else None


def _is_served(name: str) -> bool:
    if not name or name[0] == "." or _NO_NAME.search(name) or (os.name == "nt" and ":" in name):
        return False
    try:
        return len(name.encode()) <= MAX_NAME_BYTES
    except UnicodeEncodeError:  # a lone surrogate: no URI can name it
        return False


class _Walk:
    """One listing: visits directories depth first, in the order of names."""

    def __init__(self, limit: int, mime_type: str | None, only: str | None) -> None:
        self._only = only
        self.files: list[FolderFile] = []
        self.truncated = False
        self._is_full = False
        self._limit = limit
        self._names_left = MAX_SCANNED
        self._mime_type = mime_type

    def visit(self, directory: _Directory, prefix: str, depth: int) -> None:
        for name in self._names(directory):
            if self._is_full:
                return
            try:
                status = _status(directory, name)
                if stat.S_ISREG(status.st_mode):
                    if self._only in (None, name):
                        self._add(prefix + name, name, status)
                elif stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                    inner = _enter(directory, name)
                    try:
                        self.visit(inner, f"{prefix}{name}/", depth + 1)
                    finally:
                        _leave(inner)
            except OSError as error:
                if error.errno not in _NOT_THERE:  # gone, or replaced, since its name was read
                    raise

    def _names(self, directory: _Directory) -> list[str]:
        names: list[str] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if not self._names_left:
                    self.truncated = True
                    break
                self._names_left -= 1
                if _is_served(entry.name):
                    names.append(entry.name)
        return sorted(names)

    def _add(self, path: str, name: str, status: os.stat_result) -> None:
        if len(self.files) == self._limit:
            self.truncated = self._is_full = True
            return
        mime_type = self._mime_type or mime_type_of(name)
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        self.files.append(FolderFile(path, status.st_size, status.st_mtime, mime_type, stamp))


def _enter(directory: _Directory, name: str) -> _Directory:
    """Open a directory in another one; OSError if it is a link."""
    if isinstance(directory, int):
        return os.open(name, _DIRECTORY_FLAGS, dir_fd=directory)
    return _real_path(directory, name)


def _leave(directory: _Directory) -> None:
    if isinstance(directory, int):
        os.close(directory)


def _open_file(directory: _Directory, name: str) -> int | None:
    """Open a file in a directory; None if it is no regular file, OSError if it is a link."""
    if not stat.S_ISREG(_status(directory, name).st_mode):  # opening a device can have effects
        return None
    if isinstance(directory, int):
        file = os.open(name, _FILE_FLAGS, dir_fd=directory)
    else:
        file = os.open(_real_path(directory, name), _FILE_FLAGS)
    try:
        opened = os.fstat(file)
        is_below = isinstance(directory, int) or os.path.samestat(opened, _real_path(directory, name).lstat())
        if stat.S_ISREG(opened.st_mode) and is_below:
            return file
    except OSError:
        os.close(file)
        raise
    os.close(file)
    return None


def _status(directory: _Directory, name: str) -> os.stat_result:
    """The status of what has this name; of a link itself, not of what it leads to."""
    if isinstance(directory, int):
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    return (directory / name).lstat()


def _real_path(directory: Path, name: str) -> Path:
    """The path of a name in a directory; OSError if a link is on the way."""
    path = directory / name
    if str(path.resolve(strict=True)) != str(path):
        raise OSError(errno.ELOOP, "a link is not followed", str(path))
    return path


def _as_text(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
