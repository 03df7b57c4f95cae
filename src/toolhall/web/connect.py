"""`ConnectPage`, `CallbackPage` and `ClientDocumentEndpoint`: linking at `/connect/{id}` and below `/oauth/`.

The provider's redirect counts only in the browser that was sent to the provider: one cookie per link (`LinkCookies`)
holds a nonce. Each step is audited (`AccountLinkFlow`).
"""

import logging
import re
from collections.abc import Callable

from toolhall.auth.authenticator import Headers
from toolhall.dialects.openapi.errors import write_error
from toolhall.http.request import HttpRequest, Methods
from toolhall.model.caller import Caller
from toolhall.model.errors import Denied, Limited, NotFound, ToolhallError, Unavailable
from toolhall.model.json import encode
from toolhall.model.messages import WireResponse
from toolhall.oauth.authorization_code import CALLBACK_PATH, link_id_from_state, parse_query
from toolhall.oauth.broker import Broker, LinkConsent
from toolhall.oauth.client_identity import CLIENT_DOCUMENT_PATH, CLIENT_DOCUMENTS_PATH, client_document
from toolhall.oauth.link import LINK_PATH, can_use_link
from toolhall.oauth.providers import LinkFailed, is_safe_url
from toolhall.pipeline.admin import AdminExecutor, AdminOperation
from toolhall.pipeline.approvals import person_of
from toolhall.stores.accounts import AccountLink
from toolhall.web import views
from toolhall.web.approve import PAGE_DIALECT
from toolhall.web.auth import PageAuth, PageUser, SignInPage
from toolhall.web.html import Page
from toolhall.web.pages import SECURITY_HEADERS, STATUS_SUFFIX, ResponseHeaders, redirect, send_page, send_status
from toolhall.web.public_url import PublicUrl
from toolhall.web.sessions import parse_cookies
from toolhall.web.views import CsrfTokens

LINK_COOKIE_SECONDS = 600
_LINK_COOKIE = "toolhall-link-"
_LINK_ID = re.compile(r"[A-Za-z0-9_-]{22}")
# Browsers apply a form's policy to every redirect that follows, and providers redirect among several hosts of their
# own; so the policy can name no host. A hall on this machine may have a provider there, too.
_PROVIDER_FORM_ACTION = b"form-action 'self' https:"
_LOCAL_PROVIDER_FORM_ACTION = _PROVIDER_FORM_ACTION + b" http://localhost:* http://127.0.0.1:*"
_CALLBACK_PARAMETERS = ("state", "code", "iss", "error", "error_description")  # RFC 6749: others must be ignored
_UNSAFE = "the provider's address is none that a browser may be sent to; the operator checks the provider's settings"
_OTHER_BROWSER = "this browser did not begin here; open the link again, and allow cookies"
_STATUSES: dict[type[ToolhallError], int] = {Unavailable: 503, Limited: 429, Denied: 403}
_log = logging.getLogger("toolhall.pages")


class ConnectPage(SignInPage):
    """Shows a link to the person it is for, and sends that person's browser to the provider."""

    actions = frozenset({"connect"})

    def __init__(
        self, flow: "AccountLinkFlow", page_auth: PageAuth, public_url: PublicUrl, clock: Callable[[], float]
    ) -> None:
        super().__init__(page_auth, public_url)
        self._flow = flow
        self._clock = clock
        self._cookies = LinkCookies(public_url)

    async def get(self, request: HttpRequest) -> None:
        """Send the page, or the link's status for a waiting program."""
        if request.path.endswith(STATUS_SUFFIX):
            await self._status(request)
        else:
            await self._show(request, await self._page_auth.current_user(request))

    async def _status(self, request: HttpRequest) -> None:
        """Send the status; an error of the store is sent as an error, because nothing has been decided."""
        try:
            link = await self._flow.find(_link_id(request.path.removesuffix(STATUS_SUFFIX)))
        except ToolhallError as error:
            await request.reply(write_error(error))
        else:
            await send_status(request, link)

    async def _handle_signed_in(
        self,
        request: HttpRequest,
        user: PageUser,
        caller: Caller,
        fields: dict[str, str],  # noqa: ARG002 - one button
    ) -> None:
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
        """Send the page as this user may see it; without signing in, not even whether the link exists."""
        csrf_token = self._csrf_tokens(request, user)
        if user.caller is None:
            await self._send(request, user, status, views.link_sign_in(csrf_token("sign_in"), problem))
            return
        try:
            link = await self._flow.find(_link_id(request.path))
            if link is None:
                await self._send(request, user, 404, views.link_not_found())
            elif not can_use_link(link, user.caller):
                page = views.link_not_yours(csrf_token("sign_in"), person_of(user.caller), problem)
                await self._send(request, user, 403, page)
            elif link.state != "pending" or link.how != "browser":
                await self._send(request, user, status, views.link_closed(link))
            else:
                page = await self._link_form(link, user.caller, csrf_token, problem)
                await self._send(request, user, status, page, departure_headers(self._public_url))
        except ToolhallError as error:
            await self._send(request, user, error_status(error), views.link_failed(error.message))

    async def _link_form(self, link: AccountLink, caller: Caller, csrf_token: CsrfTokens, problem: str) -> Page:
        consent = await self._flow.describe(link, caller)
        view = views.LinkView(consent=consent, now=self._clock(), person=person_of(caller), signed_in=not caller.local)
        return views.link_form(view, csrf_token, problem)


