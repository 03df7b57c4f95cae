"""What is told of the hall: lists, one tool with its document, histories, callers; it changes nothing."""

import asyncio

import msgspec

from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject
from toolhall.model.versions import precedence
from toolhall.stores.base import Kept
from toolhall.transports.api.callers import Callers
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.pages import PARAMETERS, Pages
from toolhall.transports.api.replies import reply
from toolhall.transports.api.requests import limit_of, parameters_of
from toolhall.transports.api.summaries import event, findings_of, summary
from toolhall.transports.exchange import Exchange


class Views:
    """For callers who may manage the hall; to all others it says no, whatever they ask for."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed
        self._registrar = managed.registrar
        self._pages = Pages(managed.page_size)

    async def page(self, exchange: Exchange) -> Wire:
        """`GET /api/tools`."""
        self._managed.refuse_strangers(exchange.caller)
        return reply(self._pages.page(self._registrar, parameters_of(exchange, PARAMETERS)))

    async def tool(self, exchange: Exchange, tool_id: str) -> Wire:
        """`GET /api/tools/{id}`: with its document as it came, and all that lint says of it."""
        self._managed.refuse_strangers(exchange.caller)
        parameters_of(exchange)
        kept = self._registrar.find(tool_id)
        # A large document takes a while to look through, and the hall has others to serve.
        findings = await asyncio.to_thread(findings_of, kept, self._registrar.names)
        document = msgspec.Raw(kept.document)
        versions = self._versions(kept)
        return reply(
            {**summary(kept, self._registrar), "document": document, "findings": findings, "versions": versions}
        )

    async def history(self, exchange: Exchange, tool_id: str | None = None) -> Wire:
        """`GET /api/history`, or that of one tool, which outlives it."""
        self._managed.refuse_strangers(exchange.caller)
        limit = limit_of(parameters_of(exchange, ("limit",)))
        events = await self._registrar.history(tool_id, limit)
        if tool_id is not None and not events:
            known = self._registrar.find(tool_id)  # by a published name; or it says that there is none, and what to do
            events = await self._registrar.history(known.key, limit)
        return reply({"events": [event(each) for each in events]})

    async def callers(self, exchange: Exchange, tool_id: str) -> Wire:
        """`GET /api/tools/{id}/callers`: who called it; without a version, who called any of them."""
        self._managed.refuse_strangers(exchange.caller)
        parameters_of(exchange)
        found = Callers()
        await self._managed.journal.read(tool_id, found.take)
        told = found.document()
        if not told["callers"]:
            self._registrar.find(tool_id)
        return reply(told)

    def _versions(self, kept: Kept) -> list[JsonObject]:
        """All versions of the tool, the newest first."""
        same = [each for each in self._registrar.known if each.key == kept.key]
        same.sort(key=lambda each: precedence(each.version), reverse=True)
        return [{"id": each.id, "state": each.state} for each in same]
