"""Which tools a dialect can say at all: OpenAI's strict mode would change what some of them accept."""

from collections.abc import Sequence

import msgspec

from toolhall.dialects.findings import BadDocument
from toolhall.dialects.written import written_in
from toolhall.model.tool import Tool


class Unsayable(msgspec.Struct, frozen=True):
    """A tool that the dialect would change, and every reason."""

    tool: str
    reasons: list[str]


def partition(dialect: str, tools: Sequence[Tool]) -> tuple[list[Tool], list[Unsayable]]:
    """The tools that can be written in a dialect, and those that cannot."""
    judged = [(tool, _reasons(dialect, tool)) for tool in tools]
    kept = [tool for tool, reasons in judged if not reasons]
    return kept, [Unsayable(tool.name, reasons) for tool, reasons in judged if reasons]


def _reasons(dialect: str, tool: Tool) -> list[str]:
    try:
        written_in(dialect, [tool])
    except BadDocument as bad:
        return [str(finding) for finding in bad.findings]
    return []
