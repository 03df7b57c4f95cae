"""Changes by kind (DefinitionChange: breaking, feature, fix) and the semantic version bump that they require.

semver.org 2.0.0. Below 1.0.0, as in caret ranges, the first number that is not zero is the breaking one. Between
pre-releases nothing is promised. Dates and counters have one number, so each one is a major version.
"""

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from toolhall.model.names import semantic_version

Bump: TypeAlias = Literal["none", "patch", "minor", "major"]
ChangeKind: TypeAlias = Literal["breaking", "feature", "fix"]
CHANGE_KINDS: tuple[ChangeKind, ...] = ("breaking", "feature", "fix")
BUMPS: tuple[Bump, ...] = ("none", "patch", "minor", "major")
_BUMP_FOR_KIND: dict[ChangeKind, Bump] = {"fix": "patch", "feature": "minor", "breaking": "major"}
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_STARTS_WITH_DIGIT = re.compile(r"\d", re.ASCII)


class DefinitionChange(msgspec.Struct, frozen=True):
    """One change: callers may have to adapt (`breaking`), may use something new (`feature`), or neither (`fix`).

    `path` is a JSON pointer with MCP's member names, into the old definition or the new one.
    """

    kind: ChangeKind
    path: str
    reason: str


def sort_changes(changes: list[DefinitionChange]) -> list[DefinitionChange]:
    """Without duplicates, breaking changes first."""
    return sorted(dict.fromkeys(changes), key=lambda change: CHANGE_KINDS.index(change.kind))


def prefix_paths(prefix: str, changes: list[DefinitionChange]) -> list[DefinitionChange]:
    """The changes with a prefix before their paths."""
    return [DefinitionChange(change.kind, prefix + change.path, change.reason) for change in changes]


class SemanticVersion(msgspec.Struct, frozen=True, order=True):
    """A comparable version: its numbers, whether it is a release, and its pre-release identifiers."""

    numbers: tuple[int, ...]
    released: bool
    prerelease: tuple[tuple[bool, int, str], ...] = ()


def required_bump(changes: Iterable[DefinitionChange]) -> Bump:
    """The bump that these changes require."""
    required = {_BUMP_FOR_KIND[change.kind] for change in changes}
    for bump in reversed(BUMPS):
        if bump in required:
            return bump
    return "none"


def declared_bump(old: str, new: str) -> Bump:
    """The bump between two versions; `none` if the new one is not later."""
    before, after = _parse_version(old), _parse_version(new)
    if before is None or after is None or not before < after:
        return "none"
    for bump, old_number, new_number in zip(("major", "minor"), before.numbers, after.numbers, strict=False):
        if old_number != new_number:
            return "major" if bump == "major" else "minor"
    return "patch"


def is_sufficient(required: Bump, old: str, new: str) -> bool:
    """True if the declared bump is at least the required one."""
    before, declared = _parse_version(old), declared_bump(old, new)
    if required == "none":
        return True
    if declared == "none" or before is None:
        return False
    return not before.released or BUMPS.index(declared) >= BUMPS.index(_relaxed_bump(required, before))


def next_version(required: Bump, old: str) -> str:
    """The lowest sufficient version that is not a pre-release."""
    before = _parse_version(old)
    if before is None:
        return "1.0.0"
    major, minor, patch = before.numbers
    if not before.released or required == "none":
        return f"{major}.{minor}.{patch}"
    match _relaxed_bump(required, before):
        case "major":
            return f"{major + 1}.0.0"
        case "minor":
            return f"{major}.{minor + 1}.0"
        case _:
            return f"{major}.{minor}.{patch + 1}"


def precedence(version: str) -> SemanticVersion:
    """The sort key of a version; anything that is no version sorts first."""
    return _parse_version(version) or SemanticVersion((), released=False)


def _relaxed_bump(required: Bump, before: SemanticVersion) -> Bump:
    """Below 1.0.0 a lower bump suffices by one step, below 0.1.0 by two."""
    steps = 2 if before.numbers[:2] == (0, 0) else 1 if before.numbers[0] == 0 else 0
    return BUMPS[max(1, BUMPS.index(required) - steps)]


def _parse_version(version: str) -> SemanticVersion | None:
    if not _STARTS_WITH_DIGIT.match(version):
        return None
    full = semantic_version(_DATE.sub(r"\1\2\3", version) if _DATE.fullmatch(version) else version).partition("+")[0]
    core, dash, identifiers = full.partition("-")
    return SemanticVersion(
        tuple(map(int, core.split("."))),
        not dash,
        tuple(map(_prerelease_identifier, identifiers.split("."))) if dash else (),
    )


def _prerelease_identifier(text: str) -> tuple[bool, int, str]:
    """Numeric identifiers sort before words, and numerically."""
    return (False, int(text), "") if text.isdigit() else (True, 0, text)
