"""Token verifiers: `IssuedTokenVerifier` for configured issuers, `SharedSecretVerifier` for OXP clients.

`TokenCache` remembers verified tokens by digest for a minute, never beyond their expiry.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence

import msgspec

from toolhall.auth.credentials import VerifyResult
from toolhall.auth.jwt import (
    PUBLIC_ALGORITHMS,
    SHARED_ALGORITHMS,
    TokenLifetime,
    UnverifiedToken,
    VerificationKey,
    caller_from_claims,
    has_audience,
    is_signed_by,
    parse_token,
    read_lifetime,
    read_scopes,
    read_subject,
    shared_key,
)
from toolhall.auth.key_sets import FetchJson, IssuerKeySet
from toolhall.auth.settings import TokenIssuer
from toolhall.model.caller import ALL_TOOLS, Caller
from toolhall.model.secret import Secret

CACHE_SECONDS = 60.0
MAX_CACHED_TOKENS = 10_000
_TOOLS_SCOPE_PREFIX = "tools:"


class _CachedToken(msgspec.Struct, frozen=True):
    caller: Caller
    until: float


class TokenCache:
    """Tokens that were checked within the last minute, by digest; none is remembered longer than it is good."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[bytes, _CachedToken] = {}

    def find(self, text: str) -> Caller | None:
        """The caller of a token that need not be checked again yet."""
        known = self._entries.get(_digest(text))
        return known.caller if known is not None and known.until > self._clock() else None

    def store(self, text: str, caller: Caller, lifetime: TokenLifetime) -> Caller:
        """Remember this one; the oldest is forgotten when there are too many."""
        if len(self._entries) >= MAX_CACHED_TOKENS:
            self._entries.pop(next(iter(self._entries)))
        until = min(self._clock() + CACHE_SECONDS, lifetime.expires)
        digest = _digest(text)
        caller = msgspec.structs.replace(caller, credential=Secret(text))
        before = self._entries.pop(digest, None)
        # The same object for the same caller, so that what was decided for it need not be decided again.
        kept = before.caller if before is not None and before.caller == caller else caller
        self._entries[digest] = _CachedToken(kept, until)
        return kept


class IssuedTokenVerifier:
    """Tokens of configured issuers, for this server."""

    def __init__(
        self, issuers: Sequence[TokenIssuer], audiences: Collection[str], fetch: FetchJson, clock: Callable[[], float]
    ) -> None:
        self._issuers = {each.issuer: (each, IssuerKeySet(each, fetch, clock)) for each in issuers}
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._cache = TokenCache(clock)

    def verify(self, text: str) -> VerifyResult:
        """The caller, at once where its issuer's key is known."""
        known = self._cache.find(text)
        if known is not None:
            return known
        token = parse_token(text, PUBLIC_ALGORITHMS)
        issuer, keys = self._issuer(token)
        if token is None or issuer is None or keys is None:
            return None
        good = read_lifetime(token.claims, self._clock())
        if good is None or not has_audience(token.claims, [issuer.audience] if issuer.audience else self._audiences):
            return None
        key = keys.cached_key(token.key_id, token.algorithm)
        if key is None:
            return self._verify_with_fetched_key(token, issuer, keys, good)
        return self._verify_signature(token, issuer, key, good)

    def _issuer(self, token: UnverifiedToken | None) -> tuple[TokenIssuer, IssuerKeySet] | tuple[None, None]:
        named = None if token is None else token.claims.get("iss")
        return self._issuers.get(named, (None, None)) if isinstance(named, str) else (None, None)

    async def _verify_with_fetched_key(
        self, token: UnverifiedToken, issuer: TokenIssuer, keys: IssuerKeySet, lifetime: TokenLifetime
    ) -> Caller | None:
        key = await keys.fetch_key(token.key_id, token.algorithm)
        return None if key is None else self._verify_signature(token, issuer, key, lifetime)

    def _verify_signature(
        self, token: UnverifiedToken, issuer: TokenIssuer, key: VerificationKey, lifetime: TokenLifetime
    ) -> Caller | None:
        caller = caller_from_claims(issuer.name, token.claims, lifetime)
        if caller is None or not is_signed_by(token.text, key):
            return None
        return self._cache.store(token.text, caller, lifetime)


class SharedSecretVerifier:
    """OXP 1.0: tokens that clients sign themselves, with a secret that they share with this server.

    Whoever has the secret can name any subject, so it proves no person, and never gives more than tools.
    """

    def __init__(self, secret: str, audiences: Collection[str], clock: Callable[[], float]) -> None:
        self._key = shared_key(secret)
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._cache = TokenCache(clock)

    def verify(self, text: str) -> Caller | None:
        """The caller `oxp:SUBJECT`; a token that names an audience must name this server."""
        known = self._cache.find(text)
        if known is not None:
            return known
        token = parse_token(text, SHARED_ALGORITHMS)
        good = None if token is None else read_lifetime(token.claims, self._clock())
        if token is None or good is None or not is_signed_by(text, self._key):
            return None
        claims = token.claims
        named = read_subject(claims) if "sub" in claims else "client"
        if named is None or ("aud" in claims and not has_audience(claims, self._audiences)):
            return None
        asked = read_scopes(claims) if claims.keys() & {"scope", "scp"} else {ALL_TOOLS}
        caller = Caller(
            f"oxp:{named}",
            proof="shared",
            person=f"oxp:{named}",
            scopes=frozenset(each for each in asked if each.startswith(_TOOLS_SCOPE_PREFIX)),
            expires_at=good.expires,
            authenticated_at=good.signed_in,
            short_lived=good.is_short,
        )
        return self._cache.store(text, caller, good)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
