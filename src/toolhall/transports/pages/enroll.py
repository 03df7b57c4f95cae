"""`/enroll/{word}`: where a person who was invited adds a passkey, once."""

from html import escape

from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NotFound
from toolhall.pipeline.factors import Factors, WrongFactor
from toolhall.pipeline.manage import Change, Manage
from toolhall.stores.factors.base import Factor
from toolhall.transports.exchange import Exchange
from toolhall.transports.pages.approve import Parts
from toolhall.transports.pages.forms import form_of
from toolhall.transports.pages.html import alert, button, document, form, paragraph, send_page, text
from toolhall.transports.pages.visiting import Visitor

PATH = "/enroll/"
_DIALECT = "page"
_GONE = "This link was used already, or is too old. Ask for a new one."
_STALE = "this form is too old; try again"


class EnrollPage:
    """The word in the link is the only authority here: whoever asked for it may add a passkey for this person."""

    def __init__(self, parts: Parts, manage: Manage) -> None:
        self._factors: Factors = parts.factors
        self._passkeys = parts.passkeys
        self._visiting = parts.visiting
        self._sessions = parts.visiting.sessions
        self._place = parts.place
        self._manage = manage

    async def get(self, exchange: Exchange) -> None:
        """The page with its one button."""
        await self._show(exchange, await self._visiting.visitor(exchange))

    async def post(self, exchange: Exchange) -> None:
        """The passkey that the browser made."""
        fields = await form_of(exchange, self._place)
        visitor = await self._visiting.visitor(exchange)
        if visitor.new or not self._sessions.fits(visitor.session, exchange.path, fields.get("word", "")):
            await self._show(exchange, visitor, _STALE, 403)
            return
        invitation = await self._invitation(exchange)
        if invitation is None:
            await self._gone(exchange, visitor)
            return
        try:
            factor = await self._add(invitation, fields.get("credential", ""), exchange)
        except (WrongFactor, Malformed) as wrong:
            await self._show(exchange, visitor, wrong.message, 403)
        except NotFound:
            await self._gone(exchange, visitor)
        else:
            done = paragraph(
                text(f"From now on {factor.person} can approve calls with it. You can close this page."), kind="lead"
            )
            await self._send(exchange, visitor, 200, document("The passkey is added", done))

    async def _add(self, invitation: Factor, answer: str, exchange: Exchange) -> Factor:
        async def apply() -> Factor:
            added = await self._passkeys.created(invitation, answer, exchange.headers)
            if added is None:
                raise NotFound(_GONE)
            return added

        change = Change(f"add passkey {invitation.person}", _DIALECT, {}, personal=True)
        by = Caller(invitation.by, person=invitation.person)
        return await self._manage(change, by, apply)

    async def _show(self, exchange: Exchange, visitor: Visitor, wrong: str = "", status: int = 200) -> None:
        invitation = await self._invitation(exchange)
        if invitation is None:
            await self._gone(exchange, visitor)
            return
        says = paragraph(
            "A passkey proves that you are there when a program asks for your approval. It stays in this device, or"
            " in your password store. Add one for <strong>",
            text(invitation.person),
            "</strong>.",
            kind="lead",
        )
        try:
            parts = self._form(exchange, visitor, invitation)
        except Malformed as unable:
            parts = alert(unable.message)
        page = document("Add a passkey", alert(wrong) if wrong else "", says, parts)
        await self._send(exchange, visitor, status, page)

    def _form(self, exchange: Exchange, visitor: Visitor, invitation: Factor) -> str:
        options = self._passkeys.to_create(invitation, exchange.headers)
        word = self._sessions.word(visitor.session, exchange.path)
        hidden = '<input type="hidden" name="credential" value="">'
        attributes = f' class="passkey" hidden data-create="{escape(options)}"'
        made = form(word, "create", hidden, button("Add a passkey"), attributes=attributes)
        trouble = '<p class="alert" id="trouble" role="alert" hidden></p>\n'
        return f"{made}{trouble}<noscript><p>A passkey needs JavaScript. Allow it for this page.</p></noscript>\n"

    async def _invitation(self, exchange: Exchange) -> Factor | None:
        return await self._factors.invitation(exchange.path.removeprefix(PATH))

    async def _gone(self, exchange: Exchange, visitor: Visitor) -> None:
        await self._send(exchange, visitor, 410, document("This link leads nowhere any more", paragraph(_GONE)))

    async def _send(self, exchange: Exchange, visitor: Visitor, status: int, page: bytes) -> None:
        cookie = (self._sessions.cookie(visitor.session),) if visitor.new else ()
        await send_page(exchange, self._place.prefix, status, page, *cookie)
