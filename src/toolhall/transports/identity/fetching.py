"""Fetches a small JSON document from a URL of the settings; nothing else about the outside is trusted."""

from collections.abc import Iterable
from urllib.parse import urlsplit

from toolhall.dialects import strict
from toolhall.egress.addresses import Allowed
from toolhall.egress.door import FETCH_BYTES, Door
from toolhall.egress.errors import EgressFailed, EgressRefused
from toolhall.egress.urls import shown
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.transports.identity.settings import Issuer

MOST_BYTES = FETCH_BYTES
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PORTS = {"http": 80, "https": 443}


class FetchFailed(Exception):
    """The document could not be had; the message is for the log."""


def is_safe(url: str) -> bool:
    """Whether nobody on the way can change what comes back: https, or this very machine."""
    try:
        parts = urlsplit(url)
        safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    except ValueError:
        return False
    return safe and bool(parts.hostname) and parts.username is None and not parts.fragment


class Fetcher:
    """Asks the issuers that the operator named, also inside; where their documents lead, the door decides."""

    def __init__(self, issuers: Iterable[Issuer], allow: Iterable[str] = ()) -> None:
        named = [url for each in issuers for url in (each.issuer, each.jwks_url) if url]
        self._door = Door.of_hall(Allowed([*allow, *(entry for url in named for entry in _entries(url))]))

    async def __call__(self, url: str) -> JsonObject:
        """The object at a URL; no redirect is followed, and no proxy or certificate of the environment is used."""
        try:
            reply = await self._door.fetch("GET", url, headers={"accept": "application/json"})
        except (EgressRefused, EgressFailed) as error:
            raise FetchFailed(str(error)) from None
        if reply.status != 200:
            raise FetchFailed(f"{shown(url)} answers with status {reply.status}")
        try:
            found = strict.decode(reply.body)
        except Malformed as error:
            raise FetchFailed(f"{shown(url)}: {error.message}") from None
        if not isinstance(found, dict):
            raise FetchFailed(f"{shown(url)} is no JSON object")
        return found


def _entries(url: str) -> list[str]:
    """Exactly the host and the port of a URL; nothing for one that has none, which the door refuses on its own."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        entry = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        Allowed([entry])
    except (ValueError, KeyError):
        return []
    return [entry]
