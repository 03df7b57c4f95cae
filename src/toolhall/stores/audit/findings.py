"""What verifying an audit can find."""

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


class Report(msgspec.Struct, kw_only=True):
    """What was looked at, what is wrong with it, and what is worth knowing though nothing is wrong."""

    logs: int = 0
    records: int = 0
    checkpoints: int = 0
    outside: bool = False  # judged by a witness that was kept elsewhere
    findings: list[Finding] = []
    notes: list[str] = []

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings
