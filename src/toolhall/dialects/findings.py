"""Collects all problems of a document (DocumentReader) as Findings; BadDocument carries them to the author."""

import re
from typing import Literal

import msgspec

from toolhall.dialects.strict_json import MAX_DEPTH
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode, escape_pointer, walk_levels
from toolhall.model.names import version_problem

MAX_VERSION_LENGTH = 64
# Dialects that do not require a semantic version also take a date or a counter.
_NUMBERS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12}){0,2}")


class Finding(msgspec.Struct, frozen=True):
    """One problem of a document and its fix; an error refuses the document, a warning does not."""

    path: str
    rule: str
    fix: str
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.fix} [{self.rule}]"


class BadDocument(Malformed):
    """The document cannot be read; carries every finding."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in findings[:20]))


def checked_json(document: Json) -> Json:
    """The document itself; raises BadDocument if it is not JSON or is nested too deeply to be read safely."""
    try:
        text = encode(document)
    except (RecursionError, TypeError, ValueError):
        raise BadDocument([Finding("", "json/value", "write JSON, nested a few levels deep at most")]) from None
    if text.count(b"{") + text.count(b"[") > MAX_DEPTH and sum(1 for _ in walk_levels(document)) > MAX_DEPTH:
        raise BadDocument([Finding("", "json/depth", f"nest it at most {MAX_DEPTH} levels deep")])
    return document


def is_version(text: str) -> bool:
    """True for a semantic version, or for one to three numbers separated by dots."""
    return len(text) <= MAX_VERSION_LENGTH and (version_problem(text) is None or _NUMBERS.fullmatch(text) is not None)


class DocumentReader:
    """Reads members of a document and collects every problem, so that an author sees all of them at once."""

    __slots__ = ("_dialect", "findings")

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self.findings: list[Finding] = []

    def add_error(self, path: str, rule: str, fix: str) -> None:
        """Record an error; the dialect's name is put before the rule."""
        self.findings.append(Finding(path, f"{self._dialect}/{rule}", fix))

    def raise_findings(self) -> None:
        """Raise BadDocument if anything was recorded."""
        if self.findings:
            raise BadDocument(self.findings)

    def string(self, holder: JsonObject, key: str, path: str, *, required: bool = True) -> str | None:
        """Read a string member; an empty string counts as missing if it is required."""
        value = holder.get(key)
        if isinstance(value, str) and (value or not required):
            return value
        if value is None and not required:
            return None
        rule = "missing" if value is None or value == "" else "not-text"
        self.add_error(f"{path}/{escape_pointer(key)}", rule, f"give {key!r} as a text")
        return None

    def object(self, value: Json, path: str, fix: str = "write an object here") -> JsonObject:
        """Read a member that must be an object."""
        if isinstance(value, dict):
            return value
        self.add_error(path, "not-object", fix)
        return {}

    def array(self, value: Json, path: str) -> list[Json]:
        """Read a member that must be a list."""
        if isinstance(value, list):
            return value
        self.add_error(path, "not-list", "write a list here")
        return []

    def strings(self, value: Json, path: str) -> tuple[str, ...]:
        """Read a member that must be a list of strings."""
        listed = self.array(value, path)
        for index, item in enumerate(listed):
            if not isinstance(item, str):
                self.add_error(f"{path}/{index}", "not-text", "write a text here")
        return tuple(listed)

    def check_unique_names(self, listed: list[Json], path: str, plural: str) -> None:
        """Record an error for every item whose name an earlier item has."""
        names = [item.get("name") if isinstance(item, dict) else item for item in listed]
        texts = [name for name in names if isinstance(name, str)]
        if len(set(texts)) == len(texts):
            return
        for index, name in enumerate(names):
            if isinstance(name, str) and name in names[:index]:
                at = f"{path}/{index}/name" if isinstance(listed[index], dict) else f"{path}/{index}"
                self.add_error(at, "twice", f"{name[:64]!r} is the name of two {plural}; rename one")

    def arguments_schema(self, schema: JsonObject, path: str) -> JsonObject:
        """The schema with the root type `object`, added if absent; any other root type is an error."""
        if schema.get("type") == "object":
            return schema
        if "type" in schema:
            self.add_error(f"{path}/type", "root", 'arguments are an object: write the type "object", or none')
        return {**schema, "type": "object"}