class CallbackPage:
    """Receives the provider's redirect and shows how it ended; nothing that came with the redirect is on the page."""

    def __init__(self, flow: "AccountLinkFlow", cookies: "LinkCookies", public_url: PublicUrl) -> None:
        self._flow = flow
        self._cookies = cookies
        self._public_url = public_url

    async def get(self, request: HttpRequest) -> None:
        """Finish the link that the redirect is for; the cookie stays unless the link is used up."""
        try:
            parameters = _read_parameters(request.query)
            link, nonce = await self._find_link(request, link_id_from_state(parameters.get("state")) or "")
        except ToolhallError as error:
            await self._send(request, error_status(error), views.link_failed(error.message))
            return
        try:
            linked = await self._flow.finish(link, request.path, parameters, nonce)
        except ToolhallError as error:
            # A forged redirect does not use up the link: the real one may still come.
            cookie = (self._cookies.clear_cookie(link.id),) if await self._flow.is_closed(link) else ()
            await self._send(request, error_status(error), views.link_failed(error.message), *cookie)
        else:
            await self._send(request, 200, views.link_closed(linked), self._cookies.clear_cookie(link.id))

    async def _find_link(self, request: HttpRequest, link_id: str) -> tuple[AccountLink, str]:
        """Return the link of the redirect and this browser's nonce for it; LinkFailed without either."""
        nonce = self._cookies.read(request.headers, link_id)
        if nonce is None:
            raise LinkFailed(_OTHER_BROWSER)
        link = await self._flow.find(link_id)
        if link is None:
            raise LinkFailed
        return link, nonce

    async def _send(self, request: HttpRequest, status: int, page: Page, *cookie: tuple[bytes, bytes]) -> None:
        await send_page(request, self._public_url.prefix, status, page, *cookie, headers=callback_headers())


class ClientDocumentEndpoint:
    """`GET /oauth/client.json`: what authorization servers of upstreams read to know the hall as a client."""

    def __init__(self, public_url: PublicUrl) -> None:
        self._public_url = public_url

    async def get(self, request: HttpRequest) -> None:
        """Send the document; its address is the client's id, so it exists only where that is https."""
        document = client_document(self._public_url.url, request.path) if self._public_url.is_secure else None
        if document is None:
            error = NotFound("there is no client document here; it takes a public_url with https")
            await request.reply(write_error(error))
        else:
            await request.reply(WireResponse(encode(document)))


class AccountLinkFlow:
    """The steps of linking an account, each audited; only the link's own person gets beyond `find`."""

    def __init__(self, broker: Broker, admin: AdminExecutor) -> None:
        self._broker = broker
        self._admin = admin

    async def find(self, link_id: str) -> AccountLink | None:
        """Return the link as it stands now; raises Unavailable."""
        return await self._broker.find_link(link_id) if _LINK_ID.fullmatch(link_id) else None

    async def describe(self, link: AccountLink, caller: Caller) -> LinkConsent:
        """Return what the person is asked to agree to."""
        return await self._broker.describe_consent(link.id, caller)

    async def start(self, link: AccountLink, caller: Caller) -> tuple[str, str]:
        """Return the provider's URL and the browser's nonce; before this step, no redirect can belong to the link."""

        async def apply() -> tuple[str, str]:
            if not is_open(link, caller):
                raise LinkFailed
            url, nonce = await self._broker.consent(link.id, caller)
            if not is_safe_url(url):
                _log.warning("nobody is sent to %s: its address is neither https nor on this machine", link.provider)
                raise LinkFailed(_UNSAFE)
            return url, nonce

        return await self._admin(_audited_operation("agree to link", link), caller, apply)

    async def finish(self, link: AccountLink, path: str, parameters: dict[str, str], nonce: str) -> AccountLink:
        """Link the account, or raise LinkFailed; the nonce proves who agreed, so no sign-in is needed."""

        async def apply() -> AccountLink:
            return await self._broker.finish_redirect(path, parameters, nonce)

        return await self._admin(_audited_operation("link", link), Caller(link.caller, person=link.user), apply)

    async def is_closed(self, link: AccountLink) -> bool:
        """Whether the link is used up; False if the store does not answer."""
        try:
            now = await self._broker.find_link(link.id)
        except Unavailable:
            return False
        return now is None or now.state != "pending"


