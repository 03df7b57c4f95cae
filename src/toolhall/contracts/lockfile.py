"""`tools.lock`: reads, writes and compares the digests of definitions as they were when a person reviewed them.

Tools, resources, templates and prompts are in one list, because their ids are one space.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.contracts.digest import DIGEST_PREFIX, Digests, compute_digests
from toolhall.dialects.findings import BadDocument, DocumentReader, Finding, checked_json
from toolhall.dialects.mcp.catalog import id_from_name
from toolhall.dialects.mcp.definitions import read_definition, write_definition
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28
from toolhall.dialects.strict_json import duplicate_key
from toolhall.model.json import Json, JsonObject, diff_json, escape_pointer
from toolhall.model.tool import Remainder, Tool

LOCK_FORMAT = 1
Lock: TypeAlias = Mapping[str, Digests]  # by the tool's id
DriftKind: TypeAlias = Literal["added", "removed", "shown", "contract", "both"]
_DIGEST_PATTERN = re.compile(DIGEST_PREFIX + "[0-9a-f]{64}")
_DRIFT_KINDS: dict[tuple[bool, bool], DriftKind] = {
    (True, False): "shown",
    (False, True): "contract",
    (True, True): "both",
}
_FIX = "write the lock anew with 'toolhall lock'"


class Drift(msgspec.Struct, frozen=True):
    """A tool that differs from its lock, and what changed."""

    tool: str
    kind: DriftKind


class DuplicateTool(ValueError):
    """Two tools have one id; the lock would cover only one of them."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(f"two tools are called {tool}; a lock can hold one of them only")


def build_lock(tools: Iterable[tuple[str, Digests]]) -> Lock:
    """A lock of these tools; raises DuplicateTool."""
    lock: dict[str, Digests] = {}
    for tool, digests in tools:
        if tool in lock:
            raise DuplicateTool(tool)
        lock[tool] = digests
    return lock


def compare_locks(lock: Lock, current: Lock, legacy: Lock | None = None) -> list[Drift]:
    """Every tool that differs from its lock, by id; `legacy` has the digests as older locks hold them."""
    unchanged = {tool for tool, digests in (legacy or {}).items() if lock.get(tool) == digests}
    tools = sorted({*lock, *current} - unchanged)
    return [Drift(tool, kind) for tool in tools if (kind := _drift_kind(lock.get(tool), current.get(tool)))]


def lock_document(lock: Lock) -> JsonObject:
    """The lock as a JSON document, sorted by id."""
    return {"lock": LOCK_FORMAT, "tools": {tool: msgspec.to_builtins(lock[tool]) for tool in sorted(lock)}}


def write_lock(lock: Lock) -> bytes:
    """The bytes of the file: plain ASCII, so that no character in it is invisible."""
    return (json.dumps(lock_document(lock), indent=2) + "\n").encode("ascii")


def read_lock(body: bytes) -> Lock:
    """Read a lock file; raises BadDocument with every finding."""
    reader = DocumentReader("lock")
    document = reader.object(_decoded(body), "")
    version = document.get("lock")
    if type(version) is not int or version != LOCK_FORMAT:
        newer = type(version) is int and version > LOCK_FORMAT
        fix = (
            "this lock was written by a newer toolhall; update yours"
            if newer
            else f'write {{"lock": {LOCK_FORMAT}, "tools": {{}}}}'
        )
        raise BadDocument([Finding("/lock", "lock/format", fix)])
    for key in document.keys() - {"lock", "tools"}:
        reader.add_error(f"/{escape_pointer(key)}", "unknown", f"a lock has no {key!r}; remove it")
    tools = reader.object(document.get("tools"), "/tools")
    lock = {tool: _read_digests(reader, value, f"/tools/{escape_pointer(tool)}") for tool, value in tools.items()}
    reader.raise_findings()
    return lock


def _drift_kind(before: Digests | None, after: Digests | None) -> DriftKind | None:
    if before is None or after is None:
        return "added" if before is None else "removed"
    return _DRIFT_KINDS.get((before.shown != after.shown, before.contract != after.contract))


def _read_digests(reader: DocumentReader, value: Json, path: str) -> Digests:
    stated = reader.object(value, path)
    for key in stated.keys() - {"shown", "contract"}:
        reader.add_error(f"{path}/{escape_pointer(key)}", "unknown", f"a locked tool has no {key!r}; remove it")
    return Digests(_read_digest(reader, stated, "shown", path), _read_digest(reader, stated, "contract", path))


def _read_digest(reader: DocumentReader, stated: JsonObject, key: str, path: str) -> str:
    value = stated.get(key)
    if isinstance(value, str) and _DIGEST_PATTERN.fullmatch(value):
        return value
    reader.add_error(f"{path}/{key}", "digest", f"this is no digest ({DIGEST_PREFIX} and 64 digits); {_FIX}")
    return ""


def _decoded(body: bytes) -> Json:
    try:
        return json.loads(body, object_pairs_hook=_reject_duplicate_keys)
    except (ValueError, RecursionError):
        raise BadDocument([Finding("", "lock/json", f"this is not JSON; {_FIX}")]) from None


def _reject_duplicate_keys(pairs: list[tuple[str, Json]]) -> JsonObject:
    """A duplicate key tells a person one thing and a program another."""
    if (key := duplicate_key(pairs)) is not None:
        raise BadDocument([Finding("", "lock/twice", f"{key[:64]!r} occurs twice; {_FIX}")])
    return dict(pairs)


def lock_entry(document: Json, compute: Callable[[Tool], Digests] = compute_digests) -> tuple[str, Digests]:
    """The key of an MCP definition of any kind and its digests; raises BadDocument if it cannot be read.

    The key is its id; without one, it is the name of a tool, the URI of a resource, or `prompts/` and a prompt's name.
    """
    tool = read_definition(checked_json(document))
    return _lock_key(tool), compute(msgspec.structs.replace(tool, remainder=_unknown_members(tool, document)))


def _lock_key(tool: Tool) -> str:
    if tool.id != id_from_name(tool.name):
        return str(tool.id)
    if tool.resource is not None:
        return tool.resource.uri
    return tool.name if tool.prompt is None else f"prompts/{tool.name}"


def _unknown_members(tool: Tool, document: Json) -> Remainder:
    """Members that Toolhall does not know but others may; null counts as absent, as some servers send it."""
    changes = diff_json(write_definition(tool, REVISION_2026_07_28), document)
    return Remainder("mcp", item=tuple(change for change in changes if change.value is not None))
