"""Browser sessions: sealed cookies (`BrowserSessions`), their CSRF tokens, and short-lived bearer tokens.

A session is kept nowhere but in its cookie, so every process with the same root key can read it. It ends after 15
minutes without a request, and after 12 hours at most; who signs out ends it before (`EndedSessions`). Of an API key it
holds the key itself, which is verified with every request: revoking the key ends the session.
"""

import base64
import hmac
import secrets
from collections.abc import Callable
from typing import TypeVar

import msgspec

from toolhall.auth.authenticator import Headers
from toolhall.model.caller import Caller
from toolhall.stores.crypto import SealedBox
from toolhall.web.ended_sessions import EndedSessions
from toolhall.web.public_url import PublicUrl

IDLE_SECONDS = 900.0
LONGEST_SECONDS = 12 * 3_600.0
PROOF_SECONDS = 900.0  # how long a person who proved to be present need not do it again
BEARER_SECONDS = 300.0
BEARER_PREFIX = "ts_"
API_PURPOSE = "/api"  # of the token that changes of the management API bring
_RENEW_AFTER_SECONDS = 30.0  # a burst of requests needs one new cookie
_SEAL_CONTEXT = b"page session"
_BEARER_CONTEXT = b"session bearer"
_COOKIE_NAME = "toolhall"
MAX_COOKIE_BYTES = 4_096  # browsers drop longer ones without a word
StructT = TypeVar("StructT", bound=msgspec.Struct)


class BrowserSession(msgspec.Struct, frozen=True, kw_only=True):
    """The sealed content of a browser's session cookie; `key` is verified again with every request."""

    nonce: str
    expires: float  # unless it is renewed
    ends: float  # whatever happens
    key: str | None = None
    caller: Caller | None = None  # of a token, which is too long for a cookie, or of a provider's sign-in
    proven_at: float | None = None  # when the person last proved to be present, by a code or passkey

    @property
    def is_signed_in(self) -> bool:
        """Whether somebody signed in; other sessions only protect forms."""
        return self.key is not None or self.caller is not None


class SessionBearer(msgspec.Struct, frozen=True):
    """The sealed content of a bearer token that a session was given for dialect endpoints."""

    expires: float
    key: str | None
    caller: Caller | None
    nonce: str = ""  # of the session


