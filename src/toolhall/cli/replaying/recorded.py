"""Reads recorded calls, each different one once."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.contracts.canonical import canonical
from toolhall.model.globs import means
from toolhall.model.json import levels
from toolhall.model.recording import FILE_NAME, Recording

_MOST_LEVELS = 200  # what was recorded has fewer; more could not be compared
_HOW = "calls are recorded where the setting 'record' names their tools: record = [\"Weather.*\"]"

_decode = msgspec.json.Decoder(Recording).decode


class Recorded:
    """The newest recording of each call; kept as text, because values take many times as much memory."""

    def __init__(self) -> None:
        self._newest: dict[object, tuple[float, bytes]] = {}
        self.calls = 0
        self.unreadable = 0

    @property
    def repeated(self) -> int:
        """How many were recorded again later, with the same arguments."""
        return self.calls - len(self._newest)

    def add(self, line: bytes, glob: str) -> None:
        """One line of the file; what a crash cut off is counted."""
        try:
            recording = _decode(line)
            key = _key(recording)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError, ValueError):
            self.unreadable += 1
            return
        if not means((glob,), recording.tool):
            return
        self.calls += 1
        if key not in self._newest or self._newest[key][0] <= recording.time:
            self._newest[key] = recording.time, line

    def __iter__(self) -> Iterator[Recording]:
        """One by one, in the order they were recorded."""
        for _, line in self._newest.values():
            yield _decode(line)

    def __len__(self) -> int:
        return len(self._newest)


def read_recorded(place: Path, glob: str) -> Recorded:
    """The recordings in a file or a data folder of the tools that are meant."""
    file = place / FILE_NAME if place.is_dir() else place
    if not file.exists():
        raise WrongUsage(f"there is no file {file}; {_HOW}")
    found = Recorded()
    try:
        with file.open("rb") as lines:
            for line in lines:
                if line.strip():
                    found.add(line, glob)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}") from None
    if found.unreadable and not found.calls and not len(found):
        raise CommandFailed(f"no line of {file} is a recorded call of {glob!r}; {_HOW}")
    return found


def _key(recording: Recording) -> object:
    """The tool without its version, and the arguments; where these are not known, two calls are never the same."""
    if sum(1 for _ in levels([recording.arguments, recording.answer])) > _MOST_LEVELS:
        raise ValueError("nested too deeply")
    if any(pointer.startswith("/arguments") for pointer in (*recording.redacted, *recording.omitted)):
        return object()
    if not isinstance(recording.arguments, dict):
        raise TypeError("arguments are an object")
    return recording.tool.partition("@")[0], hashlib.sha256(canonical(recording.arguments)).digest()
