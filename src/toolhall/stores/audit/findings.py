"""What verifying an audit can find."""

from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

What: TypeAlias = Literal["changed", "missing", "moved", "cut off", "bad signature", "rollback"]


class Finding(msgspec.Struct, frozen=True):
    """The first thing that is wrong with a log: where, and what."""

    what: What
    file: str
    line: int  # counted from 1; 0: the file as a whole
    number: int  # of the line, as it should be
    says: str

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}" if self.line else self.file
        return f"{place}, number {self.number}: {self.what}: {self.says}"


class Unfinished(msgspec.Struct, frozen=True):
    """A call or change whose intent is recorded, and whose end is not."""

    log: str  # the name of its folder
    number: int
    time: float
    call: str
    caller: str
    tool: str

    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"log {self.log}, number {self.number}: {self.tool}, called by {self.caller} at {at} ({self.call})"


class Report(msgspec.Struct, kw_only=True):
    """What was looked at, what is wrong with it, and what is worth knowing though nothing is wrong."""

    logs: int = 0
    records: int = 0
    checkpoints: int = 0
    outside: bool = False  # judged by a witness that was kept elsewhere
    anchored: bool = False  # compared with what the store knows
    unfinished: list[Unfinished] = []  # nothing is wrong with these records; how the calls ended is not known
    findings: list[Finding] = []
    notes: list[str] = []

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings
