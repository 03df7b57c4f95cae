"""Lint rule types (Rule, ToolRule, SchemaRule, TextRule): an id, a summary, a fix, and the check itself."""

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from toolhall.dialects.findings import Finding
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool


class LintedTool(msgspec.Struct, frozen=True):
    """A tool, its source dialect, and its name as written there."""

    tool: Tool
    dialect: str
    written_name: str


class Violation(msgspec.Struct, frozen=True):
    """Where a rule is violated, as a pointer into the model, and the details."""

    path: str
    detail: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: `summary` says what is wrong, `fix` what to do."""

    id: str
    summary: str
    fix: str
    severity: Literal["error", "warning"] = "warning"

    def finding(self, path: str, detail: str = "") -> Finding:
        """A finding for one violation."""
        return Finding(path, self.id, f"{self.fix} ({detail})" if detail else self.fix, self.severity)


class ToolRule(Rule, frozen=True, kw_only=True):
    """A rule about a tool of the model."""

    check: Callable[[LintedTool], Iterator[Violation]]


class SchemaRule(Rule, frozen=True, kw_only=True):
    """A rule about each schema object of an input schema."""

    check: Callable[[str, JsonObject], Iterator[Violation]]


class TextRule(Rule, frozen=True, kw_only=True):
    """A rule about every string in a document, because a model may read any of them."""

    breaks: Callable[[str], bool]
