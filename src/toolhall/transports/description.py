"""`GET /openapi.json`: the REST interface as this caller may use it."""

from collections.abc import Callable

import msgspec

from toolhall.dialects.catalogs import DIALECTS, READABLE
from toolhall.dialects.openapi import catalog, hall, management
from toolhall.dialects.openapi.catalog import INPUT, Info
from toolhall.dialects.openapi.limits import limited
from toolhall.hall import Hall
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject, encode
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Snapshot
from toolhall.transports.exchange import Exchange


class Description:
    """One document with the hall's own operations and one for every tool; written once per snapshot."""

    def __init__(self, home: Hall, info: Info, prefix: Callable[[], str] = str) -> None:
        self._hall = home
        self._prefix = prefix  # of every path, where the hall is mounted
        self._info = info

    async def __call__(self, exchange: Exchange) -> None:
        """The document."""
        view = self._hall.view(exchange.caller)
        manages = self._hall.manage.allows(exchange.caller)
        prefix = self._prefix()
        key = f"{catalog.name}, {management.TAG['name']}" if manages else catalog.name
        key = f"{key} {prefix}" if prefix else key
        body = view.encoded.get(key)
        if body is None:
            body = view.encoded[key] = encode(self._written(_named(view), prefix, manages=manages))
        await exchange.reply(Wire(body))

    def _written(self, tools: tuple[Tool, ...], prefix: str, *, manages: bool) -> JsonObject:
        info = msgspec.structs.replace(self._info, servers=(prefix,)) if prefix else self._info
        (document,) = catalog.write(tools, info).documents
        schemas = document["components"]["schemas"]
        for name in schemas:
            if name.endswith(INPUT):
                schemas[name] = limited(schemas[name])
        document["tags"].append(hall.TAG)
        document["paths"] |= hall.paths(DIALECTS)
        if manages:
            document["tags"].append(management.TAG)
            document["paths"] |= management.paths(READABLE)
            schemas |= management.SCHEMAS
        return document


def _named(view: Snapshot) -> tuple[Tool, ...]:
    """The versions that a call without one reaches."""
    return tuple(entry.tool for entry in view.listed)
