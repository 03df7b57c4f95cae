"""One record of audit: what was asked, by whom, what was said to it, and how it ended."""

from typing import Literal, Protocol

import msgspec


class Record(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Written once for every call, also for a refused one; never holds an argument or a result."""

    time: float
    call: str
    caller: str
    dialect: str
    tool: str  # its id with its version; of a tool that was not found, what it was called
    outcome: str  # "ok", "tool_error", "asked", "repeated", or the error's name; "intent" before a side effect
    grant: str | None = None  # what the verdict rests on
    arguments_sha256: str | None = None
    duration_us: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    definition_sha256: str | None = None
    level: int | None = None
    verdict: Literal["allow", "deny", "verify"] | None = None
    reason: str | None = None  # of a no
    approval: str | None = None  # a person's yes to this call, or the question that it asked
    person: str | None = None  # who answers for the caller, where that is another name
    acting_for: str | None = None
    redactions: int = 0
    phase: Literal["intent"] | None = None  # left out once the call has ended


class Unwritten(Protocol):
    """What a record can be made of later, by whoever writes it."""

    def record(self) -> Record:
        """The record."""
        ...
