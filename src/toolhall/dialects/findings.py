"""What is wrong with a document: every finding at once, each with its path, its rule and its fix."""

from typing import Literal

import msgspec

from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject


class Finding(msgspec.Struct, frozen=True):
    """One thing to change; an error refuses the document, a warning does not."""

    path: str
    rule: str
    fix: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.fix} [{self.rule}]"


class BadDocument(Malformed):
    """A document that cannot be read; carries every finding."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in findings[:20]))


class Reading:
    """Reads the members of a document and collects what is wrong, so that an author sees all of it at once."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self.findings: list[Finding] = []

    def fault(self, path: str, rule: str, fix: str) -> None:
        """Note an error."""
        self.findings.append(Finding(path, f"{self._dialect}/{rule}", fix))

    def done(self) -> None:
        """Refuse the document if anything was wrong."""
        if self.findings:
            raise BadDocument(self.findings)

    def text(self, holder: JsonObject, key: str, path: str, *, required: bool = True) -> str | None:
        """A member that is a text; an empty one counts as missing where it is required."""
        value = holder.get(key)
        if isinstance(value, str) and (value or not required):
            return value
        if value is None and not required:
            return None
        rule = "missing" if value in (None, "") else "not-text"
        self.fault(f"{path}/{key}", rule, f"give {key!r} as a text")
        return None

    def object(self, value: Json, path: str) -> JsonObject:
        """A member that is an object."""
        if isinstance(value, dict):
            return value
        self.fault(path, "not-object", "write an object here")
        return {}

    def items(self, value: Json, path: str) -> list[Json]:
        """A member that is a list."""
        if isinstance(value, list):
            return value
        self.fault(path, "not-list", "write a list here")
        return []
