"""Definitions that were registered from outside and that nothing runs yet: known, but not active."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from toolhall.registry.registry import Conflict

MAX_KEPT = 10_000
MAX_KEPT_BYTES = 64 * 1024 * 1024
_NAME_BYTES = 256  # what it takes to find a tool by its name, beyond the document that has it


class Kept(msgspec.Struct, frozen=True):
    """One definition: what it is called, and its document as JSON in every dialect that lists it."""

    toolkit: str
    version: str
    tools: tuple[str, ...]
    documents: dict[str, bytes]

    @property
    def size(self) -> int:
        """How many bytes it takes to keep."""
        return sum(map(len, self.documents.values())) + _NAME_BYTES * len(self.tools)

    @property
    def key(self) -> str:
        """What may be registered once only: spelled in capitals or not, a version is the same."""
        return self.version.casefold()


class Shelf:
    """By toolkit and version, in the order they came; the same pair twice is refused, in whatever case it is written.

    Documents are kept as bytes: as objects they would take ten times as much.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Kept] = {}
        self._versions: dict[str, dict[str, Kept]] = {}  # by toolkit
        self._tools: Counter[tuple[str, str]] = Counter()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, kept: Kept) -> None:
        """Keep a validated definition."""
        toolkit = kept.toolkit.casefold()
        versions = self._versions.get(toolkit, {})
        self._check(kept, versions)
        self._versions.setdefault(toolkit, versions)[kept.key] = self._kept[toolkit, kept.key] = kept
        self._tools.update((kept.toolkit, tool) for tool in kept.tools)
        self._bytes += kept.size

    def remove(self, toolkit: str, version: str | None = None) -> int:
        """Forget a toolkit, or one version of it; how many were forgotten."""
        found = [kept for kept in self.versions(toolkit) if version in (None, kept.version)]
        for kept in found:
            self._forget(kept)
        return len(found)

    def holds(self, toolkit: str, tool: str) -> bool:
        """Whether a toolkit with this tool was registered."""
        return (toolkit, tool) in self._tools

    def versions(self, toolkit: str) -> list[Kept]:
        """Every definition of a toolkit, in the order they came."""
        return [kept for kept in self._versions.get(toolkit.casefold(), {}).values() if kept.toolkit == toolkit]

    def documents(self, dialect: str) -> Iterator[bytes]:
        """Every definition as a document, in the order they came."""
        return (kept.documents[dialect] for kept in self._kept.values())

    def _check(self, kept: Kept, versions: dict[str, Kept]) -> None:
        if kept.key in versions:
            raise Conflict(f"{kept.toolkit} {kept.version} is registered already; raise its version")
        other = next((each.toolkit for each in versions.values()), kept.toolkit)
        if other != kept.toolkit:
            raise Conflict(f"{kept.toolkit!r} is registered as {other!r}; spell it like that, or choose another name")
        if len(self._kept) >= MAX_KEPT:
            raise Conflict(f"{MAX_KEPT} definitions are registered; unregister some first")
        if self._bytes + kept.size > MAX_KEPT_BYTES:
            raise Conflict(f"what is registered would take over {MAX_KEPT_BYTES} bytes; unregister some first")

    def _forget(self, kept: Kept) -> None:
        toolkit = kept.toolkit.casefold()
        del self._kept[toolkit, kept.key], self._versions[toolkit][kept.key]
        if not self._versions[toolkit]:
            del self._versions[toolkit]
        self._bytes -= kept.size
        for tool in kept.tools:
            self._tools[kept.toolkit, tool] -= 1
            if not self._tools[kept.toolkit, tool]:
                del self._tools[kept.toolkit, tool]
