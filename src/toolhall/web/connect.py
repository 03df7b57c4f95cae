"""`ConnectPage` and `CallbackPage`: linking an OAuth account at `/connect/{id}` and `/oauth/callback`.

The callback counts only in the browser that was sent to the provider: a cookie per link (`LinkCookies`) holds a
nonce. Each step is audited (`AccountLinkFlow`).
"""

import logging
import re
from collections.abc import Callable

from toolhall.auth.authenticator import Headers
from toolhall.dialects.openapi.builders import write_error
from toolhall.http.request import HttpRequest
from toolhall.http.request_guard import RequestRejected
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Limited, ToolhallError, Unavailable
from toolhall.oauth.authorization_code import link_id_from_state, parse_query
from toolhall.oauth.broker import Broker, LinkConsent
from toolhall.oauth.errors import LinkFailed
from toolhall.oauth.link import LINK_PATH, can_use_link
from toolhall.oauth.providers import is_safe_url
from toolhall.pipeline.admin import AdminExecutor, AdminOperation
from toolhall.pipeline.approvals import person_of
from toolhall.stores.accounts import AccountLink
from toolhall.web import views
from toolhall.web.auth import PageAuth, PageUser, parse_cookies
from toolhall.web.pages import (
    SECURITY_HEADERS,
    STATUS_SUFFIX,
    ResponseHeaders,
    read_form,
    redirect,
    redirect_to_self,
    send_page,
    send_status,
)
from toolhall.web.pages import ResponseHeaders as Sent
from toolhall.web.public_url import PublicUrl
from toolhall.web.views import CsrfTokens

LINK_COOKIE_SECONDS = 600
_LINK_COOKIE = "toolhall-link-"
# Browsers hold a form to its policy through every redirect that follows, and providers send people around among
# several hosts of their own; so the policy can name no host. A hall on this machine may have a provider there, too.
_PROVIDER_FORM_ACTION = b"form-action 'self' https:"
_LOCAL_PROVIDER_FORM_ACTION = _PROVIDER_FORM_ACTION + b" http://localhost:* http://127.0.0.1:*"


class LinkCookies:
    """One for each link, so that two can be under way; the provider's redirect brings it, a form of others does not."""

    def __init__(self, public_url: PublicUrl) -> None:
        self._public_url = public_url

    def read(self, headers: Headers, link_id: str) -> str | None:
        """What this browser was given for this link, once."""
        found = [value for name, value in parse_cookies(headers) if name == self._name(link_id)]
        return found[0] if len(found) == 1 else None

    def set_cookie(self, link_id: str, nonce: str) -> tuple[bytes, bytes]:
        """The header that sets it; `Lax`, because the browser comes back from another site."""
        return self._cookie_header(link_id, nonce, LINK_COOKIE_SECONDS)

    def clear_cookie(self, link_id: str) -> tuple[bytes, bytes]:
        """The header that removes it."""
        return self._cookie_header(link_id, "", 0)

    def _cookie_header(self, link_id: str, value: str, seconds: int) -> tuple[bytes, bytes]:
        where = self._public_url.cookie_scope
        said = f"{self._name(link_id)}={value}; Max-Age={seconds}; HttpOnly; SameSite=Lax; {where}"
        return b"set-cookie", said.encode()

    def _name(self, link_id: str) -> str:
        return self._public_url.cookie_name(f"{_LINK_COOKIE}{link_id}")


def departure_headers(public_url: PublicUrl) -> Sent:
    """The headers of a page whose form leads to a provider."""
    return _with_replaced(
        b"content-security-policy",
        b"form-action 'self'",
        _PROVIDER_FORM_ACTION if public_url.is_secure else _LOCAL_PROVIDER_FORM_ACTION,
    )


def callback_headers() -> Sent:
    """The headers of the page that a provider leads to: its address, which holds a code, is told to nobody."""
    return _with_replaced(b"referrer-policy", b"same-origin", b"no-referrer")


def _with_replaced(name: bytes, old: bytes, new: bytes) -> Sent:
    return tuple((each, said.replace(old, new) if each == name else said) for each, said in SECURITY_HEADERS)


_log = logging.getLogger("toolhall.pages")
_LINK_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_DIALECT = "page"
_UNSAFE = "the provider's address is none that a browser may be sent to; the operator checks the provider's settings"
_STATUSES: dict[type[ToolhallError], int] = {Unavailable: 503, Limited: 429, Denied: 403}


