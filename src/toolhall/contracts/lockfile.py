"""`tools.lock`: the digests of tools as they were when somebody looked at them, and how they differ from those now."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.contracts.digest import PREFIX, Digests
from toolhall.dialects.findings import BadDocument, Finding, Reading
from toolhall.model.json import Json, JsonObject
from toolhall.model.patch import escape

FORMAT = 1
Lock: TypeAlias = Mapping[str, Digests]  # by the tool's id
Kind: TypeAlias = Literal["added", "removed", "shown", "contract", "both"]
_DIGEST = re.compile(PREFIX + "[0-9a-f]{64}")
_KINDS: dict[tuple[bool, bool], Kind] = {(True, False): "shown", (False, True): "contract", (True, True): "both"}
_FIX = "write the lock anew with 'toolhall lock'"


class Drift(msgspec.Struct, frozen=True):
    """A tool that is not what it was, and what about it changed."""

    tool: str
    kind: Kind


class Twice(ValueError):
    """Two tools with one id; one of them would go unseen."""

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(f"two tools are called {tool}; a lock can hold one of them only")


def locked(tools: Iterable[tuple[str, Digests]]) -> Lock:
    """A lock of these tools."""
    lock: dict[str, Digests] = {}
    for tool, found in tools:
        if tool in lock:
            raise Twice(tool)
        lock[tool] = found
    return lock


def compare(lock: Lock, found: Lock, former: Lock | None = None) -> list[Drift]:
    """Every tool that is not as it was locked, by id; `former` has the same tools' digests as older locks have them."""
    same = {tool for tool, before in (former or {}).items() if lock.get(tool) == before}
    tools = sorted({*lock, *found} - same)
    return [Drift(tool, kind) for tool in tools if (kind := _kind(lock.get(tool), found.get(tool)))]


def document_of(lock: Lock) -> JsonObject:
    """The lock as a JSON document, sorted by id."""
    return {"lock": FORMAT, "tools": {tool: msgspec.to_builtins(lock[tool]) for tool in sorted(lock)}}


def write_lock(lock: Lock) -> bytes:
    """The bytes of the file: plain ASCII, so that nothing hides from whoever reads it."""
    return (json.dumps(document_of(lock), indent=2) + "\n").encode("ascii")


def read_lock(body: bytes) -> Lock:
    """The lock in a file; BadDocument with the path and the fix of everything that is wrong."""
    reading = Reading("lock")
    document = reading.object(_decoded(body), "")
    version = document.get("lock")
    if type(version) is not int or version != FORMAT:
        newer = type(version) is int and version > FORMAT
        fix = (
            "this lock is of a newer toolhall; update yours" if newer else f'write {{"lock": {FORMAT}, "tools": {{}}}}'
        )
        raise BadDocument([Finding("/lock", "lock/format", fix)])
    for key in document.keys() - {"lock", "tools"}:
        reading.fault(f"/{escape(key)}", "unknown", f"a lock has no {key!r}; remove it")
    tools = reading.object(document.get("tools"), "/tools")
    lock = {tool: _digests(reading, value, f"/tools/{escape(tool)}") for tool, value in tools.items()}
    reading.done()
    return lock


def _kind(before: Digests | None, after: Digests | None) -> Kind | None:
    if before is None or after is None:
        return "added" if before is None else "removed"
    return _KINDS.get((before.shown != after.shown, before.contract != after.contract))


def _digests(reading: Reading, value: Json, path: str) -> Digests:
    stated = reading.object(value, path)
    for key in stated.keys() - {"shown", "contract"}:
        reading.fault(f"{path}/{escape(key)}", "unknown", f"a locked tool has no {key!r}; remove it")
    return Digests(_digest(reading, stated, "shown", path), _digest(reading, stated, "contract", path))


def _digest(reading: Reading, stated: JsonObject, key: str, path: str) -> str:
    value = stated.get(key)
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return value
    reading.fault(f"{path}/{key}", "digest", f"this is no digest ({PREFIX} and 64 digits); {_FIX}")
    return ""


def _decoded(body: bytes) -> Json:
    try:
        return json.loads(body, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        raise BadDocument([Finding("", "lock/json", f"this is not JSON; {_FIX}")]) from None


def _unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    """A key that is there twice says one thing to a reader and another to a program."""
    found: JsonObject = {}
    for key, value in pairs:
        if key in found:
            raise BadDocument([Finding("", "lock/twice", f"{key[:64]!r} is there twice; {_FIX}")])
        found[key] = value
    return found