class LinkCookies:
    """One cookie per link, so that two links can be under way; sent with the provider's redirect (SameSite=Lax)."""

    def __init__(self, public_url: PublicUrl) -> None:
        self._public_url = public_url

    def read(self, headers: Headers, link_id: str) -> str | None:
        """Return the nonce of this browser for this link; None unless exactly one cookie has it."""
        values = [value for name, value in parse_cookies(headers) if name == self._name(link_id)]
        return values[0] if len(values) == 1 else None

    def set_cookie(self, link_id: str, nonce: str) -> tuple[bytes, bytes]:
        """Return the header that sets the cookie; `Lax`, because the browser comes back from another site."""
        return self._cookie_header(link_id, nonce, LINK_COOKIE_SECONDS)

    def clear_cookie(self, link_id: str) -> tuple[bytes, bytes]:
        """Return the header that removes the cookie."""
        return self._cookie_header(link_id, "", 0)

    def _cookie_header(self, link_id: str, value: str, seconds: int) -> tuple[bytes, bytes]:
        scope = self._public_url.cookie_scope
        cookie = f"{self._name(link_id)}={value}; Max-Age={seconds}; HttpOnly; SameSite=Lax; {scope}"
        return b"set-cookie", cookie.encode()

    def _name(self, link_id: str) -> str:
        return self._public_url.cookie_name(f"{_LINK_COOKIE}{link_id}")


def is_open(link: AccountLink, caller: Caller) -> bool:
    """Whether this person may go on with the link in a browser."""
    return link.state == "pending" and link.how == "browser" and can_use_link(link, caller)


def departure_headers(public_url: PublicUrl) -> ResponseHeaders:
    """Return the headers of a page whose form leads to a provider."""
    return _with_replaced(
        b"content-security-policy",
        b"form-action 'self'",
        _PROVIDER_FORM_ACTION if public_url.is_secure else _LOCAL_PROVIDER_FORM_ACTION,
    )


def callback_headers() -> ResponseHeaders:
    """Return the headers of the callback page, whose address holds a code and must not become a referrer."""
    return _with_replaced(b"referrer-policy", b"same-origin", b"no-referrer")


def error_status(error: ToolhallError) -> int:
    """Return the HTTP status for an error, and log its detail, which the page does not show."""
    if error.detail:
        _log.warning("%s: %s", type(error).__name__, error.detail)
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 400)


def _with_replaced(name: bytes, old: bytes, new: bytes) -> ResponseHeaders:
    return tuple((each, value.replace(old, new) if each == name else value) for each, value in SECURITY_HEADERS)


def _audited_operation(verb: str, link: AccountLink) -> AdminOperation:
    facts = {"link": link.id, "user": link.user, "issuer": link.issuer, "scopes": [*link.scopes], "tool": link.tool}
    return AdminOperation(f"{verb} {link.provider} {link.id}", PAGE_DIALECT, facts, personal=True)


def _link_id(path: str) -> str:
    return path.removeprefix(LINK_PATH)


def _read_parameters(query: bytes) -> dict[str, str]:
    """Return the known parameters of the redirect; LinkFailed if one is there twice."""
    parameters = parse_query(query.decode("latin-1"))
    return {name: parameters[name] for name in _CALLBACK_PARAMETERS if name in parameters}


def account_link_routes(
    broker: Broker, admin: AdminExecutor, page_auth: PageAuth, public_url: PublicUrl, clock: Callable[[], float]
) -> dict[str, Methods]:
    """Return the routes of links and of provider redirects: one path for all providers, or one below it for each."""
    flow, cookies = AccountLinkFlow(broker, admin), LinkCookies(public_url)
    connect, callback = ConnectPage(flow, page_auth, public_url, clock), CallbackPage(flow, cookies, public_url)
    callback_methods: Methods = {"GET": callback.get}
    document_methods: Methods = {"GET": ClientDocumentEndpoint(public_url).get}
    return {
        CLIENT_DOCUMENT_PATH: document_methods,
        CLIENT_DOCUMENTS_PATH: document_methods,
        LINK_PATH: {"GET": connect.get, "POST": connect.post},
        CALLBACK_PATH: callback_methods,
        f"{CALLBACK_PATH}/": callback_methods,
    }
