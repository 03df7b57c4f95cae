"""`/connect/{id}`: where a person reads which account is to be linked for what, and agrees."""

from collections.abc import Callable

from toolhall.accounts.links import PATH, may_connect
from toolhall.dialects.openapi.errors import write_error
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError
from toolhall.pipeline.deciding import person_of
from toolhall.stores.accounts.base import Link
from toolhall.transports.exchange import Exchange
from toolhall.transports.pages import connect_views as views
from toolhall.transports.pages.forms import form_of
from toolhall.transports.pages.html import HEADERS, Headers, send_elsewhere, send_page, send_to
from toolhall.transports.pages.leaving import LinkCookies, departing
from toolhall.transports.pages.linking import Linking, status_of
from toolhall.transports.pages.place import Place
from toolhall.transports.pages.status import SUFFIX, send_status
from toolhall.transports.pages.views import Words
from toolhall.transports.pages.visiting import Visiting, Visitor
from toolhall.transports.shield import Turned

_STALE = "this form is too old, or of another page; read what is here now, and decide again"


class ConnectPage:
    """Shows a link to the person it is for, and sends that person's browser to the provider."""

    def __init__(self, linking: Linking, visiting: Visiting, place: Place, clock: Callable[[], float]) -> None:
        self._linking = linking
        self._visiting = visiting
        self._sessions = visiting.sessions
        self._place = place
        self._clock = clock
        self._cookies = LinkCookies(place)

    async def get(self, exchange: Exchange) -> None:
        """The page, or how far the link is."""
        if exchange.path.endswith(SUFFIX):
            await self._status(exchange)
        else:
            await self._show(exchange, await self._visiting.visitor(exchange))

    async def post(self, exchange: Exchange) -> None:
        """A form of the page: sign in, sign out, go on."""
        fields = await form_of(exchange, self._place)
        visitor = await self._visiting.visitor(exchange)
        action = fields.get("action", "")
        if visitor.new or not self._sessions.fits(visitor.session, f"{action} {exchange.path}", fields.get("word", "")):
            await self._show(exchange, visitor, _STALE, 403)
            return
        match action:
            case "sign_in":
                await self._sign_in(exchange, visitor, fields.get("key", ""))
            case "sign_out":
                await send_elsewhere(exchange, self._place.prefix, self._sessions.cookie(self._sessions.new()))
            case "connect" if visitor.caller is not None:
                await self._connect(exchange, visitor, visitor.caller)
            case _:
                raise Turned(400, "there is no such form on this page")

    async def _status(self, exchange: Exchange) -> None:
        """For whoever waits; a store that does not answer has decided nothing."""
        try:
            found = await self._linking.find(_id(exchange.path.removesuffix(SUFFIX)))
        except ToolhallError as error:
            await exchange.reply(write_error(error))
        else:
            await send_status(exchange, found)

    async def _sign_in(self, exchange: Exchange, visitor: Visitor, key: str) -> None:
        session = await self._visiting.sign_in(exchange, key)
        if isinstance(session, str):
            await self._show(exchange, visitor, session, 403)
        else:
            await send_elsewhere(exchange, self._place.prefix, self._sessions.cookie(session))

    async def _connect(self, exchange: Exchange, visitor: Visitor, caller: Caller) -> None:
        try:
            link = await self._linking.find(_id(exchange.path))
            if link is None or not may_connect(link, caller):
                await self._show(exchange, visitor)
                return
            url, nonce = await self._linking.agree(link, caller)
        except ToolhallError as error:
            await self._send(exchange, visitor, status_of(error), views.failed(error.message))
        else:
            await send_to(exchange, url.encode("ascii"), self._cookies.given(link.id, nonce))

    async def _show(self, exchange: Exchange, visitor: Visitor, wrong: str = "", status: int = 200) -> None:
        """The page for this visitor; who has not signed in is not even told whether there is one."""
        word = self._words(exchange, visitor)
        if visitor.caller is None:
            await self._send(exchange, visitor, status, views.sign_in(word("sign_in"), wrong))
            return
        try:
            link = await self._linking.find(_id(exchange.path))
            if link is None:
                await self._send(exchange, visitor, 404, views.nothing())
            elif not may_connect(link, visitor.caller):
                page = views.not_for_you(word("sign_in"), person_of(visitor.caller), wrong)
                await self._send(exchange, visitor, 403, page)
            elif link.state != "pending" or link.how != "browser":
                await self._send(exchange, visitor, status, views.over(link))
            else:
                page = await self._offer(link, visitor.caller, word, wrong)
                await self._send(exchange, visitor, status, page, departing(self._place))
        except ToolhallError as error:
            await self._send(exchange, visitor, status_of(error), views.failed(error.message))

    async def _offer(self, link: Link, caller: Caller, word: Words, wrong: str) -> bytes:
        asked = await self._linking.offered(link, caller)
        shown = views.Offer(asked=asked, now=self._clock(), person=person_of(caller), signed_in=not caller.local)
        return views.offer(shown, word, wrong)

    def _words(self, exchange: Exchange, visitor: Visitor) -> Words:
        return lambda action: self._sessions.word(visitor.session, f"{action} {exchange.path}")

    async def _send(
        self, exchange: Exchange, visitor: Visitor, status: int, page: bytes, headers: Headers = HEADERS
    ) -> None:
        cookie = (self._sessions.cookie(visitor.session),) if visitor.new else ()
        await send_page(exchange, self._place.prefix, status, page, *cookie, headers=headers)


def _id(path: str) -> str:
    return path.removeprefix(PATH)
