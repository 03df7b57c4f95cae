"""The keys of one issuer: fetched when they are needed, kept for a while, and never asked for in a storm."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import urlsplit, urlunsplit

from toolhall.model.errors import Unavailable
from toolhall.model.json import JsonObject
from toolhall.transports.identity.base import Unproven
from toolhall.transports.identity.fetching import FetchFailed
from toolhall.transports.identity.settings import Issuer
from toolhall.transports.identity.signatures import Key, PublicKey, public_keys

FRESH_SECONDS = 600.0
STALE_SECONDS = 24 * 3_600.0
AGAIN_SECONDS = 30.0
_log = logging.getLogger("toolhall.identity")

Fetch: TypeAlias = Callable[[str], Awaitable[JsonObject]]


class KeySet:
    """Fresh for ten minutes; while the issuer cannot be reached, good for a day."""

    def __init__(self, issuer: Issuer, fetch: Fetch, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._clock = clock
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched = -STALE_SECONDS
        self._tried = -STALE_SECONDS
        self._one_at_a_time = asyncio.Lock()

    def known(self, key_id: str | None, algorithm: str) -> Key | None:
        """A key that is there and fresh, or that has to do while fresh ones are being fetched."""
        age = self._clock() - self._fetched
        waiting = self._one_at_a_time.locked() or self._clock() - self._tried < AGAIN_SECONDS
        if age > STALE_SECONDS or (age > FRESH_SECONDS and not waiting):
            return None
        return self._chosen(key_id, algorithm)

    async def fetched(self, key_id: str | None, algorithm: str) -> Key | None:
        """The key, if there is one after asking the issuer; it is asked at most twice a minute."""
        async with self._one_at_a_time:
            if self._clock() - self._tried >= AGAIN_SECONDS:
                self._tried = self._clock()
                await self._renew()
        if self._clock() - self._fetched > STALE_SECONDS:
            raise Unproven(Unavailable("the keys of this token's issuer cannot be fetched now"), sent=True)
        return self._chosen(key_id, algorithm)

    def _chosen(self, key_id: str | None, algorithm: str) -> Key | None:
        fitting = [each for each in self._keys if algorithm in each.algorithms and key_id in (None, each.id)]
        # A token need not name its key; it must be clear then which one is meant.
        return fitting[0].key if len(fitting) == 1 else None

    async def _renew(self) -> None:
        try:
            self._keys = public_keys(await self._fetch(self._issuer.jwks_url or await self._discovered()))
            self._fetched = self._clock()
        except FetchFailed as failed:
            _log.warning("the keys of issuer %s were not renewed: %s", self._issuer.name, failed)

    async def _discovered(self) -> str:
        """Where the issuer says that its keys are; OpenID Connect Discovery, else RFC 8414."""
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
        found = document.get("jwks_uri")
        if not isinstance(found, str):
            raise FetchFailed("its discovery document names no jwks_uri; set jwks_url")
        return found
