"""AuditQuery: which audit records a search wants, parsed from filters given as text (`parse_query`).

A text filter is a glob or several separated by commas; a record passes if any of them matches, or if its value is the
whole text, so that a name with a comma or a star can be searched for. Lines are read from large files, so that a filter
also says which bytes a matching line must contain: most lines are skipped without decoding them.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Self, TypeVar

import msgspec

from toolhall.model.call_records import (
    CALL_STAGES,
    CALL_VERDICTS,
    OUTCOME_GROUPS,
    AuditRecord,
    CallStage,
    CallVerdict,
    outcome_kind,
)
from toolhall.model.json import encode

FILTER_NAMES = (
    "caller",
    "tool",
    "outcome",
    "stage",
    "verdict",
    "grant",
    "call",
    "level",
    "dialect",
    "server",
    "since",
    "until",
)
MAX_PATTERNS = 20
MAX_FILTER_CHARS = 1_024


def is_about_tool(record: AuditRecord, tool: str) -> bool:
    """True if a record is about this tool id, or about any version of this `Toolkit.tool`."""
    if record.tool == tool:
        return True
    version = record.tool.removeprefix(f"{tool}@")
    return version != record.tool and "@" not in version  # a version has no `@`, but a name may


def json_fragment(text: str) -> bytes:
    """Return the text as it is encoded in a line, without quotes."""
    return encode(text)[1:-1]


class TextFilter(msgspec.Struct, frozen=True):
    """A glob, or several separated by commas."""

    text: str
    patterns: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the filter of a text; the patterns are its parts."""
        return cls(text, tuple(part for part in (each.strip() for each in text.split(",")) if part))

    def matches(self, value: str | None) -> bool:
        """True if the value is the text, or any pattern matches it."""
        if value is None:
            return False
        return value == self.text or any(fnmatchcase(value, pattern) for pattern in self.patterns)

    def fragments(self) -> tuple[bytes, ...]:
        """Return byte strings one of which every matching line contains; none if no such are known."""
        literals = [max(re.split("[*?]", pattern.partition("[")[0]), key=len) for pattern in self.patterns]
        if not all(literals):
            return ()
        return tuple(dict.fromkeys(map(json_fragment, (*literals, self.text))))


class ToolFilter(TextFilter, frozen=True):
    """A TextFilter of tools, whose patterns also match without the version: `Mail.*`, `Mail.send`."""

    def matches(self, value: str | None) -> bool:
        """True if any pattern matches the id, or the id without its version."""
        if value is None:
            return False
        name, at, version = value.rpartition("@")
        unversioned = name if at and version else value
        return super().matches(value) or super().matches(unversioned)


class OutcomeFilter(TextFilter, frozen=True):
    """A TextFilter of outcomes, which may name a group of them: `refused`, `failed` or `asked`."""

    def matches(self, value: str | None) -> bool:
        """True if any pattern matches the outcome, or names its group."""
        return value is not None and (super().matches(value) or outcome_kind(value) in self.patterns)

    def fragments(self) -> tuple[bytes, ...]:
        """Return what lines must contain; unknown for groups."""
        return () if OUTCOME_GROUPS & set(self.patterns) else super().fragments()


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a search; None matches everything."""

    caller: TextFilter | None = None
    tool: ToolFilter | None = None
    outcome: OutcomeFilter | None = None
    stage: frozenset[CallStage] | None = None
    verdict: frozenset[CallVerdict] | None = None
    grant: TextFilter | None = None
    call: str | None = None
    level: int | None = None  # minimum
    dialect: TextFilter | None = None
    server: TextFilter | None = None
    since: float | None = None
    until: float | None = None  # exclusive

    def matches(self, record: AuditRecord) -> bool:
        """True if the record passes all filters."""
        return (
            (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
            and (self.level is None or (record.level is not None and record.level >= self.level))
            and self.call in (None, record.call)
            and (self.stage is None or record.stage in self.stage)
            and (self.verdict is None or record.verdict in self.verdict)
            and (self.caller is None or self.caller.matches(record.caller))
            and (self.tool is None or self.tool.matches(record.tool))
            and (self.outcome is None or self.outcome.matches(record.outcome))
            and (self.grant is None or self.grant.matches(record.grant))
            and (self.dialect is None or self.dialect.matches(record.dialect))
            and (self.server is None or self.server.matches(record.server))
        )

    def fragments(self) -> tuple[tuple[bytes, ...], ...]:
        """Return alternatives: every matching line contains one byte string of each."""
        texts = (self.caller, self.tool, self.outcome, self.grant, self.dialect, self.server)
        found = [text.fragments() for text in texts if text is not None]
        if self.call is not None:
            found.append((json_fragment(self.call),))
        if self.stage is not None:
            found.append(tuple(b'"stage":"%b"' % stage.encode() for stage in self.stage))
        if self.verdict is not None:
            found.append(tuple(b'"verdict":"%b"' % verdict.encode() for verdict in self.verdict))
        return tuple(filter(None, found))


MATCH_ALL = AuditQuery()
FilterT = TypeVar("FilterT", bound=TextFilter)
WordT = TypeVar("WordT", CallStage, CallVerdict)


class InvalidQuery(ValueError):
    """A filter is malformed; the message names the expected form."""


def parse_query(filters: Mapping[str, str | None]) -> AuditQuery:
    """Parse filters given as text; raises InvalidQuery."""
    level = filters.get("level")
    if level is not None and not (level.isascii() and level.isdigit() and len(level) <= 2 and int(level) <= 10):
        raise InvalidQuery("level is a number from 0 to 10")
    return AuditQuery(
        caller=_text("caller", filters, TextFilter),
        tool=_text("tool", filters, ToolFilter),
        outcome=_text("outcome", filters, OutcomeFilter),
        stage=_words("stage", filters, CALL_STAGES),
        verdict=_words("verdict", filters, CALL_VERDICTS),
        grant=_text("grant", filters, TextFilter),
        call=filters.get("call"),
        level=None if level is None else int(level),
        dialect=_text("dialect", filters, TextFilter),
        server=_text("server", filters, TextFilter),
        since=_seconds("since", filters.get("since")),
        until=_seconds("until", filters.get("until")),
    )


def _text(name: str, filters: Mapping[str, str | None], kind: type[FilterT]) -> FilterT | None:
    text = filters.get(name)
    if text is None:
        return None
    found = kind.of(text)
    if len(text) > MAX_FILTER_CHARS or len(found.patterns) > MAX_PATTERNS:
        raise InvalidQuery(f"{name} is at most {MAX_PATTERNS} globs with at most {MAX_FILTER_CHARS} characters in all")
    return found


def _words(name: str, filters: Mapping[str, str | None], known: tuple[WordT, ...]) -> frozenset[WordT] | None:
    """Parse words separated by commas, each one of those that are known."""
    text = filters.get(name)
    if text is None:
        return None
    by_word = {str(word): word for word in known}
    words = [word.strip() for word in text.split(",")]
    if not by_word.keys() >= set(words):
        raise InvalidQuery(f"{name} is one of {', '.join(by_word)}, or several of them separated by commas")
    return frozenset(by_word[word] for word in words)


def _seconds(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise InvalidQuery(f"{name} is a day or a time, such as 2027-01-31 or 2027-01-31T08:30:00Z") from None
