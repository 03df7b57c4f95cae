"""A finding together with where it was made: the file, the line, which document."""

import msgspec

from toolhall.cli.screen import visible
from toolhall.dialects.findings import Finding
from toolhall.model.json import JsonObject


class Spotted(msgspec.Struct, frozen=True):
    """One thing to change in one document of one file."""

    file: str
    line: int
    index: int
    finding: Finding

    def document(self) -> JsonObject:
        """As `--json` shows it."""
        found = self.finding
        return {
            "file": self.file,
            "line": self.line,
            "index": self.index,
            "path": found.path,
            "rule": found.rule,
            "severity": found.severity,
            "fix": found.fix,
        }

    def __str__(self) -> str:
        found = self.finding
        where = f"{self.file}:{self.line}: document {self.index}, {found.path or '/'}"
        return visible(f"{where}: {found.severity}: {found.fix} [{found.rule}]")
