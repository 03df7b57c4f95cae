"""Fetches a small JSON document from a URL of the settings; nothing else about the outside is trusted."""

import asyncio
import ssl
from functools import cache
from urllib.parse import urlsplit

import httpx2

from toolhall.dialects import strict
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject

MOST_BYTES = 64 * 1024
MOST_SECONDS = 5.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


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


async def fetch_json(url: str) -> JsonObject:
    """The object at a URL; no redirect is followed, and no proxy or certificate of the environment is used."""
    if not is_safe(url):
        raise FetchFailed(f"{url} is not an https URL")
    try:
        async with asyncio.timeout(MOST_SECONDS), _client(await asyncio.to_thread(_trusted)) as client:
            body = await _body(client, url)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:  # a timeout is an OSError too
        raise FetchFailed(f"{url} cannot be fetched: {type(error).__name__} {error}") from None
    try:
        found = strict.decode(body)
    except Malformed as error:
        raise FetchFailed(f"{url}: {error.message}") from None
    if not isinstance(found, dict):
        raise FetchFailed(f"{url} is no JSON object")
    return found


@cache
def _trusted() -> ssl.SSLContext:
    """Whose certificates are believed; to read them all takes so long that calls would notice, so it is done once."""
    return httpx2.create_ssl_context(trust_env=False)


def _client(trusted: ssl.SSLContext) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(verify=trusted, trust_env=False, timeout=MOST_SECONDS)


async def _body(client: httpx2.AsyncClient, url: str) -> bytes:
    async with client.stream("GET", url, headers={"accept": "application/json"}, follow_redirects=False) as reply:
        if reply.status_code != 200:
            raise FetchFailed(f"{url} answers with status {reply.status_code}")
        body = b""
        async for part in reply.aiter_bytes(8_192):
            body += part
            if len(body) > MOST_BYTES:
                raise FetchFailed(f"{url} is larger than {MOST_BYTES} bytes")
    return body
