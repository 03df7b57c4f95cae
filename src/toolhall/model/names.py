"""Tool ids (`Toolkit.tool@1.2.0`): names, globs, confusable names, semantic versions and their ranges."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TypeAlias

import msgspec

MAX_NAME_LENGTH = 64  # OpenAI, Anthropic and Gemini refuse longer tool names.
# Patterns are used with fullmatch, never with `$`, which would accept a trailing newline.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_META_LABEL = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_META_NAME = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_PUBLISHED_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_INVALID_IN_OXP_ID = re.compile(r"[^A-Za-z0-9_]")

# Confusables: letters of other scripts that most typefaces draw like a Latin one.
_CYRILLIC = dict(zip("авекмнорстухѕіјԛԝьгһԁӏ", "abekmhopctyxsijqwbrhdl", strict=True))
_GREEK = dict(zip("αβγεηικνορτυχωϲϳ", "abyenikvoptuxwcj", strict=True))
_OTHER = dict(zip("ɑɡıȷոսցօհӏᴏᴠᴡᴢⅼ", "agijnugohlovwzl", strict=True))
_DASHES = dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")  # noqa: RUF001 - confusables on purpose
_DOTS = dict.fromkeys("․·・｡。", ".")  # noqa: RUF001
_TO_LATIN = str.maketrans(_CYRILLIC | _GREEK | _OTHER | _DASHES | _DOTS)
_INVISIBLE_CATEGORIES = ("Cf", "Mn", "Me", "Cc")

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


class ToolId(msgspec.Struct, frozen=True, order=True):
    """The internal id of one version of one tool."""

    toolkit: str
    tool: str
    version: str

    def __str__(self) -> str:
        return f"{self.toolkit}.{self.tool}@{self.version}"


SEARCH_TOOL = ToolId("Toolhall", "search_tools", "1.0.0")  # the built-in search tool
READ_TOOL = ToolId("Resources", "read", "1.0.0")  # the built-in tool that reads resources


def name_problem(part: object) -> str | None:
    """Why this is not a valid name of a toolkit or tool, or None."""
    if isinstance(part, str) and _NAME.fullmatch(part):
        return None
    return f"{part!r} is not a name: use 1 to 64 of the letters A-Z a-z, digits, _ and -"


def published_name_problem(name: str) -> str | None:
    """Why this is not a valid published name, or None (MCP's rules for tool names)."""
    if _PUBLISHED_NAME.fullmatch(name):
        return None
    return f"{name!r} cannot be published: use 1 to 128 of the letters A-Z a-z, digits, _ . and -"


def meta_key_problem(key: str) -> str | None:
    """Why this is not a valid metadata key, or None (MCP: a key may have a prefix, some prefixes are reserved)."""
    prefix, slash, name = key.rpartition("/")
    labels = prefix.split(".") if slash else []
    if not _META_NAME.fullmatch(name) or not all(_META_LABEL.fullmatch(label) for label in labels):
        return f"{key!r} is not a metadata key: write a name such as 'color', or 'com.example/color'"
    if len(labels) > 1 and labels[1] in ("mcp", "modelcontextprotocol"):
        return f"{key!r} has a prefix that is reserved for MCP; use one of your own"
    return None


def safe_name(name: str) -> str:
    """A valid published name: the name itself, or with invalid characters replaced and a hash of the original."""
    if _PUBLISHED_NAME.fullmatch(name) and len(name) <= MAX_NAME_LENGTH:
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return f"{cleaned[: MAX_NAME_LENGTH - 9]}_{digest}"


def qualified_name(toolkit: str, tool: str) -> str:
    """`Toolkit_tool`, unchecked; a tool without a toolkit has the same name for both, and is just that name."""
    return tool if tool == toolkit else f"{toolkit}_{tool}"


def published_name(toolkit: str, tool: str) -> str:
    """The default published name: `Toolkit_tool`, made valid by `safe_name`."""
    return safe_name(qualified_name(toolkit, tool))


def with_published_name(tool_id: ToolId, name: str) -> ToolId:
    """The id that corresponds to another published name: the toolkit and the version stay.

    A tool without a toolkit has the same name for both, so both change.
    """
    if tool_id.toolkit == tool_id.tool:
        return ToolId(name, name, tool_id.version)
    return ToolId(tool_id.toolkit, name.removeprefix(f"{tool_id.toolkit}_") or name, tool_id.version)


def oxp_id_part(text: str) -> str:
    """The name of a toolkit or tool with the characters that an OXP id allows."""
    return _INVALID_IN_OXP_ID.sub("_", text) or "_"


def oxp_version(version: str) -> str:
    """The version as OXP's three numbers: a date or counter gets zeros, a pre-release loses its suffix."""
    return semantic_version(version).partition("+")[0].partition("-")[0]


def matches_any(globs: Iterable[str], tool_id: str) -> bool:
    """Whether any glob matches a tool's id; a glob without a version matches all versions."""
    unversioned = tool_id.partition("@")[0]
    return any(fnmatchcase(tool_id, glob) or fnmatchcase(unversioned, glob) for glob in globs)


def skeleton(name: str) -> str:
    """A key that is equal for confusable names: case, accents, width and script do not matter (as in Unicode TR 39)."""
    if name.isascii():
        return name.casefold()
    latin = unicodedata.normalize("NFKD", name).casefold().translate(_TO_LATIN)
    return "".join(letter for letter in latin if unicodedata.category(letter) not in _INVISIBLE_CATEGORIES)


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
