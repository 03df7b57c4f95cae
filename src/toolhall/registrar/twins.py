"""Refuses definitions whose names could be taken for those of other tools."""

from collections import Counter
from collections.abc import Sequence

from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.tool import Tool
from toolhall.registry.names import Claims, key_of, twin_problem

RULE = "name/confusable"


def refuse_twins_within(tools: Sequence[Tool]) -> None:
    """Raise BadDocument if tools of one document differ only in upper and lower case."""
    counted = Counter(tool.id.tool.casefold() for tool in tools)
    twice = sorted(tool.id.tool for tool in tools if counted[tool.id.tool.casefold()] > 1)
    if twice:
        what = f"these names differ only in upper and lower case: {', '.join(twice[:8])}; rename all but one"
        raise BadDocument([Finding("", RULE, what)])


def refuse_twins(tools: Sequence[Tool], known: Claims) -> None:
    """Raise BadDocument if one of these has a name that looks like another tool's, or is the same in some dialect."""
    for tool in tools:
        other = known.other(tool)
        if other is not None:
            raise BadDocument([Finding("", RULE, twin_problem(tool, other))])


def refuse_lookalikes(tools: Sequence[Tool], own: Claims) -> None:
    """As `refuse_twins`, beside the operator's own code: one that differs in case only may be registered there.

    It is refused when it should be served.
    """
    refuse_twins([tool for tool in tools if not _differs_in_case_only(tool, own)], own)


def _differs_in_case_only(tool: Tool, own: Claims) -> bool:
    other = own.other(tool)
    return other is not None and other.rpartition("@")[0].casefold() == key_of(tool).casefold()
