"""`/approve/{id}`: where a person reads exactly what will run, and says yes or no to it."""

import re
from typing import NamedTuple

from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Limited, NotFound, ToolhallError
from toolhall.pipeline.approvals import PATH
from toolhall.pipeline.deciding import Deciding, TooLate, may_approve, person_of
from toolhall.pipeline.factors import Factors, WrongFactor
from toolhall.stores.approvals.base import Approval, Method
from toolhall.stores.base import StoreFailed
from toolhall.transports.exchange import Exchange
from toolhall.transports.pages import views
from toolhall.transports.pages.assets import send_asset
from toolhall.transports.pages.forms import form_of
from toolhall.transports.pages.html import send_elsewhere, send_page
from toolhall.transports.pages.passkeys import Passkeys
from toolhall.transports.pages.place import Place
from toolhall.transports.pages.status import SUFFIX, send_status
from toolhall.transports.pages.visiting import Visiting, Visitor
from toolhall.transports.shield import Turned

_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_DIALECT = "page"
_OVER = {"consumed": 410, "expired": 410}
_STALE = "this form is too old, or of another page; read what is here now, and decide again"


class Parts(NamedTuple):
    """What the page is made of."""

    deciding: Deciding
    factors: Factors
    passkeys: Passkeys
    visiting: Visiting
    place: Place


class ApprovePage:
    """Shows one approval to whom it concerns, and takes the decision by a form."""

    def __init__(self, parts: Parts) -> None:
        self._deciding = parts.deciding
        self._factors = parts.factors
        self._passkeys = parts.passkeys
        self._visiting = parts.visiting
        self._sessions = parts.visiting.sessions
        self._place = parts.place

    async def get(self, exchange: Exchange) -> None:
        """The page, or its style and script."""
        name = exchange.path.removeprefix(PATH)
        if name.startswith("-/"):
            await send_asset(exchange, name.removeprefix("-/"))
            return
        if name.endswith(SUFFIX):
            await send_status(exchange, await self._deciding.approvals.store.find(name.removesuffix(SUFFIX)))
            return
        await self._show(exchange, await self._visiting.visitor(exchange))

    async def post(self, exchange: Exchange) -> None:
        """A form of the page: sign in, sign out, approve, deny."""
        fields = await form_of(exchange, self._place)
        visitor = await self._visiting.visitor(exchange)
        action = fields.get("action", "")
        purpose = f"{action} {exchange.path}"
        if visitor.new or not self._sessions.fits(visitor.session, purpose, fields.get("word", "")):
            await self._show(exchange, visitor, _STALE, 403)
            return
        match action:
            case "sign_in":
                await self._sign_in(exchange, visitor, fields.get("key", ""))
            case "sign_out":
                await send_elsewhere(exchange, self._place.prefix, self._sessions.cookie(self._sessions.new()))
            case "approve" | "passkey" | "deny" if visitor.caller is not None:
                await self._decide(exchange, visitor, visitor.caller, fields)
            case _:
                raise Turned(400, "there is no such form on this page")

    async def _sign_in(self, exchange: Exchange, visitor: Visitor, key: str) -> None:
        session = await self._visiting.sign_in(exchange, key)
        if isinstance(session, str):
            await self._show(exchange, visitor, session, 403)
        else:
            await send_elsewhere(exchange, self._place.prefix, self._sessions.cookie(session))

    async def _decide(self, exchange: Exchange, visitor: Visitor, caller: Caller, fields: dict[str, str]) -> None:
        approval_id = _id(exchange)

        method: Method = "passkey" if fields["action"] == "passkey" else "totp"

        async def prove(person: str, approval: Approval) -> None:
            if method == "passkey":
                answer = fields.get("credential", "")
                await self._passkeys.check(person, purpose_of(approval), answer, exchange.headers)
            else:
                await self._factors.check_code(person, fields.get("code", ""))

        try:
            if fields["action"] == "deny":
                await self._deciding.deny(approval_id, caller, _DIALECT)
            else:
                await self._deciding.approve(approval_id, caller, _DIALECT, method, prove)
        except (WrongFactor, Limited) as wrong:
            await self._show(exchange, visitor, wrong.message, 429 if isinstance(wrong, Limited) else 403)
        except TooLate:
            await self._show(exchange, visitor, status=410)
        except StoreFailed as failed:
            await self._show(exchange, visitor, f"nothing was decided: {failed}", 503)
        except (Denied, NotFound) as error:
            await self._send(exchange, visitor, _status(error), views.refused(error.message))
        else:
            await send_elsewhere(exchange, self._place.prefix)

    async def _show(self, exchange: Exchange, visitor: Visitor, wrong: str = "", status: int = 200) -> None:
        """The page for this visitor; who has not signed in is not even told whether there is one."""
        word = self._words(exchange, visitor)
        if visitor.caller is None:
            await self._send(exchange, visitor, status, views.sign_in(word("sign_in"), wrong))
            return
        try:
            found = await self._deciding.seen(_id(exchange), visitor.caller)
        except (Denied, NotFound) as error:
            again = word("sign_in") if isinstance(error, Denied) else None
            await self._send(
                exchange, visitor, _status(error), views.refused(error.message, again, wrong, person_of(visitor.caller))
            )
            return
        if found.state != "pending":
            over = max(status, _OVER.get(found.state, 200))
            await self._send(exchange, visitor, over, views.over(found))
            return
        page = views.question(await self._asked(exchange, visitor.caller, found), word, wrong)
        await self._send(exchange, visitor, status, page)

    async def _asked(self, exchange: Exchange, caller: Caller, found: Approval) -> views.Question:
        person = person_of(caller)
        allowed = may_approve(caller, found)
        known = await self._factors.of(person) if allowed else ()
        has_passkey = any(each.kind == "passkey" for each in known)
        options = await self._passkeys.to_prove(person, purpose_of(found), exchange.headers) if has_passkey else None
        return views.Question(
            approval=found,
            before=await self._deciding.approvals.store.before(found),
            now=self._factors.clock(),
            person=person,
            allowed=allowed,
            kinds=frozenset(each.kind for each in known),
            passkey=options,
            signed_in=not caller.local,
        )

    def _words(self, exchange: Exchange, visitor: Visitor) -> views.Words:
        return lambda action: self._sessions.word(visitor.session, f"{action} {exchange.path}")

    async def _send(self, exchange: Exchange, visitor: Visitor, status: int, page: bytes) -> None:
        cookie = (self._sessions.cookie(visitor.session),) if visitor.new else ()
        await send_page(exchange, self._place.prefix, status, page, *cookie)


def purpose_of(approval: Approval) -> str:
    """What a passkey signs: this approval, of these bytes, for this user."""
    return f"{approval.id} {approval.shown_sha256} {approval.acting_for or ''}"


def _id(exchange: Exchange) -> str:
    found = _ID.fullmatch(exchange.path.removeprefix(PATH))
    return found[0] if found else ""


def _status(error: ToolhallError) -> int:
    return 404 if isinstance(error, NotFound) else 403
