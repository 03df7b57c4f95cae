"""What may be done with a registered tool in which state, and what it is then."""

from typing import Literal, TypeAlias

from toolhall.model.errors import Malformed
from toolhall.stores.base import Kept, State, What

Action: TypeAlias = Literal["activate", "deactivate"]

_AFTER: dict[Action, tuple[frozenset[State], State, What]] = {
    "activate": (frozenset({"registered", "quarantined", "inactive"}), "active", "activated"),
    # What is quarantined stays so: an inactive tool has been looked at, so that it may be activated unseen.
    "deactivate": (frozenset({"registered", "active"}), "inactive", "deactivated"),
}


def after(action: Action, kept: Kept) -> tuple[State, What]:
    """The state after an action, and what it is called in the tool's history; Malformed if it cannot be done."""
    allowed, state, what = _AFTER[action]
    # To activate what was deprecated takes that back.
    if kept.state not in allowed and not (action == "activate" and kept.deprecated_at is not None):
        raise Malformed(f"{kept.id} is {kept.state} already; there is nothing to {action}")
    return state, what


def refuse_unseen(kept: Kept, seen: str | None) -> None:
    """Raise Malformed unless whoever activates what was quarantined has looked at exactly this document."""
    if kept.state == "quarantined" and seen != kept.document_digest:
        raise Malformed(
            f"{kept.id} is quarantined: look at its text and its findings first ('toolhall tool show {kept.id}'), "
            "and say which text you saw by its document digest"
        )
