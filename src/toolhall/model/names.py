"""Tool ids (`Toolkit.tool@1.2.0`), published names, glob matching and confusable-name detection."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from fnmatch import fnmatchcase

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


class ToolId(msgspec.Struct, frozen=True, order=True):
    """The internal id of one version of one tool."""

    toolkit: str
    tool: str
    version: str

    def __str__(self) -> str:
        return f"{self.toolkit}.{self.tool}@{self.version}"


SEARCH_TOOL = ToolId("Toolhall", "search_tools", "1.0.0")  # the built-in search tool


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
