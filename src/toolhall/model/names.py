"""Names and versions: the tool id `Toolkit.tool@1.2.0` and the name published to models."""

import hashlib
import re

import msgspec

DEFAULT_VERSION = "0.1.0"
NAME_LIMIT = 64  # OpenAI, Anthropic and Gemini refuse longer tool names.
# fullmatch, never `$`: `$` would let a trailing newline through.
_PART = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMBER = r"(?:0|[1-9]\d*)"
_MARK = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(  # semver.org, 2.0.0
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_MARK}(?:\.{_MARK})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?", re.ASCII
)
_NUMBERS = re.compile(r"(\d{1,12})(?:\.(\d{1,12}))?(?:\.(\d{1,12}))?", re.ASCII)
_META_LABEL = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_META_NAME = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_PUBLISHED = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ToolId(msgspec.Struct, frozen=True, order=True):
    """The only internal name of one version of one tool."""

    toolkit: str
    tool: str
    version: str

    def __str__(self) -> str:
        return f"{self.toolkit}.{self.tool}@{self.version}"


SEARCH_TOOL = ToolId("Toolhall", "search_tools", "1.0.0")  # the tool that finds tools


def name_problem(part: object) -> str | None:
    """Why this cannot be a toolkit's or a tool's name, or None."""
    if isinstance(part, str) and _PART.fullmatch(part):
        return None
    return f"{part!r} is not a name: use 1 to 64 of the letters A-Z a-z, digits, _ and -"


def published_problem(name: str) -> str | None:
    """Why this cannot be published to MCP clients, or None."""
    if _PUBLISHED.fullmatch(name):
        return None
    return f"{name!r} cannot be published: use 1 to 128 of the letters A-Z a-z, digits, _ . and -"


def version_problem(version: object) -> str | None:
    """Why this is not a semantic version, or None."""
    if isinstance(version, str) and _VERSION.fullmatch(version):
        return None
    return f"{version!r} is not a semantic version: write three numbers such as '1.2.0'"


def semantic_version(version: str) -> str:
    """The nearest semantic version: as it is, or its leading numbers filled up with zeros (`7` becomes `7.0.0`)."""
    if _VERSION.fullmatch(version):
        return version
    found = _NUMBERS.match(version)
    numbers = [int(part or 0) for part in found.groups()] if found else [0, 1, 0]
    return ".".join(map(str, numbers))


def meta_problem(key: str) -> str | None:
    """Why this cannot be a key of a tool's metadata, or None (MCP: names may carry a prefix, some are reserved)."""
    prefix, slash, name = key.rpartition("/")
    labels = prefix.split(".") if slash else []
    if not _META_NAME.fullmatch(name) or not all(_META_LABEL.fullmatch(label) for label in labels):
        return f"{key!r} is not a metadata key: write a name such as 'color', or 'com.example/color'"
    if len(labels) > 1 and labels[1] in ("mcp", "modelcontextprotocol"):
        return f"{key!r} has a prefix that MCP keeps to itself; use one of your own"
    return None


def safe_name(name: str) -> str:
    """A name that can be published: itself, or with other characters replaced and a stable hash of the original."""
    if _PUBLISHED.fullmatch(name) and len(name) <= NAME_LIMIT:
        return name
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return f"{plain[: NAME_LIMIT - 9]}_{digest}"


def whole_name(toolkit: str, tool: str) -> str:
    """What a tool is called together with its toolkit, whatever that holds; a tool without a toolkit is one itself."""
    return tool if tool == toolkit else f"{toolkit}_{tool}"


def published_name(toolkit: str, tool: str) -> str:
    """The name that is published: `Toolkit_tool`, changed as `safe_name` does where it could not be."""
    return safe_name(whole_name(toolkit, tool))


def renamed(known: ToolId, name: str) -> ToolId:
    """The id of a tool that somebody gave another published name: its toolkit and version stay.

    A tool without a toolkit is one itself, so both get the name.
    """
    if known.toolkit == known.tool:
        return ToolId(name, name, known.version)
    return ToolId(known.toolkit, name.removeprefix(f"{known.toolkit}_") or name, known.version)
