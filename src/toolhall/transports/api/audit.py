"""`/api/audit`: the records of calls and changes, for callers who may manage the hall."""

from toolhall.model.errors import Malformed
from toolhall.model.exchange import Wire
from toolhall.stores.audit.asking import FILTERS, BadQuestion, document, wanted_of
from toolhall.transports.api.answering import answer
from toolhall.transports.api.managed import Managed
from toolhall.transports.api.replies import reply
from toolhall.transports.api.requests import limit_of, parameters_of
from toolhall.transports.exchange import Exchange
from toolhall.transports.http import Methods


class AuditApi:
    """It can be read here, and changed nowhere."""

    def __init__(self, managed: Managed) -> None:
        self._managed = managed

    def endpoints(self) -> dict[str, Methods]:
        """The path of the audit."""
        return {"/api/audit": {"GET": self.search}}

    async def search(self, exchange: Exchange) -> None:
        """`GET /api/audit`."""
        await answer(exchange, self._search(exchange))

    async def _search(self, exchange: Exchange) -> Wire:
        self._managed.refuse_strangers(exchange.caller)
        asked = parameters_of(exchange, (*FILTERS, "limit"))
        try:
            wanted = wanted_of(asked)
        except BadQuestion as error:
            raise Malformed(str(error)) from None
        found = await self._managed.journal.search(wanted, limit_of(asked))
        return reply({"records": [document(each) for each in found]})