class AccountLinkFlow:
    """Whoever is not the person of a link gets no further than to see that there is one."""

    def __init__(self, broker: Broker, admin: AdminExecutor) -> None:
        self._broker = broker
        self._admin = admin

    async def find(self, link_id: str) -> AccountLink | None:
        """The link as it stands now; raises Unavailable."""
        return await self._broker.find_link(link_id) if _LINK_ID.fullmatch(link_id) else None

    async def describe(self, link: AccountLink, caller: Caller) -> LinkConsent:
        """What the person is asked to agree to."""
        return await self._broker.describe_consent(link.id, caller)

    async def start(self, link: AccountLink, caller: Caller) -> tuple[str, str]:
        """Where the browser goes now, and what it must bring back; before this, no answer could belong to the link."""

        async def apply() -> tuple[str, str]:
            if not is_open(link, caller):
                raise LinkFailed
            url, nonce = await self._broker.consent(link.id, caller)
            if not is_safe_url(url):
                _log.warning("nobody is sent to %s: its address is neither https nor on this machine", link.provider)
                raise LinkFailed(_UNSAFE)
            return url, nonce

        return await self._admin(_audited_change("agree to link", link), caller, apply)

    async def finish(self, link: AccountLink, path: str, answer: dict[str, str], nonce: str) -> AccountLink:
        """The account is linked, or LinkFailed says why not; who agreed is known, so nobody signs in again."""

        async def apply() -> AccountLink:
            return await self._broker.finish_redirect(path, answer, nonce)

        return await self._admin(_audited_change("link", link), Caller(link.caller, person=link.user), apply)

    async def is_closed(self, link: AccountLink) -> bool:
        """Whether it was used up; what cannot be found out is not."""
        try:
            now = await self._broker.find_link(link.id)
        except Unavailable:
            return False
        return now is None or now.state != "pending"


def is_open(link: AccountLink, caller: Caller) -> bool:
    """Whether this person may go on with it in a browser."""
    return link.state == "pending" and link.how == "browser" and can_use_link(link, caller)


def error_status(error: ToolhallError) -> int:
    """The status of a page that says what went wrong; what it does not say is for the log."""
    if error.detail:
        _log.warning("%s: %s", type(error).__name__, error.detail)
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 400)


def _audited_change(verb: str, link: AccountLink) -> AdminOperation:
    facts = {"link": link.id, "user": link.user, "issuer": link.issuer, "scopes": [*link.scopes], "tool": link.tool}
    return AdminOperation(f"{verb} {link.provider} {link.id}", _DIALECT, facts, personal=True)


_STALE = "this form is too old, or of another page; read what is here now, and decide again"


