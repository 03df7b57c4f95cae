"""Which versions a caller means: exact, `^1.2`, `~1.2`, `1`, or none; and which of two versions is newer."""

import re
from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from toolhall.model.names import semantic_version

Precedence: TypeAlias = tuple[bool, tuple[int, int, int], tuple[tuple[bool, int, str], ...]]
_RANGE = re.compile(r"([\^~]?)(\d{1,12})(?:\.(\d{1,12}))?(?:\.(\d{1,12}))?", re.ASCII)
_TOP = 10**13  # above every number that is read


class Wanted(msgspec.Struct, frozen=True):
    """One exact version, or every release from `least` up to but not including `below`."""

    exact: str | None = None
    least: tuple[int, int, int] = (0, 0, 0)
    below: tuple[int, int, int] = (_TOP, 0, 0)

    def accepts(self, version: str) -> bool:
        """Whether this is one of them; a range means releases only."""
        if self.exact is not None:
            return version == self.exact
        numbers, mark = _parts(version)
        return not mark and self.least <= numbers < self.below


NEWEST = Wanted()


def wanted(text: str | None) -> Wanted:
    """What a caller asks for; a text that is no range is an exact version."""
    if text is None:
        return NEWEST
    found = _RANGE.fullmatch(text)
    if found is None or (not found[1] and found[4] is not None):
        return Wanted(exact=text)
    sign, *parts = found.groups()
    stated = [int(part) for part in parts if part is not None]
    least = (*stated, 0, 0)[:3]
    return Wanted(least=(least[0], least[1], least[2]), below=_below(sign, stated))


def _below(sign: str, stated: list[int]) -> tuple[int, int, int]:
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
    numbers, mark = _parts(version)
    marks = (
        tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in mark.split("."))
        if mark
        else ()
    )
    return not mark, numbers, marks


def newest(versions: Iterable[str], text: str | None = None) -> str | None:
    """The newest of these that a caller means; a pre-release only if there is nothing else, or by its exact name."""
    asked = wanted(text)
    ranked = sorted(versions, key=precedence, reverse=True)
    if text is None:
        return ranked[0] if ranked else None
    return next((version for version in ranked if asked.accepts(version)), None)


def _parts(version: str) -> tuple[tuple[int, int, int], str]:
    core, _, mark = semantic_version(version).partition("+")[0].partition("-")
    major, minor, patch = core.split(".")
    return (int(major), int(minor), int(patch)), mark
