"""The local log of calls: what was called where and how it ended, never a value."""

import hashlib
import os
import time
from pathlib import Path

import msgspec

from toolhall.cli.failure import CommandFailed
from toolhall.model.json import JsonObject, encode

FILE_NAME = "calls.jsonl"


class CallRecord(msgspec.Struct, frozen=True):
    """One call of `toolhall call`."""

    time: float
    where: str
    tool: str
    arguments_sha256: str
    outcome: str
    duration_us: int


class CallLog:
    """Appends to a file that only its owner can read."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME

    def write(self, where: str, tool: str, arguments: JsonObject, outcome: str, seconds: float) -> None:
        """Add one line; a call that cannot be logged is not passed over in silence."""
        digest = hashlib.sha256(encode(arguments)).hexdigest()
        record = CallRecord(time.time(), where, tool, digest, outcome, int(seconds * 1e6))
        try:
            opened = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(opened, "ab") as file:
                file.write(encode(record) + b"\n")
        except OSError as error:
            raise CommandFailed(f"the call cannot be logged in {self._file}: {error.strerror}") from None
