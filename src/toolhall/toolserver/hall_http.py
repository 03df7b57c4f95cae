"""Asks a hall over HTTP: the one that the operator named, wherever that is, and no other."""

from itertools import count

import httpx2

from toolhall.dialects.hub.leasing import NotNow, Refusal, read_result
from toolhall.dialects.hub.remote import write_request
from toolhall.model.json import Json, JsonObject
from toolhall.toolserver.joining import ASK_SECONDS, Away

_MOST_BYTES = 4 * 1024 * 1024
_CONNECT_SECONDS = 5.0
_BUSY = 503


class HallHttp:
    """Reads no proxy settings and follows no redirect: the key goes where the operator said."""

    def __init__(self, url: str, key: str) -> None:
        self._url = f"{url}/hub"
        self._ids = count(1)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._client = httpx2.AsyncClient(headers=headers, trust_env=False, follow_redirects=False)

    async def ask(self, method: str, params: JsonObject, seconds: float = ASK_SECONDS) -> Json:
        """The result; raises the Refusal that it was answered with, or Away."""
        request_id = str(next(self._ids))
        try:
            status, body = await self._sent(write_request(request_id, method, params), seconds)
        except httpx2.HTTPError as error:
            raise Away(f"it cannot be reached ({str(error) or type(error).__name__})") from None
        if status == _BUSY:
            raise NotNow(f"it answers with status {status}")
        if status >= 500:
            raise Away(f"it answers with status {status}")
        if 300 <= status < 400:
            raise Refusal("the address sends on to another one; if you trust that, name it with --join")
        try:
            return read_result(body, request_id)
        except NotNow as unread:
            if status in (401, 403, 404, 405, 421):
                raise Refusal(f"status {status}: {unread.message}") from None
            raise

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def _sent(self, body: bytes, seconds: float) -> tuple[int, bytes]:
        timeout = httpx2.Timeout(seconds, connect=_CONNECT_SECONDS)
        read = bytearray()
        async with self._client.stream("POST", self._url, content=body, timeout=timeout) as reply:
            async for part in reply.aiter_raw():
                read += part
                if len(read) > _MOST_BYTES:
                    raise Away("its answer is too large")
            return reply.status_code, bytes(read)
