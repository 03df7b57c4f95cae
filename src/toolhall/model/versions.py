"""Semantic versions: validation, precedence, and the ranges `^1.2`, `~1.2` and `1` (VersionRange)."""

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

DEFAULT_VERSION = "0.1.0"
_NUMBER = r"(?:0|[1-9]\d*)"
_PRERELEASE = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(  # semver.org, 2.0.0
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRERELEASE}(?:\.{_PRERELEASE})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LEADING_NUMBERS = re.compile(r"(\d{1,12})(?:\.(\d{1,12}))?(?:\.(\d{1,12}))?", re.ASCII)


def version_problem(version: object) -> str | None:
    """Why this is not a semantic version, or None."""
    if isinstance(version, str) and _VERSION.fullmatch(version):
        return None
    return f"{version!r} is not a semantic version: write three numbers such as '1.2.0'"


def semantic_version(version: str) -> str:
    """The nearest semantic version: as it is, or its leading numbers filled up with zeros (`7` becomes `7.0.0`)."""
    if _VERSION.fullmatch(version):
        return version
    found = _LEADING_NUMBERS.match(version)
    numbers = [int(part or 0) for part in found.groups()] if found else [0, 1, 0]
    return ".".join(map(str, numbers))


Precedence: TypeAlias = tuple[bool, tuple[int, int, int], tuple[tuple[bool, int, str], ...]]
_RANGE = re.compile(r"([\^~]?)(\d{1,12})(?:\.(\d{1,12}))?(?:\.(\d{1,12}))?", re.ASCII)
_UNBOUNDED = 10**13  # above every number that is read


class VersionRange(msgspec.Struct, frozen=True):
    """One exact version, or every release from `least` up to but not including `below`."""

    exact: str | None = None
    lower: tuple[int, int, int] = (0, 0, 0)
    upper: tuple[int, int, int] = (_UNBOUNDED, 0, 0)

    def accepts(self, version: str) -> bool:
        """Whether this is one of them; a range means releases only."""
        if self.exact is not None:
            return version == self.exact
        numbers, mark = _split_version(version)
        return not mark and self.lower <= numbers < self.upper


ANY_VERSION = VersionRange()


def parse_version_range(text: str | None) -> VersionRange:
    """What a caller asks for; a text that is no range is an exact version."""
    if text is None:
        return ANY_VERSION
    found = _RANGE.fullmatch(text)
    if found is None or (not found[1] and found[4] is not None):
        return VersionRange(exact=text)
    sign, *parts = found.groups()
    stated = [int(part) for part in parts if part is not None]
    least = (*stated, 0, 0)[:3]
    return VersionRange(lower=(least[0], least[1], least[2]), upper=_upper_bound(sign, stated))


def _upper_bound(sign: str, stated: list[int]) -> tuple[int, int, int]:
    """`^` keeps the leftmost number that is not zero, `~` the minor one if there is one; without a sign all stated."""
    keep = 1
    if sign == "^":
        keep = next((place for place, number in enumerate(stated, 1) if number), len(stated))
    elif sign == "~":
        keep = min(2, len(stated))
    else:
        keep = len(stated)
    kept = stated[:keep]
    kept[-1] += 1
    filled = (*kept, 0, 0)
    return filled[0], filled[1], filled[2]


def precedence(version: str) -> Precedence:
    """Semantic version order, with every pre-release below every release."""
    numbers, mark = _split_version(version)
    marks = (
        tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in mark.split("."))
        if mark
        else ()
    )
    return not mark, numbers, marks


def newest_version(versions: Iterable[str], wanted: str | None = None) -> str | None:
    """The newest of these that a caller means; a pre-release only if there is nothing else, or by its exact name."""
    asked = parse_version_range(wanted)
    ranked = sorted(versions, key=precedence, reverse=True)
    if wanted is None:
        return ranked[0] if ranked else None
    return next((version for version in ranked if asked.accepts(version)), None)


def _split_version(version: str) -> tuple[tuple[int, int, int], str]:
    core, _, mark = semantic_version(version).partition("+")[0].partition("-")
    major, minor, patch = core.split(".")
    return (int(major), int(minor), int(patch)), mark
