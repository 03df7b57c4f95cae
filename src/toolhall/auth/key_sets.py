"""JSON Web Key Sets of token issuers: `JsonFetcher` fetches them, `IssuerKeySet` caches them.

A key set is fresh for ten minutes and usable for a day while its issuer cannot be reached. It is refetched at most
twice a minute, one fetch at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

from toolhall.auth.authenticator import AuthenticationFailed, TokenIssuer
from toolhall.auth.jwt import IssuerKey, VerificationKey, parse_jwks
from toolhall.dialects import strict_json
from toolhall.egress.addresses import EgressAllowlist, EgressFailed, EgressRefused
from toolhall.egress.client import FETCH_BYTES, EgressClient
from toolhall.egress.urls import display_url
from toolhall.model.errors import Malformed, Unavailable
from toolhall.model.json import JsonObject

MAX_FETCH_BYTES = FETCH_BYTES
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PORTS = {"http": 80, "https": 443}
FRESH_SECONDS = 600.0
STALE_SECONDS = 24 * 3_600.0
REFETCH_SECONDS = 30.0
_log = logging.getLogger("toolhall.identity")
FetchJson: TypeAlias = Callable[[str], Awaitable[JsonObject]]


class FetchFailed(Exception):
    """The document could not be fetched; the message is for the log."""


def is_safe_url(url: str) -> bool:
    """Whether nobody on the network can change the response: https, or plain http to this machine."""
    try:
        parts = urlsplit(url)
        safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    except ValueError:
        return False
    return safe and bool(parts.hostname) and parts.username is None and not parts.fragment


class JsonFetcher:
    """Fetches JSON from configured issuers, also on private networks; other hosts are subject to the egress rules."""

    def __init__(self, issuers: Iterable[TokenIssuer], allow: Iterable[str] = ()) -> None:
        urls = [url for each in issuers for url in (each.issuer, each.jwks_url) if url]
        self._client = EgressClient.for_hall(
            EgressAllowlist([*allow, *(entry for url in urls for entry in _allow_entries(url))])
        )

    async def __call__(self, url: str) -> JsonObject:
        """Return the JSON object at a URL; no redirects, and no proxies or certificates from the environment."""
        try:
            reply = await self._client.fetch("GET", url, headers={"accept": "application/json"})
        except (EgressRefused, EgressFailed) as error:
            raise FetchFailed(str(error)) from None
        if reply.status != 200:
            raise FetchFailed(f"{display_url(url)} answers with status {reply.status}")
        try:
            document = strict_json.decode(reply.body)
        except Malformed as error:
            raise FetchFailed(f"{display_url(url)}: {error.message}") from None
        if not isinstance(document, dict):
            raise FetchFailed(f"{display_url(url)} is no JSON object")
        return document


def _allow_entries(url: str) -> list[str]:
    """Return the allow-list entry for exactly the host and port of a URL; none for a URL without a host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        EgressAllowlist([entry])
    except (ValueError, KeyError):
        return []
    return [entry]


class IssuerKeySet:
    """The cached key set of one issuer: fresh for ten minutes, usable for a day while the issuer is unreachable."""

    def __init__(self, issuer: TokenIssuer, fetch: FetchJson, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[IssuerKey, ...] = ()
        self._fetched_at = -STALE_SECONDS
        self._tried_at = -STALE_SECONDS
        self._lock = asyncio.Lock()

    def cached_key(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """Return a key of a fresh set, or of a stale one while a fetch is running or was just tried."""
        age = self._clock() - self._fetched_at
        waiting = self._lock.locked() or self._clock() - self._tried_at < REFETCH_SECONDS
        if age > STALE_SECONDS or (age > FRESH_SECONDS and not waiting):
            return None
        return self._select(key_id, algorithm)

    async def fetch_key(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """Return the key after refetching the set, at most twice a minute; AuthenticationFailed after a day offline."""
        async with self._lock:
            if self._clock() - self._tried_at >= REFETCH_SECONDS:
                self._tried_at = self._clock()
                await self._refresh()
        if self._clock() - self._fetched_at > STALE_SECONDS:
            raise AuthenticationFailed(
                Unavailable("the keys of this token's issuer cannot be fetched now"), credential_sent=True
            )
        return self._select(key_id, algorithm)

    def _select(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        matching = [each for each in self._keys if algorithm in each.algorithms and key_id in (None, each.id)]
        # A token need not name its key; then exactly one key must match.
        return matching[0].key if len(matching) == 1 else None

    async def _refresh(self) -> None:
        try:
            self._keys = parse_jwks(await self._fetch(self._issuer.jwks_url or await self._discover_jwks_url()))
            self._fetched_at = self._clock()
        except FetchFailed as failed:
            _log.warning("the keys of issuer %s were not renewed: %s", self._issuer.name, failed)

    async def _discover_jwks_url(self) -> str:
        """Return `jwks_uri` of the issuer's metadata: OpenID Connect Discovery, else RFC 8414."""
        issuer = self._issuer.issuer
        try:
            document = await self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        except FetchFailed:
            parts = urlsplit(issuer)
            path = f"/.well-known/oauth-authorization-server{parts.path.rstrip('/')}"
            document = await self._fetch(urlunsplit((parts.scheme, parts.netloc, path, "", "")))
        if document.get("issuer") != issuer:
            raise FetchFailed(
                f"its discovery document is another issuer's; set issuer to exactly what it says, not {issuer}"
            )
        jwks_uri = document.get("jwks_uri")
        if not isinstance(jwks_uri, str):
            raise FetchFailed("its discovery document names no jwks_uri; set jwks_url")
        return jwks_uri
