"""Token verifiers: `IssuedTokenVerifier` for configured issuers, `SharedSecretVerifier` for OXP clients.

`TokenCache` remembers verified tokens by digest for a minute, never beyond their expiry.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence

import msgspec

from toolhall.auth.authenticator import TokenIssuer
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
from toolhall.model.caller import ALL_TOOLS, Caller
from toolhall.model.secret import Secret

CACHE_SECONDS = 60.0
MAX_CACHED_TOKENS = 10_000
_TOOLS_SCOPE_PREFIX = "tools:"


class _CachedToken(msgspec.Struct, frozen=True):
    caller: Caller
    until: float


class TokenCache:
    """Verified tokens by digest, each for a minute and never beyond its expiry; at most 10,000."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[bytes, _CachedToken] = {}

    def find(self, text: str) -> Caller | None:
        """Return the caller of a token that was verified within the last minute."""
        entry = self._entries.get(_digest(text))
        return entry.caller if entry is not None and entry.until > self._clock() else None

    def store(self, text: str, caller: Caller, lifetime: TokenLifetime) -> Caller:
        """Cache the caller of a verified token; the oldest entry is dropped when the cache is full."""
        if len(self._entries) >= MAX_CACHED_TOKENS:
            self._entries.pop(next(iter(self._entries)))
        until = min(self._clock() + CACHE_SECONDS, lifetime.expires)
        digest = _digest(text)
        caller = msgspec.structs.replace(caller, credential=Secret(text))
        previous = self._entries.pop(digest, None)
        # The same object for the same caller, so that decisions cached for it remain valid.
        reused = previous.caller if previous is not None and previous.caller == caller else caller
        self._entries[digest] = _CachedToken(reused, until)
        return reused


class IssuedTokenVerifier:
    """Verifies tokens of configured issuers for the audiences of this server."""

    def __init__(
        self, issuers: Sequence[TokenIssuer], audiences: Collection[str], fetch: FetchJson, clock: Callable[[], float]
    ) -> None:
        self._issuers = {each.issuer: (each, IssuerKeySet(each, fetch, clock)) for each in issuers}
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._cache = TokenCache(clock)

    def verify(self, text: str) -> VerifyResult:
        """Return the caller; an awaitable if the issuer's key has to be fetched."""
        caller = self._cache.find(text)
        if caller is not None:
            return caller
        token = parse_token(text, PUBLIC_ALGORITHMS)
        issuer, keys = self._issuer(token)
        if token is None or issuer is None or keys is None:
            return None
        lifetime = read_lifetime(token.claims, self._clock())
        if lifetime is None or not has_audience(
            token.claims, [issuer.audience] if issuer.audience else self._audiences
        ):
            return None
        key = keys.cached_key(token.key_id, token.algorithm)
        if key is None:
            return self._verify_with_fetched_key(token, issuer, keys, lifetime)
        return self._verify_signature(token, issuer, key, lifetime)

    def _issuer(self, token: UnverifiedToken | None) -> tuple[TokenIssuer, IssuerKeySet] | tuple[None, None]:
        issuer = None if token is None else token.claims.get("iss")
        return self._issuers.get(issuer, (None, None)) if isinstance(issuer, str) else (None, None)

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
    """Verifies tokens that OXP 1.0 clients sign with a secret shared with this server.

    Every holder of the secret can name any subject, so the token proves no person and never gives more than tools.
    """

    def __init__(self, secret: str, audiences: Collection[str], clock: Callable[[], float]) -> None:
        self._key = shared_key(secret)
        self._audiences = frozenset(audiences)
        self._clock = clock
        self._cache = TokenCache(clock)

    def verify(self, text: str) -> Caller | None:
        """Return the caller `oxp:SUBJECT`; a token that names an audience must name this server."""
        cached = self._cache.find(text)
        if cached is not None:
            return cached
        token = parse_token(text, SHARED_ALGORITHMS)
        lifetime = None if token is None else read_lifetime(token.claims, self._clock())
        if token is None or lifetime is None or not is_signed_by(text, self._key):
            return None
        claims = token.claims
        subject = read_subject(claims) if "sub" in claims else "client"
        if subject is None or ("aud" in claims and not has_audience(claims, self._audiences)):
            return None
        scopes = read_scopes(claims) if claims.keys() & {"scope", "scp"} else {ALL_TOOLS}
        caller = Caller(
            f"oxp:{subject}",
            proof="shared",
            person=f"oxp:{subject}",
            scopes=frozenset(each for each in scopes if each.startswith(_TOOLS_SCOPE_PREFIX)),
            expires_at=lifetime.expires,
            authenticated_at=lifetime.signed_in,
            short_lived=lifetime.is_short,
        )
        return self._cache.store(text, caller, lifetime)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
