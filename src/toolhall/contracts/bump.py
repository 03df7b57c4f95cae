"""How much a version must rise for what changed, and how much it does (semver.org, 2.0.0).

Below 1.0.0, as caret ranges read it: the first number that is not zero says what breaks. Between pre-releases nothing
is promised. Dates and counts have one number, so each one is a major version.
"""

import re
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from toolhall.contracts.changes import Change, Kind
from toolhall.model.names import semantic_version

Bump: TypeAlias = Literal["none", "patch", "minor", "major"]
BUMPS: tuple[Bump, ...] = ("none", "patch", "minor", "major")
_DEMANDED: dict[Kind, Bump] = {"fix": "patch", "feature": "minor", "breaking": "major"}
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_READABLE = re.compile(r"\d", re.ASCII)


class Version(msgspec.Struct, frozen=True, order=True):
    """A version that can be compared: its numbers, whether it is released, and the marks of a pre-release."""

    numbers: tuple[int, ...]
    released: bool
    marks: tuple[tuple[bool, int, str], ...] = ()


def required(changes: Iterable[Change]) -> Bump:
    """The bump that these changes demand."""
    demanded = {_DEMANDED[change.kind] for change in changes}
    for bump in reversed(BUMPS):
        if bump in demanded:
            return bump
    return "none"


def declared(old: str, new: str) -> Bump:
    """The bump from one version to another; a version that is not later declares none."""
    before, after = _read(old), _read(new)
    if before is None or after is None or not before < after:
        return "none"
    for bump, mine, theirs in zip(("major", "minor"), before.numbers, after.numbers, strict=False):
        if mine != theirs:
            return "major" if bump == "major" else "minor"
    return "patch"


def enough(demanded: Bump, old: str, new: str) -> bool:
    """Whether a version rises as much as it must."""
    before, rise = _read(old), declared(old, new)
    if demanded == "none":
        return True
    if rise == "none" or before is None:
        return False
    return not before.released or BUMPS.index(rise) >= BUMPS.index(_eased(demanded, before))


def next_version(demanded: Bump, old: str) -> str:
    """The lowest version that rises enough, without a pre-release."""
    before = _read(old)
    if before is None:
        return "1.0.0"
    major, minor, patch = before.numbers
    if not before.released or demanded == "none":
        return f"{major}.{minor}.{patch}"
    match _eased(demanded, before):
        case "major":
            return f"{major + 1}.0.0"
        case "minor":
            return f"{major}.{minor + 1}.0"
        case _:
            return f"{major}.{minor}.{patch + 1}"


def precedence(version: str) -> Version:
    """Something to order versions by; what is no version comes first."""
    return _read(version) or Version((), released=False)


def _eased(demanded: Bump, before: Version) -> Bump:
    """Before 1.0.0 everything counts one place further right, before 0.1.0 two."""
    steps = 2 if before.numbers[:2] == (0, 0) else 1 if before.numbers[0] == 0 else 0
    return BUMPS[max(1, BUMPS.index(demanded) - steps)]


def _read(version: str) -> Version | None:
    if not _READABLE.match(version):
        return None
    full = semantic_version(_DATE.sub(r"\1\2\3", version) if _DATE.fullmatch(version) else version).partition("+")[0]
    core, dash, marks = full.partition("-")
    return Version(tuple(map(int, core.split("."))), not dash, tuple(map(_mark, marks.split("."))) if dash else ())


def _mark(text: str) -> tuple[bool, int, str]:
    """Numbers come before words, and are compared as numbers."""
    return (False, int(text), "") if text.isdigit() else (True, 0, text)
