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


Precedence: TypeAlias = tuple[bool, tuple[int, int, int], tuple[tuple[bool, int, str], ...]]
_RANGE = re.compile(r"([\^~]?)(\d{1,12})(?:\.(\d{1,12}))?(?:\.(\d{1,12}))?", re.ASCII)
_UNBOUNDED = 10**13  # above every number that the patterns accept


class VersionRange(msgspec.Struct, frozen=True):
    """One exact version, or every release from `lower` up to but not including `upper`."""

    exact: str | None = None
    lower: tuple[int, int, int] = (0, 0, 0)
    upper: tuple[int, int, int] = (_UNBOUNDED, 0, 0)

    def accepts(self, version: str) -> bool:
        """Whether a version is in the range; only `exact` accepts a pre-release."""
        if self.exact is not None:
            return version == self.exact
        numbers, prerelease = _split_version(version)
        return not prerelease and self.lower <= numbers < self.upper


ANY_VERSION = VersionRange()


def version_problem(version: object) -> str | None:
    """Why this is not a semantic version (semver.org 2.0.0), or None."""
    if isinstance(version, str) and _VERSION.fullmatch(version):
        return None
    return f"{version!r} is not a semantic version: write three numbers such as '1.2.0'"


def semantic_version(version: str) -> str:
    """The nearest semantic version: the same, or its leading numbers padded with zeros (`7` becomes `7.0.0`)."""
    if _VERSION.fullmatch(version):
        return version
    match = _LEADING_NUMBERS.match(version)
    numbers = [int(part or 0) for part in match.groups()] if match else [0, 1, 0]
    return ".".join(map(str, numbers))


def parse_version_range(text: str | None) -> VersionRange:
    """Parse `^1.2`, `~1.2`, `1` or `1.2` as a range, None as any version, and any other text as an exact version."""
    if text is None:
        return ANY_VERSION
    match = _RANGE.fullmatch(text)
    if match is None or (not match[1] and match[4] is not None):
        return VersionRange(exact=text)
    sign, *parts = match.groups()
    numbers = [int(part) for part in parts if part is not None]
    lower = (*numbers, 0, 0)[:3]
    return VersionRange(lower=(lower[0], lower[1], lower[2]), upper=_upper_bound(sign, numbers))


def _upper_bound(sign: str, numbers: list[int]) -> tuple[int, int, int]:
    """Increment the last fixed number: for `^` the leftmost non-zero one, for `~` the minor one, else the last one."""
    if sign == "^":
        fixed = next((count for count, number in enumerate(numbers, 1) if number), len(numbers))
    elif sign == "~":
        fixed = min(2, len(numbers))
    else:
        fixed = len(numbers)
    bound = numbers[:fixed]
    bound[-1] += 1
    padded = (*bound, 0, 0)
    return padded[0], padded[1], padded[2]


def precedence(version: str) -> Precedence:
    """A sort key in semantic version order, except that every pre-release is below every release."""
    numbers, prerelease = _split_version(version)
    identifiers = prerelease.split(".") if prerelease else []
    keys = tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in identifiers)
    return not prerelease, numbers, keys


def newest_version(versions: Iterable[str], wanted: str | None = None) -> str | None:
    """The newest version in the wanted range; without a range, a pre-release only if there is no release."""
    version_range = parse_version_range(wanted)
    ranked = sorted(versions, key=precedence, reverse=True)
    if wanted is None:
        return ranked[0] if ranked else None
    return next((version for version in ranked if version_range.accepts(version)), None)


def _split_version(version: str) -> tuple[tuple[int, int, int], str]:
    core, _, prerelease = semantic_version(version).partition("+")[0].partition("-")
    major, minor, patch = core.split(".")
    return (int(major), int(minor), int(patch)), prerelease
