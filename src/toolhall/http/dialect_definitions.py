"""`DialectDefinitions`: registers, lists and removes toolkit definitions in one dialect, for hub and Machine Context.

Only active tools that the caller can see are listed, because models read these lists; documents are written once
per snapshot.
"""

import time
from itertools import islice

import msgspec

from toolhall.dialects.base import Catalog
from toolhall.dialects.catalogs import group_by_toolkit
from toolhall.dialects.convert import lossless
from toolhall.dialects.hub import catalog as hub
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.records import RegistrationSource
from toolhall.registration.service import RegistrationService
from toolhall.registry.snapshot import Snapshot
from toolhall.stores.tools import ToolRecord

PAGE = 100
PAGE_BYTES = 4 * 1024 * 1024
_CURSOR_DIGITS = 9


class ToolkitDocument(msgspec.Struct, frozen=True):
    """One toolkit as it is listed."""

    toolkit: str
    version: str
    body: bytes


class DialectDefinitions:
    """Registers in one dialect; lists only what is served, because models read these lists."""

    def __init__(self, dispatcher: Dispatcher, registration: RegistrationService, catalog: Catalog) -> None:
        self._dispatcher = dispatcher
        self._registration = registration
        self._catalog = catalog
        self._cached: tuple[Snapshot, list[ToolkitDocument]] | None = None

    async def register(self, definition: Json, caller: Caller) -> ToolRecord:
        """Validate a definition and keep it, in quarantine until somebody activates it. The first of its tools."""
        change = AdminOperation(f"register {_declared_name(definition)}", self._catalog.name, definition)
        source = RegistrationSource("http", caller.id, time.time())
        register = self._registration.register
        kept = await self._dispatcher.admin(change, caller, lambda: register(definition, self._catalog.name, source))
        return kept[0]

    async def unregister(self, name: str, version: str | None, caller: Caller) -> None:
        """Forget a toolkit that was registered, or one version of it."""
        what = name if version is None else f"{name}@{version}"
        change = AdminOperation(f"unregister {what}", self._catalog.name, {"name": name, "version": version})
        await self._dispatcher.admin(change, caller, lambda: self._remove(name, version, caller.id))

    def page(self, caller: Caller, cursor: str | None) -> JsonObject:
        """A page of documents: what this caller may see of what is served."""
        start = 0 if cursor is None else _offset(cursor)
        served = self._documents(self._dispatcher.visible_snapshot(caller))
        chosen: list[msgspec.Raw] = []
        size = 0
        for document in islice(served, start, start + PAGE):
            size += len(document.body)
            if chosen and size > PAGE_BYTES:
                break
            chosen.append(msgspec.Raw(document.body))
        end = start + len(chosen)
        return {"tools": chosen, **({"nextCursor": str(end)} if end < len(served) else {})}

    def document(self, name: str, version: str | None, caller: Caller) -> msgspec.Raw | None:
        """The newest document of a toolkit, or that of one version, if this caller may see it."""
        found = [
            each
            for each in self._documents(self._dispatcher.visible_snapshot(caller))
            if each.toolkit == name and version in (None, each.version)
        ]
        newest = max(found, key=lambda each: precedence(each.version), default=None)
        return None if newest is None else msgspec.Raw(newest.body)

    async def _remove(self, name: str, version: str | None, by: str) -> None:
        found = [
            kept for kept in self._registration.all_records if kept.toolkit == name and version in (None, kept.version)
        ]
        if not found:
            raise NotFound("nothing of that name and version was registered here; see what is listed")
        for kept in found:
            await self._registration.remove(kept.id, by)

    def _documents(self, view: Snapshot) -> list[ToolkitDocument]:
        """Written once for each snapshot."""
        if self._cached is None or self._cached[0] is not view:
            self._cached = (view, [_document(group, self._catalog) for group in group_by_toolkit(view.tools)])
        return self._cached[1]


def _document(tools: tuple[Tool, ...], catalog: Catalog) -> ToolkitDocument:
    document = lossless.write(tools, catalog)
    # The hub lists every declaration in its wrapper; it may have been registered without.
    if catalog is hub and "tool" not in document:
        document = {"tool": document}
    return ToolkitDocument(tools[0].id.toolkit, tools[0].id.version, encode(document))


def _declared_name(definition: Json) -> str:
    """What a definition calls itself, as far as it can be told before it is read."""
    inner = definition.get("tool", definition) if isinstance(definition, dict) else None
    if not isinstance(inner, dict):
        return "?"
    name, version = inner.get("id", inner.get("name")), inner.get("version")
    return f"{name if isinstance(name, str) else '?'}@{version if isinstance(version, str) else '?'}"


def _offset(cursor: str) -> int:
    if cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR_DIGITS:
        return int(cursor)
    raise Malformed("unknown cursor: send the nextCursor of the page before, or none")
