"""`DialectDefinitions`: registers, lists and removes toolkit definitions in one dialect, for hub and Machine Context.

Only active tools that the caller can see are listed, because models read these lists; documents are written once
per snapshot.
"""

import time
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from toolhall.dialects.base import Catalog
from toolhall.dialects.catalogs import group_by_toolkit
from toolhall.dialects.convert import lossless
from toolhall.dialects.hub import catalog as hub
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.names import precedence
from toolhall.model.tool import Tool
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.records import RegistrationSource
from toolhall.registration.service import RegistrationService
from toolhall.registry.snapshot import Snapshot
from toolhall.stores.tools import ToolRecord

PAGE = 100
PAGE_BYTES = 4 * 1024 * 1024
_CURSOR_DIGITS = 9
_ToolkitVersion: TypeAlias = tuple[str, str]


class ToolkitDocument(msgspec.Struct, frozen=True):
    """An encoded document of one toolkit version."""

    toolkit: str
    version: str
    body: bytes


class DialectDefinitions:
    """Registers definitions in one dialect, and lists the active tools of a caller as documents of that dialect."""

    def __init__(self, dispatcher: Dispatcher, registration: RegistrationService, catalog: Catalog) -> None:
        self._dispatcher = dispatcher
        self._registration = registration
        self._catalog = catalog
        self._cached: tuple[Snapshot, list[ToolkitDocument]] | None = None

    async def register(self, definition: Json, caller: Caller) -> ToolRecord:
        """Register a definition, quarantined until an operator activates it; return its first tool."""
        operation = AdminOperation(f"register {_declared_name(definition)}", self._catalog.name, definition)
        source = RegistrationSource("http", caller.id, time.time())
        register = self._registration.register
        records = await self._dispatcher.admin(
            operation, caller, lambda: register(definition, self._catalog.name, source)
        )
        return records[0]

    async def unregister(self, name: str, version: str | None, caller: Caller) -> None:
        """Remove a registered toolkit, or one version of it."""
        target = name if version is None else f"{name}@{version}"
        operation = AdminOperation(f"unregister {target}", self._catalog.name, {"name": name, "version": version})
        await self._dispatcher.admin(operation, caller, lambda: self._remove(name, version, caller.id))

    def page(self, caller: Caller, cursor: str | None) -> JsonObject:
        """Return a page of documents of the tools that this caller may see."""
        start = 0 if cursor is None else _offset(cursor)
        documents = self._documents(self._dispatcher.visible_snapshot(caller))
        page: list[msgspec.Raw] = []
        size = 0
        for document in islice(documents, start, start + PAGE):
            size += len(document.body)
            if page and size > PAGE_BYTES:
                break
            page.append(msgspec.Raw(document.body))
        end = start + len(page)
        return {"tools": page, **({"nextCursor": str(end)} if end < len(documents) else {})}

    def document(self, name: str, version: str | None, caller: Caller) -> msgspec.Raw | None:
        """Return the document of a version of a toolkit, the newest by default; None if the caller sees none."""
        matches = [
            each
            for each in self._documents(self._dispatcher.visible_snapshot(caller))
            if each.toolkit == name and version in (None, each.version)
        ]
        newest = max(matches, key=lambda each: precedence(each.version), default=None)
        return None if newest is None else msgspec.Raw(newest.body)

    async def _remove(self, name: str, version: str | None, by: str) -> None:
        records = [
            record
            for record in self._registration.all_records
            if record.toolkit == name and version in (None, record.version)
        ]
        if not records:
            raise NotFound("nothing of that name and version was registered here; see what is listed")
        for record in records:
            await self._registration.remove(record.id, by)

    def _documents(self, view: Snapshot) -> list[ToolkitDocument]:
        """Encode the documents once per snapshot."""
        if self._cached is None or self._cached[0] is not view:
            told = _told_resources(view) if self._catalog is hub else {}
            self._cached = (view, [_document(group, self._catalog, told) for group in group_by_toolkit(view.tools)])
        return self._cached[1]


def _told_resources(view: Snapshot) -> dict[_ToolkitVersion, list[Tool]]:
    """Return the listed resources and templates of each version of a toolkit, for the hub's documents."""
    told: dict[_ToolkitVersion, list[Tool]] = {}
    for entry in view.resources.listed:
        tool = entry.tool
        if tool.resource is not None and tool.resource.listed:
            told.setdefault((tool.id.toolkit, tool.id.version), []).append(tool)
    return told


def _document(
    tools: tuple[Tool, ...], catalog: Catalog, resources: Mapping[_ToolkitVersion, Sequence[Tool]]
) -> ToolkitDocument:
    document = lossless.write(tools, catalog)
    # The hub lists every declaration inside `tool`, also one that was registered without it.
    if catalog is hub and "tool" not in document:
        document = {"tool": document}
    document = hub.with_resources(document, resources.get((tools[0].id.toolkit, tools[0].id.version), ()))
    return ToolkitDocument(tools[0].id.toolkit, tools[0].id.version, encode(document))


def _declared_name(definition: Json) -> str:
    """Return NAME@VERSION of an unread definition for the audit, with ? for what is missing."""
    inner = definition.get("tool", definition) if isinstance(definition, dict) else None
    if not isinstance(inner, dict):
        return "?"
    name, version = inner.get("id", inner.get("name")), inner.get("version")
    return f"{name if isinstance(name, str) else '?'}@{version if isinstance(version, str) else '?'}"


def _offset(cursor: str) -> int:
    if cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR_DIGITS:
        return int(cursor)
    raise Malformed("unknown cursor: send the nextCursor of the page before, or none")
