"""Writes one record for every call, however it ends."""

import hashlib
from collections.abc import Callable
from typing import Protocol

from toolhall.model.call import Call
from toolhall.model.json import encode
from toolhall.model.record import Record
from toolhall.pipeline.states import Allowed, Found

_sha256 = hashlib.sha256


class Journal(Protocol):
    """Where records are kept."""

    def append(self, record: Record) -> None:
        """Keep this record."""
        ...


class Audit:
    """Opens an entry when a call starts and writes it when the call ends."""

    def __init__(self, journal: Journal, clock: Callable[[], float], timer: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self._timer = timer

    def write(self, call: Call, reached: Found | Allowed | str | None, outcome: str, bytes_out: int = 0) -> None:
        """One record; a tool that was found has its id, whatever it was called; the arguments are kept as a digest."""
        known = reached if reached is None or isinstance(reached, str) else reached.entry.id
        self._journal.append(
            Record(
                self._clock(),
                call.id,
                call.caller.id,
                call.dialect,
                known or call.tool[:128],
                outcome,
                reached.verdict.by if isinstance(reached, Allowed) else None,
                _sha256(encode(call.arguments)).hexdigest(),
                int((self._timer() - call.started) * 1e6),
                call.size,
                bytes_out,
            )
        )