class BrowserSessions:
    """Reads, writes and renews session cookies, and derives CSRF and bearer tokens from them."""

    def __init__(self, seal: SealedBox, key: bytes, public_url: PublicUrl, clock: Callable[[], float]) -> None:
        self.public_url = public_url
        self.clock = clock
        self.ended = EndedSessions()
        self._seal = seal
        self._key = key

    def new(
        self, *, key: str | None = None, caller: Caller | None = None, lasts: float = LONGEST_SECONDS
    ) -> BrowserSession:
        """Return a session with a new nonce, anonymous or signed in; signing in never continues an old session."""
        now = self.clock()
        ends = now + lasts
        if caller is not None and caller.expires_at is not None:
            ends = min(ends, caller.expires_at)
        plain = None if caller is None else msgspec.structs.replace(caller, credential=None)
        expires = min(now + IDLE_SECONDS, ends)
        return BrowserSession(nonce=secrets.token_urlsafe(16), expires=expires, ends=ends, key=key, caller=plain)

    def renewed(self, session: BrowserSession) -> BrowserSession | None:
        """Return the session with a later expiry; None while that would change little, or if it ends anyway."""
        expires = min(self.clock() + IDLE_SECONDS, session.ends)
        if expires - session.expires < _RENEW_AFTER_SECONDS:
            return None
        return msgspec.structs.replace(session, expires=expires)

    def proven(self, session: BrowserSession) -> BrowserSession:
        """Return the session of a person who has just proved to be present."""
        now = self.clock()
        return msgspec.structs.replace(session, proven_at=now, expires=min(now + IDLE_SECONDS, session.ends))

    def is_proven(self, session: BrowserSession) -> bool:
        """Whether the person proved to be present within the last 15 minutes."""
        return session.proven_at is not None and self.clock() - session.proven_at < PROOF_SECONDS

    def has_cookie(self, headers: Headers) -> bool:
        """Whether a request has a session cookie of this hall, valid or not."""
        return b"cookie" in headers and any(name == self._name for name, _ in parse_cookies(headers))

    def read(self, headers: Headers) -> BrowserSession | None:
        """Return the session of a request; None unless exactly one cookie holds one that this hall sealed."""
        values = [value for name, value in parse_cookies(headers) if name == self._name]
        if len(values) != 1:  # two would leave open which one counts
            return None
        session = self._open(values[0], _SEAL_CONTEXT, BrowserSession)
        if session is None or session.expires <= self.clock() or self.ended.has_ended(session.nonce):
            return None
        return session

    def set_cookie(self, session: BrowserSession) -> tuple[bytes, bytes]:
        """Return the Set-Cookie header; scripts cannot read the cookie, and pages of other sites cannot send it."""
        sealed = self._seal.seal(msgspec.json.encode(session), _SEAL_CONTEXT)
        lasts = max(round(session.expires - self.clock()), 0)
        return b"set-cookie", self._cookie(self._name, sealed, lasts, "Strict")

    def fits_cookie(self, session: BrowserSession) -> bool:
        """Whether browsers keep the cookie of the session; a token with many scopes makes it too long."""
        return len(self.set_cookie(session)[1]) <= MAX_COOKIE_BYTES

    def clear_cookie(self) -> tuple[bytes, bytes]:
        """Return the Set-Cookie header that removes the session from the browser."""
        return b"set-cookie", self._cookie(self._name, "", 0, "Strict")

    def csrf_token(self, session: BrowserSession, purpose: str) -> str:
        """Return the token that a form or a change of this session must bring for this purpose."""
        digest = hmac.digest(self._key, msgspec.json.encode([session.nonce, purpose]), "sha256")
        return base64.urlsafe_b64encode(digest).decode()

    def check_csrf_token(self, session: BrowserSession, purpose: str, token: str) -> bool:
        """Whether the token is the one of this session and purpose."""
        return hmac.compare_digest(self.csrf_token(session, purpose).encode(), token.encode("utf-8", "surrogatepass"))

    def bearer_token(self, session: BrowserSession) -> tuple[str, float]:
        """Return a bearer token of the session for dialect endpoints, and when it expires."""
        expires = min(self.clock() + BEARER_SECONDS, session.ends)
        sealed = self._seal.seal(
            msgspec.json.encode(SessionBearer(expires, session.key, session.caller, session.nonce)), _BEARER_CONTEXT
        )
        return f"{BEARER_PREFIX}{sealed}", expires

    def read_bearer(self, token: str) -> SessionBearer | None:
        """Return the content of a bearer token that is valid now; None for any other."""
        bearer = self._open(token.removeprefix(BEARER_PREFIX), _BEARER_CONTEXT, SessionBearer)
        if bearer is None or bearer.expires <= self.clock() or self.ended.has_ended(bearer.nonce):
            return None
        return bearer

    def seal(self, value: msgspec.Struct, context: str) -> str:
        """Seal a small value that a browser keeps for the hall, such as the state of a sign-in."""
        return self._seal.seal(msgspec.json.encode(value), context.encode())

    def unseal(self, sealed: str, context: str, kind: type[StructT]) -> StructT | None:
        """Return a value that `seal` sealed in this context; None for anything else."""
        return self._open(sealed, context.encode(), kind)

    def cookie(self, name: str, value: str, lasts: int) -> tuple[bytes, bytes]:
        """Return the Set-Cookie header of a cookie that survives a redirect from another site."""
        return b"set-cookie", self._cookie(self.public_url.cookie_name(name), value, lasts, "Lax")

    def read_cookie(self, headers: Headers, name: str) -> str | None:
        """Return the value of a cookie of this hall; None unless there is exactly one."""
        own = self.public_url.cookie_name(name)
        values = [value for each, value in parse_cookies(headers) if each == own]
        return values[0] if len(values) == 1 else None

    def _cookie(self, name: str, value: str, lasts: int, same_site: str) -> bytes:
        scope = self.public_url.cookie_scope
        return f"{name}={value}; Max-Age={lasts}; HttpOnly; SameSite={same_site}; {scope}".encode()

    def _open(self, sealed: str, context: bytes, kind: type[StructT]) -> StructT | None:
        text = self._seal.open(sealed, context)
        try:
            return None if text is None else msgspec.json.decode(text, type=kind)
        except msgspec.ValidationError:  # sealed by an older version
            return None

    @property
    def _name(self) -> str:
        return self.public_url.cookie_name(_COOKIE_NAME)


def parse_cookies(headers: Headers) -> list[tuple[str, str]]:
    """Return every cookie of a request in order; a name may appear twice."""
    cookies = headers.get(b"cookie", b"").decode("latin-1").replace(",", ";").split(";")
    pairs = [each.strip().partition("=") for each in cookies]
    return [(name, value) for name, _, value in pairs]
