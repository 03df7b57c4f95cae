"""`ApprovePage`, `/approve/{id}`: shows the exact call to a person, who approves or denies it."""

import re
from typing import NamedTuple

from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestRejected
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Limited, NotFound, ToolhallError
from toolhall.pipeline.approvals import APPROVE_PATH, ApprovalDecisions, TooLate, can_approve, person_of
from toolhall.pipeline.second_factors import SecondFactors, WrongFactor
from toolhall.stores.approvals import Approval, ApprovalMethod
from toolhall.stores.common import StoreFailed
from toolhall.web import views
from toolhall.web.auth import PageAuth, PageUser
from toolhall.web.pages import STATUS_SUFFIX, read_form, redirect_to_self, send_asset, send_page, send_status
from toolhall.web.passkeys import Passkeys
from toolhall.web.public_url import PublicUrl

_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_DIALECT = "page"
_CLOSED_STATUSES = {"consumed": 410, "expired": 410}
_STALE = "this form is too old, or of another page; read what is here now, and decide again"


class PageComponents(NamedTuple):
    """What the page is made of."""

    decisions: ApprovalDecisions
    factors: SecondFactors
    passkeys: Passkeys
    page_auth: PageAuth
    public_url: PublicUrl


class ApprovePage:
    """Shows one approval to whom it concerns, and takes the decision by a form."""

    def __init__(self, parts: PageComponents) -> None:
        self._decisions = parts.decisions
        self._factors = parts.factors
        self._passkeys = parts.passkeys
        self._page_auth = parts.page_auth
        self._sessions = parts.page_auth.sessions
        self._public_url = parts.public_url

    async def get(self, request: HttpRequest) -> None:
        """The page, or its style and script."""
        name = request.path.removeprefix(APPROVE_PATH)
        if name.startswith("-/"):
            await send_asset(request, name.removeprefix("-/"))
            return
        if name.endswith(STATUS_SUFFIX):
            await send_status(request, await self._decisions.approvals.store.find(name.removesuffix(STATUS_SUFFIX)))
            return
        await self._show(request, await self._page_auth.current_user(request))

    async def post(self, request: HttpRequest) -> None:
        """A form of the page: sign in, sign out, approve, deny."""
        fields = await read_form(request, self._public_url)
        visitor = await self._page_auth.current_user(request)
        action = fields.get("action", "")
        purpose = f"{action} {request.path}"
        if visitor.is_new or not self._sessions.check_csrf_token(visitor.session, purpose, fields.get("word", "")):
            await self._show(request, visitor, _STALE, 403)
            return
        match action:
            case "sign_in":
                await self._sign_in(request, visitor, fields.get("key", ""))
            case "sign_out":
                await redirect_to_self(
                    request, self._public_url.prefix, self._sessions.set_cookie(self._sessions.new())
                )
            case "approve" | "passkey" | "deny" if visitor.caller is not None:
                await self._decide(request, visitor, visitor.caller, fields)
            case _:
                raise RequestRejected(400, "there is no such form on this page")

    async def _sign_in(self, request: HttpRequest, user: PageUser, key: str) -> None:
        session = await self._page_auth.sign_in(request, key)
        if isinstance(session, str):
            await self._show(request, user, session, 403)
        else:
            await redirect_to_self(request, self._public_url.prefix, self._sessions.set_cookie(session))

    async def _decide(self, request: HttpRequest, user: PageUser, caller: Caller, fields: dict[str, str]) -> None:
        approval_id = _approval_id(request)

        method: ApprovalMethod = "passkey" if fields["action"] == "passkey" else "totp"

        async def prove(person: str, approval: Approval) -> None:
            if method == "passkey":
                answer = fields.get("credential", "")
                await self._passkeys.verify(person, passkey_purpose(approval), answer, request.headers)
            else:
                await self._factors.check_code(person, fields.get("code", ""))

        try:
            if fields["action"] == "deny":
                await self._decisions.deny(approval_id, caller, _DIALECT)
            else:
                await self._decisions.approve(approval_id, caller, _DIALECT, method, prove)
        except (WrongFactor, Limited) as wrong:
            await self._show(request, user, wrong.message, 429 if isinstance(wrong, Limited) else 403)
        except TooLate:
            await self._show(request, user, status=410)
        except StoreFailed as failed:
            await self._show(request, user, f"nothing was decided: {failed}", 503)
        except (Denied, NotFound) as error:
            await self._send(request, user, _error_status(error), views.approval_refused(error.message))
        else:
            await redirect_to_self(request, self._public_url.prefix)

    async def _show(self, request: HttpRequest, user: PageUser, problem: str = "", status: int = 200) -> None:
        """The page for this visitor; who has not signed in is not even told whether there is one."""
        word = self._csrf_tokens(request, user)
        if user.caller is None:
            await self._send(request, user, status, views.approval_sign_in(word("sign_in"), problem))
            return
        try:
            found = await self._decisions.get_visible(_approval_id(request), user.caller)
        except (Denied, NotFound) as error:
            again = word("sign_in") if isinstance(error, Denied) else None
            await self._send(
                request,
                user,
                _error_status(error),
                views.approval_refused(error.message, again, problem, person_of(user.caller)),
            )
            return
        if found.state != "pending":
            over = max(status, _CLOSED_STATUSES.get(found.state, 200))
            await self._send(request, user, over, views.approval_closed(found))
            return
        page = views.approval_form(await self._view(request, user.caller, found), word, problem)
        await self._send(request, user, status, page)

    async def _view(self, request: HttpRequest, caller: Caller, found: Approval) -> views.ApprovalView:
        person = person_of(caller)
        allowed = can_approve(caller, found)
        known = await self._factors.factors_of(person) if allowed else ()
        has_passkey = any(each.kind == "passkey" for each in known)
        options = (
            await self._passkeys.authentication_options(person, passkey_purpose(found), request.headers)
            if has_passkey
            else None
        )
        return views.ApprovalView(
            approval=found,
            before=await self._decisions.approvals.store.last_approved(found),
            now=self._factors.clock(),
            person=person,
            allowed=allowed,
            kinds=frozenset(each.kind for each in known),
            passkey=options,
            signed_in=not caller.local,
        )

    def _csrf_tokens(self, request: HttpRequest, user: PageUser) -> views.CsrfTokens:
        return lambda action: self._sessions.csrf_token(user.session, f"{action} {request.path}")

    async def _send(self, request: HttpRequest, user: PageUser, status: int, page: bytes) -> None:
        cookie = (self._sessions.set_cookie(user.session),) if user.is_new else ()
        await send_page(request, self._public_url.prefix, status, page, *cookie)


def passkey_purpose(approval: Approval) -> str:
    """What a passkey signs: this approval, of these bytes, for this user."""
    return f"{approval.id} {approval.shown_sha256} {approval.acting_for or ''}"


def _approval_id(request: HttpRequest) -> str:
    found = _ID.fullmatch(request.path.removeprefix(APPROVE_PATH))
    return found[0] if found else ""


def _error_status(error: ToolhallError) -> int:
    return 404 if isinstance(error, NotFound) else 403
