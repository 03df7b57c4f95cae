"""Sign-in for pages: sealed session cookies, CSRF tokens, and `PageAuth`, which finds the user of a request.

A session lasts 15 minutes. An API key in it is verified again with every request, so that revoking the key ends the
session.
"""

import base64
import hmac
import secrets
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from toolhall.auth.authenticator import AuthenticationFailed, Headers, RequestAuthenticator, resolve_caller
from toolhall.http.request import HttpRequest
from toolhall.model.caller import Caller
from toolhall.model.errors import Limited
from toolhall.stores.crypto import SealedBox
from toolhall.web.public_url import PublicUrl

SESSION_SECONDS = 900
_SEAL_CONTEXT = b"page session"
_COOKIE_NAME = "toolhall"


class PageSession(msgspec.Struct, frozen=True, kw_only=True):
    """One browser; `key` is asked again each time, so that a revoked one is good for nothing at once."""

    nonce: str
    expires: float
    key: str | None = None
    caller: Caller | None = None  # by a token, which no cookie would hold


class PageSessions:
    """Reads and writes the cookie."""

    def __init__(self, seal: SealedBox, key: bytes, public_url: PublicUrl, clock: Callable[[], float]) -> None:
        self._seal = seal
        self._key = key
        self._public_url = public_url
        self._clock = clock
        self._decode = msgspec.json.Decoder(PageSession).decode

    def new(self, *, key: str | None = None, caller: Caller | None = None) -> PageSession:
        """Of nobody in particular, or of whoever has just signed in; never the one of before."""
        until = self._clock() + SESSION_SECONDS
        if caller is not None and caller.expires_at is not None:
            until = min(until, caller.expires_at)
        plain = None if caller is None else msgspec.structs.replace(caller, credential=None)
        return PageSession(nonce=secrets.token_urlsafe(16), expires=until, key=key, caller=plain)

    def read(self, headers: Headers) -> PageSession | None:
        """The session of a request, if it has one that is ours and not over."""
        found = [value for name, value in parse_cookies(headers) if name == self._name]
        if len(found) != 1:  # two would leave open which one counts
            return None
        text = self._seal.open(found[0], _SEAL_CONTEXT)
        session = None if text is None else self._decode(text)
        return session if session is not None and session.expires > self._clock() else None

    def set_cookie(self, session: PageSession) -> tuple[bytes, bytes]:
        """The header that sets it; no script can read it, and no other site's page can send it."""
        sealed = self._seal.seal(msgspec.json.encode(session), _SEAL_CONTEXT)
        said = f"{self._name}={sealed}; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict; {self._public_url.cookie_scope}"
        return b"set-cookie", said.encode()

    def csrf_token(self, session: PageSession, purpose: str) -> str:
        """What a form of this session must bring for this purpose."""
        said = hmac.digest(self._key, msgspec.json.encode([session.nonce, purpose]), "sha256")
        return base64.urlsafe_b64encode(said).decode()

    def check_csrf_token(self, session: PageSession, purpose: str, token: str) -> bool:
        """Whether a form brought it."""
        return hmac.compare_digest(self.csrf_token(session, purpose).encode(), token.encode("utf-8", "surrogatepass"))

    @property
    def _name(self) -> str:
        return self._public_url.cookie_name(_COOKIE_NAME)


def parse_cookies(headers: Headers) -> list[tuple[str, str]]:
    """Every cookie of a request, in order; a name may be there twice."""
    sent = headers.get(b"cookie", b"").decode("latin-1").replace(",", ";").split(";")
    pairs = [each.strip().partition("=") for each in sent]
    return [(name, value) for name, _, value in pairs]


WRONG_KEY = "this key is not valid here: unknown, expired or revoked"


class PageUser(NamedTuple):
    """One browser, and whoever sits before it, if that is known; `new` sets its cookie."""

    session: PageSession
    caller: Caller | None
    is_new: bool


class PageAuth:
    """Nobody is signed in by a link."""

    def __init__(self, sessions: PageSessions, authenticator: RequestAuthenticator) -> None:
        self.sessions = sessions
        self._authenticator = authenticator

    async def current_user(self, request: HttpRequest) -> PageUser:
        """Whoever has signed in here, or else the person at this machine where the profile says so."""
        session = self.sessions.read(request.headers)
        if session is None:
            return PageUser(self.sessions.new(), self._local_caller(request), is_new=True)
        caller = session.caller
        if session.key is not None:
            try:
                caller = await self._authenticate(request, session.key)
            except AuthenticationFailed:  # revoked since, or expired
                caller = None
        return PageUser(session, caller or self._local_caller(request), is_new=False)

    async def sign_in(self, request: HttpRequest, credential: str) -> PageSession | str:
        """A new session, or what is wrong."""
        given = credential.strip()
        try:
            caller = await self._authenticate(request, given)
        except AuthenticationFailed as refused:
            return refused.error.message if isinstance(refused.error, Limited) else WRONG_KEY
        if caller.local or caller.proof == "none":
            return WRONG_KEY
        if caller.proof in ("key", "shared"):
            return self.sessions.new(key=given)
        return self.sessions.new(caller=caller)

    async def _authenticate(self, request: HttpRequest, credential: str) -> Caller:
        headers = {b"authorization": b"Bearer " + credential.encode("utf-8", "replace")}
        return await resolve_caller(self._authenticator.authenticate(request.scope, headers))

    def _local_caller(self, request: HttpRequest) -> Caller | None:
        return request.caller if request.caller.local else None
