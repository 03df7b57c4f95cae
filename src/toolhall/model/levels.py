"""The level that counts for a tool: never less than what it states, what it does, and what the operator says."""

from collections.abc import Mapping

from toolhall.model.globs import means
from toolhall.model.tool import LEVELS, Tool

UNSTATED = 1  # for the operator's own code
FOREIGN = 4  # for what comes from outside and states none: never less than an authorized caller

AUTHENTICATED_FROM = 1  # seed: 0 asks nothing, 1-3 authentication,
GRANTED_FROM = 4  # 4-7 authorization,
STEP_UP_FROM = 8  # 8-10 additional verification: again, within minutes;
APPROVAL_FROM = 9  # of this exact call;
SECOND_FROM = 10  # by another person
NEVER = LEVELS.stop


def stated_level(tool: Tool) -> int:
    """What the definition says; silence is never written back, and is not 0."""
    if tool.level is not None:
        return tool.level
    return FOREIGN if tool.foreign else UNSTATED


def level_of(tool: Tool, overrides: Mapping[str, int] | None = None) -> int:
    """The highest of what it states, what its traits demand, and what the operator says of tools like it."""
    raised = [level for glob, level in (overrides or {}).items() if means((glob,), str(tool.id))]
    return max(stated_level(tool), _traits(tool), *raised, 0)


def _traits(tool: Tool) -> int:
    """What a publisher may not play down: credentials, a user's name, and effects that cannot be undone."""
    needs, notes = tool.requirements or {}, tool.annotations
    harmful = tool.effect == "destroys" or (notes is not None and notes.destructive is True)
    if needs.get("authorization") or needs.get("secrets") or harmful:
        return GRANTED_FROM
    if notes is not None and notes.open_world is True and tool.foreign:
        return GRANTED_FROM
    return 2 if needs.get("user_id") else 0
