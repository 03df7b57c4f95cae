"""Everything that is registered, in every state, by id and by toolkit; the store keeps the same."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from toolhall.model.errors import Malformed
from toolhall.model.tool import Tool
from toolhall.model.versions import newest
from toolhall.registry.names import Claims
from toolhall.stores.base import Kept

MOST_TOOLS = 100_000
MOST_BYTES = 256 * 1024 * 1024  # of documents; the tools of one share it


class Listed(msgspec.Struct, frozen=True):
    """A tool with its papers."""

    kept: Kept
    tool: Tool


class Ledger:
    """What is known, ready to be asked."""

    def __init__(self) -> None:
        self._by_id: dict[str, Listed] = {}
        self._by_toolkit: dict[str, dict[str, Listed]] = {}
        self._by_key: dict[str, dict[str, Listed]] = {}
        self._documents: Counter[bytes] = Counter()
        self._bytes = 0
        self.claims = Claims()  # of what came from outside

    def __contains__(self, tool_id: str) -> bool:
        return tool_id in self._by_id

    def is_code(self, tool_id: str) -> bool:
        """Whether these are papers of the operator's own code."""
        listed = self._by_id.get(tool_id)
        return listed is not None and listed.kept.origin == "code"

    def states(self, toolkit: str, version: str) -> dict[str, str]:
        """What has become of the tools of a version of a toolkit, by id."""
        return {each.kept.id: each.kept.state for each in self.toolkit(toolkit) if each.kept.version == version}

    def owners(self, toolkit: str) -> frozenset[str]:
        """Who has registered anything of a toolkit."""
        return frozenset(listed.kept.by for listed in self.toolkit(toolkit))

    @property
    def all(self) -> tuple[Listed, ...]:
        """Everything, in the order it came."""
        return tuple(self._by_id.values())

    def get(self, name: str) -> Listed | None:
        """By id, or by `Toolkit.tool`, which means its newest version."""
        return self._by_id.get(name) or self._newest(name)

    def toolkit(self, toolkit: str) -> list[Listed]:
        """Every version of every tool of a toolkit."""
        return list(self._by_toolkit.get(toolkit, {}).values())

    def versions(self, key: str) -> list[Listed]:
        """Every version of `Toolkit.tool`."""
        return list(self._by_key.get(key, {}).values())

    def put(self, kept: Kept, tool: Tool) -> None:
        """Add or replace."""
        if kept.id in self._by_id:
            self._release(kept.id)
        listed = self._by_id[kept.id] = Listed(kept, tool)
        for index, name in self._indexes(kept):
            index.setdefault(name, {})[kept.id] = listed
        self._weigh(kept, 1)
        if kept.origin != "code":
            self.claims.take(tool)

    def put_all(self, several: Iterable[Listed]) -> None:
        """Add or replace each."""
        for listed in several:
            self.put(listed.kept, listed.tool)

    def drop(self, tool_id: str) -> None:
        """Forget what is there."""
        self._release(tool_id)
        for index, name in self._indexes(self._by_id.pop(tool_id).kept):
            del index[name][tool_id]
            if not index[name]:
                del index[name]

    def refuse_too_much(self, count: int, size: int) -> None:
        """Raise Malformed if there is no room for so many tools more, in so many bytes."""
        if len(self._by_id) + count > MOST_TOOLS:
            raise Malformed(f"{MOST_TOOLS} tools are registered at most; remove some first")
        if self._bytes + size > MOST_BYTES:
            raise Malformed(f"what is registered would take over {MOST_BYTES} bytes; remove some first")

    def _indexes(self, kept: Kept) -> tuple[tuple[dict[str, dict[str, Listed]], str], ...]:
        return (self._by_toolkit, kept.toolkit), (self._by_key, kept.key)

    def _release(self, tool_id: str) -> None:
        listed = self._by_id[tool_id]
        if listed.kept.origin != "code":
            self.claims.release(listed.tool)
        self._weigh(listed.kept, -1)

    def _weigh(self, kept: Kept, change: int) -> None:
        """Count a document once, however many tools it holds."""
        before = self._documents[kept.document]
        after = self._documents[kept.document] = before + change
        if 0 in (before, after):
            self._bytes += change * len(kept.document)
        if after == 0:
            del self._documents[kept.document]

    def _newest(self, key: str) -> Listed | None:
        versions = {each.kept.version: each for each in self.versions(key)}
        return versions.get(newest(versions) or "")
