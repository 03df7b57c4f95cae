"""What may be done with a registered tool in which state, and what it is then."""

from typing import Literal, TypeAlias

from toolhall.model.errors import Malformed
from toolhall.stores.base import Kept, State, What

Action: TypeAlias = Literal["activate", "deactivate"]

_AFTER: dict[Action, tuple[frozenset[State], State, What]] = {
    "activate": (frozenset({"registered", "quarantined", "inactive"}), "active", "activated"),
    "deactivate": (frozenset({"registered", "quarantined", "active"}), "inactive", "deactivated"),
}


def after(action: Action, kept: Kept) -> tuple[State, What]:
    """The state after an action, and what it is called in the tool's history; Malformed if it cannot be done."""
    allowed, state, what = _AFTER[action]
    if kept.state not in allowed:
        raise Malformed(f"{kept.id} is {kept.state} already; there is nothing to {action}")
    return state, what
