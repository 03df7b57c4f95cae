"""Definitions that come from outside, and the list of all there are, for the dialects that know both."""

from collections import Counter
from itertools import chain, islice

import msgspec

from toolhall.dialects import exact
from toolhall.dialects.catalog import Catalog
from toolhall.dialects.catalogs import toolkits
from toolhall.dialects.hub import catalog as hub
from toolhall.dialects.machine import catalog as machine
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.names import ToolId
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence
from toolhall.pipeline.manage import Change
from toolhall.registry.registry import Conflict
from toolhall.registry.shelf import Kept, Shelf
from toolhall.registry.snapshot import Snapshot

PAGE = 100
PAGE_BYTES = 4 * 1024 * 1024
LISTED: tuple[Catalog, ...] = (machine, hub)
_CURSOR_DIGITS = 9


class Registering:
    """Keeps definitions on the shelf for every dialect that lists it; what is served comes first.

    Whoever may not change the hall sees nothing of the shelf: neither in a list nor in an answer.
    """

    def __init__(self, hall: Hall, shelf: Shelf, catalog: Catalog) -> None:
        self._hall = hall
        self._shelf = shelf
        self._catalog = catalog
        self._served: tuple[Snapshot, list[Kept]] | None = None

    def register(self, definition: Json, caller: Caller) -> ToolId:
        """Validate a definition and keep it; it is not active until something runs it. The id of its first tool."""
        change = Change(f"register {_name(definition)}", self._catalog.name, definition)
        return self._hall.manage(change, caller, lambda: self._keep(definition))

    def unregister(self, name: str, version: str | None, caller: Caller) -> None:
        """Forget a definition that was registered, or one version of it."""
        what = name if version is None else f"{name}@{version}"
        change = Change(f"unregister {what}", self._catalog.name, {"name": name, "version": version})
        self._hall.manage(change, caller, lambda: self._remove(name, version))

    def page(self, caller: Caller, cursor: str | None) -> JsonObject:
        """A page of documents: what this caller may see of what is served, then what is only registered."""
        start = 0 if cursor is None else _start(cursor)
        served = self._written(self._hall.view(caller))
        managing = self._hall.manage.allows(caller)
        everything = chain(
            (each.documents[self._catalog.name] for each in served),
            self._shelf.documents(self._catalog.name) if managing else (),
        )
        chosen: list[msgspec.Raw] = []
        size = 0
        for document in islice(everything, start, start + PAGE):
            size += len(document)
            if chosen and size > PAGE_BYTES:
                break
            chosen.append(msgspec.Raw(document))
        end, count = start + len(chosen), len(served) + (len(self._shelf) if managing else 0)
        return {"tools": chosen, **({"nextCursor": str(end)} if end < count else {})}

    def document(self, name: str, version: str | None, caller: Caller) -> msgspec.Raw | None:
        """The newest document of a toolkit, or that of one version, if this caller may see it."""
        found = [each for each in self._written(self._hall.view(caller)) if each.toolkit == name]
        if self._hall.manage.allows(caller):
            found += self._shelf.versions(name)
        found = [each for each in found if version in (None, each.version)]
        newest = max(found, key=lambda each: precedence(each.version), default=None)
        return None if newest is None else msgspec.Raw(newest.documents[self._catalog.name])

    def holds(self, toolkit: str, tool: str, caller: Caller) -> bool:
        """Whether this is registered but not served, as far as this caller may know."""
        return self._shelf.holds(toolkit, tool) and self._hall.manage.allows(caller)

    def _keep(self, definition: Json) -> ToolId:
        tools = exact.read(definition, self._catalog)
        if not tools:
            raise Malformed("declare at least one thing that can be called")
        _check_names(tools)
        first = tools[0].id
        # One whose name differs in case only may be registered; the registry refuses it once it should be served too.
        if self._serves(first.toolkit):
            raise Malformed(f"{first.toolkit!r} is served already; register under another name")
        try:
            self._shelf.put(_kept(tools, LISTED))
        except Conflict as conflict:
            raise Malformed(str(conflict)) from None
        return first

    def _remove(self, name: str, version: str | None) -> None:
        if self._shelf.remove(name, version):
            return
        if self._serves(name):
            raise Malformed(
                f"{name!r} is served from code and cannot be unregistered here; leave it out of what is served"
            )
        raise NotFound("nothing of that name and version was registered here; see what is listed")

    def _serves(self, toolkit: str) -> bool:
        return any(entry.tool.id.toolkit == toolkit for entry in self._hall.registry.snapshot.entries)

    def _written(self, view: Snapshot) -> list[Kept]:
        """Written once for each snapshot."""
        if self._served is None or self._served[0] is not view:
            self._served = (view, [_kept(group, (self._catalog,)) for group in toolkits(view.tools)])
        return self._served[1]


def _kept(tools: tuple[Tool, ...], catalogs: tuple[Catalog, ...]) -> Kept:
    first = tools[0].id
    documents = {catalog.name: encode(_document(tools, catalog)) for catalog in catalogs}
    return Kept(first.toolkit, first.version, tuple(tool.id.tool for tool in tools), documents)


def _document(tools: tuple[Tool, ...], catalog: Catalog) -> JsonObject:
    document = exact.write(tools, catalog)
    # The hub lists every declaration in its wrapper; it may have been registered without.
    return {"tool": document} if catalog is hub and "tool" not in document else document


def _check_names(tools: tuple[Tool, ...]) -> None:
    counted = Counter(tool.id.tool.casefold() for tool in tools)
    twice = sorted(tool.id.tool for tool in tools if counted[tool.id.tool.casefold()] > 1)
    if twice:
        raise Malformed(f"these names differ only in upper and lower case: {', '.join(twice[:8])}; rename all but one")


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
