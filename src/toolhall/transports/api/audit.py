"""`/api/audit`: the records of calls and changes, for callers who may manage the hall."""

import asyncio

from toolhall.model.errors import Malformed
from toolhall.model.exchange import Wire
from toolhall.stores.audit.asking import FILTERS, BadQuestion, document, wanted_of
from toolhall.transports.api.answering import answer
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.replies import reply
from toolhall.transports.api.requests import Nothing, body_of, limit_of, parameters_of, read_body
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods
from toolhall.transports.shield import Shield


class AuditApi:
    """Records can be read here, and changed nowhere; an operator accepts an audit that the store knows more of."""

    def __init__(self, managed: Managed, shield: Shield) -> None:
        self._managed = managed
        self._shield = shield

    def endpoints(self) -> dict[str, Methods]:
        """The paths of the audit."""
        return {"/api/audit": {"GET": self.search}, "/api/audit/accept": {"POST": self.accept}}

    async def search(self, exchange: Exchange) -> None:
        """`GET /api/audit`."""
        await answer(exchange, self._search(exchange))

    async def accept(self, exchange: Exchange) -> None:
        """`POST /api/audit/accept`."""
        await answer(exchange, self._accept(exchange))

    async def _accept(self, exchange: Exchange) -> Wire:
        parameters_of(exchange)
        given = await body_of(exchange, self._shield)
        read_body(given, Nothing)
        anchoring, by = self._managed.journal.anchoring, exchange.caller.id

        async def apply() -> tuple[str, ...]:
            return () if anchoring is None else await asyncio.to_thread(anchoring.accept, by)

        found = await self._managed.change("accept audit", given, exchange.caller, apply)
        return reply({"accepted": list(found)})

    async def _search(self, exchange: Exchange) -> Wire:
        self._managed.refuse_strangers(exchange.caller)
        asked = parameters_of(exchange, (*FILTERS, "limit"))
        try:
            wanted = wanted_of(asked)
        except BadQuestion as error:
            raise Malformed(str(error)) from None
        found = await self._managed.journal.search(wanted, limit_of(asked))
        return reply({"records": [document(each) for each in found]})
