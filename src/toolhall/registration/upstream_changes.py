"""What a changed definition of an upstream means: DefinitionVersions of one tool, its changes, and hold_for.

Theory of operation. A definition that somebody has looked at is pinned: it is what models are shown. One that the
upstream lists instead waits, quarantined, under a version of its own, which is computed from the change. While one
waits, calls of the pinned one still reach the upstream as it is now, so what may pass depends on the change:

| the change | hold | keep | follow |
|---|---|---|---|
| texts only | calls are refused | the old text stays, calls go on | active at once |
| additive | calls are refused | as above; arguments must fit both schemas | active at once |
| breaking: schema, effect, hints, requirements | calls are refused | calls are refused | refused, unless trusted |

The hold is never stored: it follows from the records and the settings, also after a restart.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from toolhall.contracts.digest import compute_digests
from toolhall.contracts.semver import DefinitionChange, next_version, required_bump
from toolhall.model.names import precedence
from toolhall.model.tool import PromptInfo, Tool
from toolhall.model.upstream import OnChange, UpstreamSettings
from toolhall.registration.active_tools import Hold
from toolhall.registration.records import IndexedTool
from toolhall.stores.tools import ToolState

HELD_MESSAGE = "its definition changed; an operator must look"
MAX_OLD_VERSIONS = 20  # of one tool, that were served once; older ones are removed
ChangeSize: TypeAlias = Literal["text", "additive", "breaking"]
_PINNED_STATES: frozenset[ToolState] = frozenset({"active", "withheld", "inactive", "registered"})


class DefinitionVersions(msgspec.Struct, frozen=True):
    """All versions of one tool of an upstream: the one that was looked at last, and the one that waits."""

    pinned: IndexedTool | None
    waiting: IndexedTool | None
    old: tuple[IndexedTool, ...]  # that were pinned once, oldest first
    stray: tuple[IndexedTool, ...]  # that waited, and something else waits now

    @classmethod
    def of(cls, versions: Iterable[IndexedTool]) -> "DefinitionVersions":
        """Sort the records of one `Toolkit.tool`."""
        ranked = sorted(versions, key=lambda each: precedence(each.record.version))
        reviewed = [each for each in ranked if each.record.state in _PINNED_STATES]
        served = [each for each in reviewed if each.record.state in ("active", "withheld")]
        pinned = next(reversed(served or reviewed), None)
        waiting = ranked[-1] if ranked and ranked[-1].record.state == "quarantined" else None
        old = tuple(each for each in reviewed if each is not pinned)
        stray = (each for each in ranked if each.record.state == "quarantined" and each is not waiting)
        return cls(pinned, waiting, old, tuple(stray))

    @property
    def newest(self) -> IndexedTool:
        """The version that was looked at last, or else the one that waits; it knows what the upstream calls it."""
        found = self.pinned or self.waiting
        if found is None:
            raise LookupError("there is no version")
        return found

    @property
    def all(self) -> tuple[IndexedTool, ...]:
        """Every version."""
        both = [each for each in (self.pinned, self.waiting) if each is not None]
        return (*self.old, *self.stray, *both)


def is_same(old: Tool, new: Tool) -> bool:
    """Whether two definitions are equal but for their version."""
    renumbered = msgspec.structs.replace(new, id=old.id, deprecation=old.deprecation)
    if old == renumbered:
        return True
    return old.upstream_name == new.upstream_name and compute_digests(old) == compute_digests(renumbered)


def stated_part(tool: Tool) -> Tool:
    """The definition without what needs nobody's look: what the operator says of it, and what its server completes."""
    resource = None if tool.resource is None else msgspec.structs.replace(tool.resource, completes=())
    prompt = None if tool.prompt is None else PromptInfo()
    return msgspec.structs.replace(tool, level=None, timeout=None, requirements=None, resource=resource, prompt=prompt)


def changes_between(old: Tool, new: Tool) -> list[DefinitionChange]:
    """What an upstream changed in a definition, breaking changes first."""
    from toolhall.contracts.release import diff  # lazy: the schema comparison; most halls never compare

    return diff(stated_part(old), stated_part(new))


def size_of(changes: Sequence[DefinitionChange]) -> ChangeSize:
    """How much of a change it is."""
    kinds = {change.kind for change in changes}
    return "breaking" if "breaking" in kinds else "additive" if "feature" in kinds else "text"


def is_served_at_once(size: ChangeSize, settings: UpstreamSettings) -> bool:
    """Whether a changed definition is served without a look."""
    return settings.on_change == "follow" and (size != "breaking" or settings.trusted)


def hold_for(pinned: Tool, waiting: Tool, on_change: OnChange) -> Hold | None:
    """What is refused of the calls of the pinned definition; None: nothing."""
    size = size_of(changes_between(pinned, waiting))
    if on_change == "hold" or size == "breaking":
        return Hold(HELD_MESSAGE)
    return None if size == "text" else Hold(next_input=waiting.input)


def version_after(old: Tool, new: Tool, taken: Iterable[str]) -> str:
    """The version for a changed definition: what its change demands, above every version that was there."""
    from toolhall.contracts.release import diff  # lazy: as above

    required = required_bump(diff(old, new))
    newest = max((old.id.version, *taken), key=precedence)
    return next_version("patch" if required == "none" else required, newest)
