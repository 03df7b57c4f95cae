"""Who looks at a page: a cookie that only we can make, for a quarter of an hour, and a word for each form."""

import base64
import hmac
import secrets
from collections.abc import Callable

import msgspec

from toolhall.model.caller import Caller
from toolhall.stores.seal import Seal
from toolhall.transports.asgi import Headers
from toolhall.transports.pages.place import Place

SECONDS = 900
_BOUND = b"page session"
_NAME = "toolhall"


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One browser; `key` is asked again each time, so that a revoked one is good for nothing at once."""

    nonce: str
    expires: float
    key: str | None = None
    caller: Caller | None = None  # by a token, which no cookie would hold


class Sessions:
    """Reads and writes the cookie."""

    def __init__(self, seal: Seal, key: bytes, place: Place, clock: Callable[[], float]) -> None:
        self._seal = seal
        self._key = key
        self._place = place
        self._clock = clock
        self._decode = msgspec.json.Decoder(Session).decode

    def new(self, *, key: str | None = None, caller: Caller | None = None) -> Session:
        """Of nobody in particular, or of whoever has just signed in; never the one of before."""
        until = self._clock() + SECONDS
        if caller is not None and caller.expires_at is not None:
            until = min(until, caller.expires_at)
        plain = None if caller is None else msgspec.structs.replace(caller, credential=None)
        return Session(nonce=secrets.token_urlsafe(16), expires=until, key=key, caller=plain)

    def read(self, headers: Headers) -> Session | None:
        """The session of a request, if it has one that is ours and not over."""
        found = [value for name, value in cookies_of(headers) if name == self._name]
        if len(found) != 1:  # two would leave open which one counts
            return None
        text = self._seal.open(found[0], _BOUND)
        session = None if text is None else self._decode(text)
        return session if session is not None and session.expires > self._clock() else None

    def cookie(self, session: Session) -> tuple[bytes, bytes]:
        """The header that sets it; no script can read it, and no other site's page can send it."""
        sealed = self._seal.close(msgspec.json.encode(session), _BOUND)
        said = f"{self._name}={sealed}; Max-Age={SECONDS}; HttpOnly; SameSite=Strict; {self._place.cookie_scope}"
        return b"set-cookie", said.encode()

    def word(self, session: Session, purpose: str) -> str:
        """What a form of this session must bring for this purpose."""
        said = hmac.digest(self._key, msgspec.json.encode([session.nonce, purpose]), "sha256")
        return base64.urlsafe_b64encode(said).decode()

    def fits(self, session: Session, purpose: str, word: str) -> bool:
        """Whether a form brought it."""
        return hmac.compare_digest(self.word(session, purpose).encode(), word.encode("utf-8", "surrogatepass"))

    @property
    def _name(self) -> str:
        return self._place.cookie_name(_NAME)


def cookies_of(headers: Headers) -> list[tuple[str, str]]:
    """Every cookie of a request, in order; a name may be there twice."""
    sent = headers.get(b"cookie", b"").decode("latin-1").replace(",", ";").split(";")
    pairs = [each.strip().partition("=") for each in sent]
    return [(name, value) for name, _, value in pairs]
