"""Definitions that come from outside, and the list of all that are served, for the dialects that know both."""

import time
from itertools import islice

import msgspec

from toolhall.dialects import exact
from toolhall.dialects.catalog import Catalog
from toolhall.dialects.catalogs import toolkits
from toolhall.dialects.hub import catalog as hub
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence
from toolhall.pipeline.manage import Change
from toolhall.registrar.papers import Source
from toolhall.registrar.registrar import Registrar
from toolhall.registry.snapshot import Snapshot
from toolhall.stores.base import Kept

PAGE = 100
PAGE_BYTES = 4 * 1024 * 1024
_CURSOR_DIGITS = 9


class Document(msgspec.Struct, frozen=True):
    """One toolkit as it is listed."""

    toolkit: str
    version: str
    body: bytes


class Registering:
    """Registers in one dialect; lists only what is served, because models read these lists."""

    def __init__(self, hall: Hall, registrar: Registrar, catalog: Catalog) -> None:
        self._hall = hall
        self._registrar = registrar
        self._catalog = catalog
        self._served: tuple[Snapshot, list[Document]] | None = None

    async def register(self, definition: Json, caller: Caller) -> Kept:
        """Validate a definition and keep it, in quarantine until somebody activates it. The first of its tools."""
        change = Change(f"register {_name(definition)}", self._catalog.name, definition)
        source = Source("http", caller.id, time.time())
        register = self._registrar.register
        kept = await self._hall.manage(change, caller, lambda: register(definition, self._catalog.name, source))
        return kept[0]

    async def unregister(self, name: str, version: str | None, caller: Caller) -> None:
        """Forget a toolkit that was registered, or one version of it."""
        what = name if version is None else f"{name}@{version}"
        change = Change(f"unregister {what}", self._catalog.name, {"name": name, "version": version})
        await self._hall.manage(change, caller, lambda: self._remove(name, version, caller.id))

    def page(self, caller: Caller, cursor: str | None) -> JsonObject:
        """A page of documents: what this caller may see of what is served."""
        start = 0 if cursor is None else _start(cursor)
        served = self._written(self._hall.view(caller))
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
            for each in self._written(self._hall.view(caller))
            if each.toolkit == name and version in (None, each.version)
        ]
        newest = max(found, key=lambda each: precedence(each.version), default=None)
        return None if newest is None else msgspec.Raw(newest.body)

    async def _remove(self, name: str, version: str | None, by: str) -> None:
        found = [kept for kept in self._registrar.known if kept.toolkit == name and version in (None, kept.version)]
        if not found:
            raise NotFound("nothing of that name and version was registered here; see what is listed")
        for kept in found:
            await self._registrar.remove(kept.id, by)

    def _written(self, view: Snapshot) -> list[Document]:
        """Written once for each snapshot."""
        if self._served is None or self._served[0] is not view:
            self._served = (view, [_document(group, self._catalog) for group in toolkits(view.tools)])
        return self._served[1]


def _document(tools: tuple[Tool, ...], catalog: Catalog) -> Document:
    document = exact.write(tools, catalog)
    # The hub lists every declaration in its wrapper; it may have been registered without.
    if catalog is hub and "tool" not in document:
        document = {"tool": document}
    return Document(tools[0].id.toolkit, tools[0].id.version, encode(document))


def _name(definition: Json) -> str:
    """What a definition calls itself, as far as it can be told before it is read."""
    inner = definition.get("tool", definition) if isinstance(definition, dict) else None
    if not isinstance(inner, dict):
        return "?"
    name, version = inner.get("id", inner.get("name")), inner.get("version")
    return f"{name if isinstance(name, str) else '?'}@{version if isinstance(version, str) else '?'}"


def _start(cursor: str) -> int:
    if cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR_DIGITS:
        return int(cursor)
    raise Malformed("unknown cursor: send the nextCursor of the page before, or none")
