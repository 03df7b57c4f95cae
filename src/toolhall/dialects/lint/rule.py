"""Lint rule types (Rule, ToolRule, SchemaRule, TextRule): an id, a summary, a fix, and the check itself."""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from toolhall.dialects.findings import Finding
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool


class LintedTool(msgspec.Struct, frozen=True):
    """A tool, the dialect it was written in, and its name as it was written there."""

    tool: Tool
    dialect: str
    written_name: str


class Violation(msgspec.Struct, frozen=True):
    """Where a rule is broken, as a pointer into the model, and what exactly is meant."""

    path: str
    detail: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule; the sentence says what is wrong, the fix what to do."""

    id: str
    summary: str
    fix: str
    severity: Literal["error", "warning"] = "warning"

    def finding(self, path: str, detail: str = "") -> Finding:
        """One place where it is broken."""
        return Finding(path, self.id, f"{self.fix} ({detail})" if detail else self.fix, self.severity)


class ToolRule(Rule, frozen=True, kw_only=True):
    """A rule about a tool as it is understood."""

    check: Callable[[LintedTool], Iterator[Violation]]


class SchemaRule(Rule, frozen=True, kw_only=True):
    """A rule about each schema object in an input schema."""

    check: Callable[[str, JsonObject], Iterator[Violation]]


class TextRule(Rule, frozen=True, kw_only=True):
    """A rule about every text of a document, wherever it stands: a model may get to read any of them."""

    breaks: Callable[[str], bool]