class ConnectPage:
    """Shows a link to the person it is for, and sends that person's browser to the provider."""

    def __init__(
        self, flow: AccountLinkFlow, page_auth: PageAuth, public_url: PublicUrl, clock: Callable[[], float]
    ) -> None:
        self._flow = flow
        self._page_auth = page_auth
        self._sessions = page_auth.sessions
        self._public_url = public_url
        self._clock = clock
        self._cookies = LinkCookies(public_url)

    async def get(self, request: HttpRequest) -> None:
        """The page, or how far the link is."""
        if request.path.endswith(STATUS_SUFFIX):
            await self._status(request)
        else:
            await self._show(request, await self._page_auth.current_user(request))

    async def post(self, request: HttpRequest) -> None:
        """A form of the page: sign in, sign out, go on."""
        fields = await read_form(request, self._public_url)
        visitor = await self._page_auth.current_user(request)
        action = fields.get("action", "")
        if visitor.is_new or not self._sessions.check_csrf_token(
            visitor.session, f"{action} {request.path}", fields.get("word", "")
        ):
            await self._show(request, visitor, _STALE, 403)
            return
        match action:
            case "sign_in":
                await self._sign_in(request, visitor, fields.get("key", ""))
            case "sign_out":
                await redirect_to_self(
                    request, self._public_url.prefix, self._sessions.set_cookie(self._sessions.new())
                )
            case "connect" if visitor.caller is not None:
                await self._connect(request, visitor, visitor.caller)
            case _:
                raise RequestRejected(400, "there is no such form on this page")

    async def _status(self, request: HttpRequest) -> None:
        """For whoever waits; a store that does not answer has decided nothing."""
        try:
            found = await self._flow.find(_link_id(request.path.removesuffix(STATUS_SUFFIX)))
        except ToolhallError as error:
            await request.reply(write_error(error))
        else:
            await send_status(request, found)

    async def _sign_in(self, request: HttpRequest, user: PageUser, key: str) -> None:
        session = await self._page_auth.sign_in(request, key)
        if isinstance(session, str):
            await self._show(request, user, session, 403)
        else:
            await redirect_to_self(request, self._public_url.prefix, self._sessions.set_cookie(session))

    async def _connect(self, request: HttpRequest, user: PageUser, caller: Caller) -> None:
        try:
            link = await self._flow.find(_link_id(request.path))
            if link is None or not can_use_link(link, caller):
                await self._show(request, user)
                return
            url, nonce = await self._flow.start(link, caller)
        except ToolhallError as error:
            await self._send(request, user, error_status(error), views.link_failed(error.message))
        else:
            await redirect(request, url.encode("ascii"), self._cookies.set_cookie(link.id, nonce))

    async def _show(self, request: HttpRequest, user: PageUser, problem: str = "", status: int = 200) -> None:
        """The page for this visitor; who has not signed in is not even told whether there is one."""
        word = self._csrf_tokens(request, user)
        if user.caller is None:
            await self._send(request, user, status, views.link_sign_in(word("sign_in"), problem))
            return
        try:
            link = await self._flow.find(_link_id(request.path))
            if link is None:
                await self._send(request, user, 404, views.link_not_found())
            elif not can_use_link(link, user.caller):
                page = views.link_not_yours(word("sign_in"), person_of(user.caller), problem)
                await self._send(request, user, 403, page)
            elif link.state != "pending" or link.how != "browser":
                await self._send(request, user, status, views.link_closed(link))
            else:
                page = await self._link_form(link, user.caller, word, problem)
                await self._send(request, user, status, page, departure_headers(self._public_url))
        except ToolhallError as error:
            await self._send(request, user, error_status(error), views.link_failed(error.message))

    async def _link_form(self, link: AccountLink, caller: Caller, csrf_token: CsrfTokens, problem: str) -> bytes:
        asked = await self._flow.describe(link, caller)
        shown = views.LinkView(consent=asked, now=self._clock(), person=person_of(caller), signed_in=not caller.local)
        return views.link_form(shown, csrf_token, problem)

    def _csrf_tokens(self, request: HttpRequest, user: PageUser) -> CsrfTokens:
        return lambda action: self._sessions.csrf_token(user.session, f"{action} {request.path}")

    async def _send(
        self,
        request: HttpRequest,
        user: PageUser,
        status: int,
        page: bytes,
        headers: ResponseHeaders = SECURITY_HEADERS,
    ) -> None:
        cookie = (self._sessions.set_cookie(user.session),) if user.is_new else ()
        await send_page(request, self._public_url.prefix, status, page, *cookie, headers=headers)


def _link_id(path: str) -> str:
    return path.removeprefix(LINK_PATH)


_ANSWER_PARAMETERS = (
    "state",
    "code",
    "iss",
    "error",
    "error_description",
)  # RFC 6749: what else there is must be ignored
_OTHER_BROWSER = "this browser did not begin here; open the link again, and allow cookies"


class CallbackPage:
    """Shows how it ended, in words of our own: nothing that came with the answer is on the page."""

    def __init__(self, flow: AccountLinkFlow, cookies: LinkCookies, public_url: PublicUrl) -> None:
        self._flow = flow
        self._cookies = cookies
        self._public_url = public_url

    async def get(self, request: HttpRequest) -> None:
        """The answer of a provider."""
        try:
            answer = _read_answer(request.query)
            link, nonce = await self._find_link(request, link_id_from_state(answer.get("state")) or "")
        except ToolhallError as error:
            await self._send(request, error_status(error), views.link_failed(error.message))
            return
        try:
            done = await self._flow.finish(link, request.path, answer, nonce)
        except ToolhallError as error:
            # An answer that somebody made up uses nothing up: the right one may still come.
            spent = (self._cookies.clear_cookie(link.id),) if await self._flow.is_closed(link) else ()
            await self._send(request, error_status(error), views.link_failed(error.message), *spent)
        else:
            await self._send(request, 200, views.link_closed(done), self._cookies.clear_cookie(link.id))

    async def _find_link(self, request: HttpRequest, link_id: str) -> tuple[AccountLink, str]:
        """The link that an answer is for, and what this browser was given for it."""
        nonce = self._cookies.read(request.headers, link_id)
        if nonce is None:
            raise LinkFailed(_OTHER_BROWSER)
        link = await self._flow.find(link_id)
        if link is None:
            raise LinkFailed
        return link, nonce

    async def _send(self, request: HttpRequest, status: int, page: bytes, *cookie: tuple[bytes, bytes]) -> None:
        await send_page(request, self._public_url.prefix, status, page, *cookie, headers=callback_headers())


def _read_answer(query: bytes) -> dict[str, str]:
    """What is read of an answer; LinkFailed where something is there twice."""
    found = parse_query(query.decode("latin-1"))
    return {name: found[name] for name in _ANSWER_PARAMETERS if name in found}
