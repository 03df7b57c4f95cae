"""`/oauth/callback`: where providers lead back to; an answer counts only in the browser that was sent there."""

from toolhall.accounts.failures import LinkFailed
from toolhall.accounts.flow import link_of, read_query
from toolhall.model.errors import ToolhallError
from toolhall.stores.accounts.base import Link
from toolhall.transports.exchange import Exchange
from toolhall.transports.pages import connect_views as views
from toolhall.transports.pages.html import send_page
from toolhall.transports.pages.leaving import LinkCookies, arrived
from toolhall.transports.pages.linking import Linking, status_of
from toolhall.transports.pages.place import Place

_READ = ("state", "code", "iss", "error", "error_description")  # RFC 6749: what else there is must be ignored
_OTHER_BROWSER = "this browser did not begin here; open the link again, and allow cookies"


class CallbackPage:
    """Shows how it ended, in words of our own: nothing that came with the answer is on the page."""

    def __init__(self, linking: Linking, cookies: LinkCookies, place: Place) -> None:
        self._linking = linking
        self._cookies = cookies
        self._place = place

    async def get(self, exchange: Exchange) -> None:
        """The answer of a provider."""
        try:
            answer = _answer(exchange.query)
            link, nonce = await self._begun(exchange, link_of(answer.get("state")) or "")
        except ToolhallError as error:
            await self._send(exchange, status_of(error), views.failed(error.message))
            return
        try:
            done = await self._linking.finish(link, exchange.path, answer, nonce)
        except ToolhallError as error:
            # An answer that somebody made up uses nothing up: the right one may still come.
            spent = (self._cookies.taken(link.id),) if await self._linking.is_over(link) else ()
            await self._send(exchange, status_of(error), views.failed(error.message), *spent)
        else:
            await self._send(exchange, 200, views.over(done), self._cookies.taken(link.id))

    async def _begun(self, exchange: Exchange, link_id: str) -> tuple[Link, str]:
        """The link that an answer is for, and what this browser was given for it."""
        nonce = self._cookies.read(exchange.headers, link_id)
        if nonce is None:
            raise LinkFailed(_OTHER_BROWSER)
        link = await self._linking.find(link_id)
        if link is None:
            raise LinkFailed
        return link, nonce

    async def _send(self, exchange: Exchange, status: int, page: bytes, *cookie: tuple[bytes, bytes]) -> None:
        await send_page(exchange, self._place.prefix, status, page, *cookie, headers=arrived())


def _answer(query: bytes) -> dict[str, str]:
    """What is read of an answer; LinkFailed where something is there twice."""
    found = read_query(query.decode("latin-1"))
    return {name: found[name] for name in _READ if name in found}
