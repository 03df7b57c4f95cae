"""Proves callers by signed tokens: of configured issuers, or signed by OXP clients with a shared secret."""

import hashlib
from collections.abc import Callable, Collection, Sequence

import msgspec

from toolhall.model.caller import ALL_TOOLS, Caller
from toolhall.model.secret import Secret
from toolhall.transports.identity.claims import (
    Lifetime,
    Unverified,
    caller_of,
    is_for,
    lifetime,
    read,
    scopes,
    subject,
)
from toolhall.transports.identity.gate import Found
from toolhall.transports.identity.keysets import Fetch, KeySet
from toolhall.transports.identity.settings import Issuer
from toolhall.transports.identity.signatures import (
    PUBLIC_ALGORITHMS,
    SHARED_ALGORITHMS,
    Key,
    is_signed,
    shared_key,
)

REMEMBERED_SECONDS = 60.0
MOST_REMEMBERED = 10_000
_TOOLS = "tools:"


class _Remembered(msgspec.Struct, frozen=True):
    caller: Caller
    until: float


class Memory:
    """Tokens that were checked within the last minute, by digest; none is remembered longer than it is good."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: dict[bytes, _Remembered] = {}

    def find(self, text: str) -> Caller | None:
        """The caller of a token that need not be checked again yet."""
        known = self._known.get(_digest(text))
        return known.caller if known is not None and known.until > self._clock() else None

    def keep(self, text: str, caller: Caller, good: Lifetime) -> Caller:
        """Remember this one; the oldest is forgotten when there are too many."""
        if len(self._known) >= MOST_REMEMBERED:
            self._known.pop(next(iter(self._known)))
        until = min(self._clock() + REMEMBERED_SECONDS, good.expires)
        digest = _digest(text)
        caller = msgspec.structs.replace(caller, credential=Secret(text))
        before = self._known.pop(digest, None)
        # The same object for the same caller, so that what was decided for it need not be decided again.
        kept = before.caller if before is not None and before.caller == caller else caller
        self._known[digest] = _Remembered(kept, until)
        return kept


class IssuedTokens:
    """Tokens of configured issuers, for this server."""

    def __init__(
        self, issuers: Sequence[Issuer], audiences: Collection[str], fetch: Fetch, clock: Callable[[], float]
    ) -> None:
        self._issuers = {each.issuer: (each, KeySet(each, fetch, clock)) for each in issuers}
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._memory = Memory(clock)

    def find(self, text: str) -> Found:
        """The caller, at once where its issuer's key is known."""
        known = self._memory.find(text)
        if known is not None:
            return known
        token = read(text, PUBLIC_ALGORITHMS)
        issuer, keys = self._issuer(token)
        if token is None or issuer is None or keys is None:
            return None
        good = lifetime(token.claims, self._clock())
        if good is None or not is_for(token.claims, [issuer.audience] if issuer.audience else self._audiences):
            return None
        key = keys.known(token.key_id, token.algorithm)
        if key is None:
            return self._fetched(token, issuer, keys, good)
        return self._checked(token, issuer, key, good)

    def _issuer(self, token: Unverified | None) -> tuple[Issuer, KeySet] | tuple[None, None]:
        named = None if token is None else token.claims.get("iss")
        return self._issuers.get(named, (None, None)) if isinstance(named, str) else (None, None)

    async def _fetched(self, token: Unverified, issuer: Issuer, keys: KeySet, good: Lifetime) -> Caller | None:
        key = await keys.fetched(token.key_id, token.algorithm)
        return None if key is None else self._checked(token, issuer, key, good)

    def _checked(self, token: Unverified, issuer: Issuer, key: Key, good: Lifetime) -> Caller | None:
        caller = caller_of(issuer.name, token.claims, good)
        if caller is None or not is_signed(token.text, key):
            return None
        return self._memory.keep(token.text, caller, good)


class SharedTokens:
    """OXP 1.0: tokens that clients sign themselves, with a secret that they share with this server.

    Whoever has the secret can name any subject, so it proves no person, and never gives more than tools.
    """

    def __init__(self, secret: str, audiences: Collection[str], clock: Callable[[], float]) -> None:
        self._key = shared_key(secret)
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._memory = Memory(clock)

    def find(self, text: str) -> Caller | None:
        """The caller `oxp:SUBJECT`; a token that names an audience must name this server."""
        known = self._memory.find(text)
        if known is not None:
            return known
        token = read(text, SHARED_ALGORITHMS)
        good = None if token is None else lifetime(token.claims, self._clock())
        if token is None or good is None or not is_signed(text, self._key):
            return None
        claims = token.claims
        named = subject(claims) if "sub" in claims else "client"
        if named is None or ("aud" in claims and not is_for(claims, self._audiences)):
            return None
        asked = scopes(claims) if claims.keys() & {"scope", "scp"} else {ALL_TOOLS}
        caller = Caller(
            f"oxp:{named}",
            proof="shared",
            person=f"oxp:{named}",
            scopes=frozenset(each for each in asked if each.startswith(_TOOLS)),
            expires_at=good.expires,
            authenticated_at=good.signed_in,
            short_lived=good.short,
        )
        return self._memory.keep(text, caller, good)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
