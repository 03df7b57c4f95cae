"""One swap of the registry: what was there and what is there now, for whoever wants to know what that changes."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

import msgspec

from toolhall.model.json import Json
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Snapshot

T = TypeVar("T")
# The order of members says nothing; 1, 1.0 and true are three values, which Python's own comparison takes for one.
_canonical = msgspec.json.Encoder(order="deterministic").encode


class Change:
    """Handed to everyone who listens; what one of them finds out about it, the others need not."""

    def __init__(self, before: Snapshot, after: Snapshot, *, of_sight: bool = False) -> None:
        self.before = before
        self.after = after
        self.of_sight = of_sight  # the tools are the same, but who sees which may not be
        self._found: dict[Hashable, Any] = {}

    def once(self, question: Hashable, find: Callable[[], T]) -> T:
        """The answer to a question about this change, found when it is first asked."""
        if question not in self._found:
            self._found[question] = find()
        answer: T = self._found[question]
        return answer


def differ(before: Mapping[str, Tool], after: Mapping[str, Tool], say: Callable[[str, Tool], Json]) -> bool:
    """Whether two lists, by name, say anything different; their order is no difference.

    Compared is what is said of the tools: the same definition compiled again is another object and no change.
    """
    if before.keys() != after.keys():
        return True
    return any(
        before[name] is not tool and _canonical(say(name, before[name])) != _canonical(say(name, tool))
        for name, tool in after.items()
    )


def changes_list(change: Change) -> bool:
    """Whether the newest versions changed, in anything that is known of them."""
    return change.once(changes_list, lambda: differ(_listed(change.before), _listed(change.after), _everything))


def _listed(snapshot: Snapshot) -> dict[str, Tool]:
    return {entry.tool.name: entry.tool for entry in snapshot.listed}


def _everything(name: str, tool: Tool) -> Json:  # noqa: ARG001 - the name is one of the things
    return tool
