"""One change between two definitions: what kind it is, where, and what it means for callers."""

from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["breaking", "feature", "fix"]
KINDS: tuple[Kind, ...] = ("breaking", "feature", "fix")


class Change(msgspec.Struct, frozen=True):
    """A caller may have to do something (`breaking`), may use something new (`feature`), or reads it otherwise (`fix`).

    `path` is a JSON pointer in MCP's spelling, into the old definition or the new one.
    """

    kind: Kind
    path: str
    reason: str


def ordered(changes: list[Change]) -> list[Change]:
    """What breaks first, each once."""
    return sorted(dict.fromkeys(changes), key=lambda change: KINDS.index(change.kind))


def under(prefix: str, changes: list[Change]) -> list[Change]:
    """The same, inside something larger."""
    return [Change(change.kind, prefix + change.path, change.reason) for change in changes]
