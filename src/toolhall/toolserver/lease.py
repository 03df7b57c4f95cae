"""`LeaseClient`: joins a hall, sends heartbeats, rejoins and leaves; `HttpHubClient`: its HTTP client.

The caller runs `LeaseClient.run` in a loop: it returns when the hall no longer knows the lease (join again at once),
and raises HubUnavailable when the hall cannot be reached (`back_off`, then join again). The hall's side is
`execution/remote/leases.py`.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Protocol

import httpx2

from toolhall.dialects.hub.call_messages import write_request
from toolhall.dialects.hub.lease_messages import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    HubRefusal,
    JoinResult,
    RetryableRefusal,
    read_join_result,
    read_result,
    read_tool_states,
    write_heartbeat,
    write_leave,
)
from toolhall.model.json import Json, JsonObject

REQUEST_SECONDS = 10.0
LEAVE_SECONDS = 35.0  # a hall answers when no call runs any more, after 30 seconds at the latest
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 1.0, 5.0
_MAX_RESPONSE_BYTES = 4 * 1024 * 1024
_CONNECT_SECONDS = 5.0
_BUSY = 503
_log = logging.getLogger("toolhall.toolserver")


class HubUnavailable(Exception):
    """The hall cannot be reached, or the connection broke; the message says why."""


class HubClient(Protocol):
    """Sends requests to a hall, over HTTP or a WebSocket."""

    async def request(self, method: str, params: JsonObject, seconds: float = REQUEST_SECONDS) -> Json:
        """Send a request; returns the result, or raises the HubRefusal of the response, or HubUnavailable."""
        ...


class LeaseClient:
    """Keeps the lease of one replica; `joined` is set after the first join, `granted` is the latest lease."""

    def __init__(self, params: JsonObject, status: Callable[[], Awaitable[str]]) -> None:
        self.joined = asyncio.Event()
        self.granted: JoinResult | None = None
        self._params = params
        self._status = status
        self._reported_unavailable = False
        self._leaving = False
        self._backoff = backoff_delays()

    async def run(self, hub: HubClient) -> None:
        """Join, and send heartbeats until the hall no longer knows the lease.

        Raises HubUnavailable if the hall cannot be reached, and HubRefusal if it refuses the very first join. Sends
        nothing more once `leave` was called.
        """
        await self._block_if_leaving()
        try:
            granted = read_join_result(await hub.request(JOIN, self._params))
        except RetryableRefusal as refused:
            raise HubUnavailable(refused.message) from None
        except HubRefusal as refused:
            if not self.joined.is_set():
                raise
            raise unavailable_from_refusal(refused) from None
        if self._reported_unavailable:
            _log.warning("joined the hall again")
        self._reported_unavailable, self._backoff = False, backoff_delays()
        self.granted = granted
        self.joined.set()
        try:
            await self._send_heartbeats(hub, granted)
        except RetryableRefusal as refused:
            raise HubUnavailable(refused.message) from None
        except HubRefusal as refused:
            _log.info("joining again: %s", refused.message)

    async def back_off(self, reason: HubUnavailable) -> None:
        """Wait before the next attempt; logs the reason once."""
        if not self._reported_unavailable:
            self._reported_unavailable = True
            _log.warning("the hall is away, trying again until it is back: %s", reason)
        await asyncio.sleep(next(self._backoff))

    async def leave(self, hub: HubClient) -> None:
        """Leave, and wait until the hall has drained this server; if it cannot be reached, the lease expires soon."""
        self._leaving = True
        if self.granted is None:
            return
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._send_leave(hub, self.granted.lease)
        except (HubUnavailable, HubRefusal) as error:
            _log.warning("could not leave the hall: %s", error)
        except TimeoutError:
            _log.warning("could not leave the hall: it did not accept that for %g seconds", LEAVE_SECONDS)

    async def _send_leave(self, hub: HubClient, lease: str) -> None:
        """Send leave, again while the hall is overloaded: it goes on sending calls until it has accepted it."""
        for pause in backoff_delays():
            try:
                await hub.request(LEAVE, write_leave(lease), LEAVE_SECONDS)
            except RetryableRefusal:
                await asyncio.sleep(pause)
            else:
                return

    async def _send_heartbeats(self, hub: HubClient, granted: JoinResult) -> None:
        tools = granted.tools
        while True:
            await asyncio.sleep(granted.heartbeat_seconds)
            await self._block_if_leaving()
            states = read_tool_states(
                await hub.request(HEARTBEAT, write_heartbeat(granted.lease, await self._status()))
            )
            for name, state in states.items():
                if tools.get(name) != state:
                    _log.warning("%s is %s in the hall now", name, state)
            tools = states or tools

    async def _block_if_leaving(self) -> None:
        """Wait for ever once `leave` was called, so that `run` does not join again; its task is cancelled then."""
        if self._leaving:
            await asyncio.Event().wait()


def backoff_delays(random_fraction: Callable[[], float] = random.random) -> Iterator[float]:
    """Delays before attempts: doubling from one to five seconds, with jitter, so that servers do not come together."""
    seconds = _MIN_BACKOFF_SECONDS
    while True:
        yield seconds * (0.75 + 0.25 * random_fraction())
        seconds = min(2 * seconds, _MAX_BACKOFF_SECONDS)


def unavailable_from_refusal(refused: HubRefusal) -> HubUnavailable:
    """A refusal of a server that had joined before, as a temporary failure: the hall may decide otherwise later."""
    return HubUnavailable(f"the hall refused: {refused.message}")


class HttpHubClient:
    """Sends requests to a hall over HTTP, without proxies and redirects: the key goes where the operator said."""

    def __init__(self, url: str, key: str) -> None:
        self._url = f"{url}/hub"
        self._ids = count(1)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._client = httpx2.AsyncClient(headers=headers, trust_env=False, follow_redirects=False)

    async def request(self, method: str, params: JsonObject, seconds: float = REQUEST_SECONDS) -> Json:
        """Send a request; returns the result, or raises the HubRefusal of the response, or HubUnavailable."""
        request_id = str(next(self._ids))
        try:
            status, body = await self._post(write_request(request_id, method, params), seconds)
        except httpx2.HTTPError as error:
            raise HubUnavailable(f"it cannot be reached ({str(error) or type(error).__name__})") from None
        if status == _BUSY:
            raise RetryableRefusal(f"it answers with status {status}")
        if status >= 500:
            raise HubUnavailable(f"it answers with status {status}")
        if 300 <= status < 400:
            raise HubRefusal("the address sends on to another one; if you trust that, name it with --join")
        try:
            return read_result(body, request_id)
        except RetryableRefusal as refusal:
            if status in (401, 403, 404, 405, 421):
                raise HubRefusal(f"status {status}: {refusal.message}") from None
            raise

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, body: bytes, seconds: float) -> tuple[int, bytes]:
        timeout = httpx2.Timeout(seconds, connect=_CONNECT_SECONDS)
        received = bytearray()
        async with self._client.stream("POST", self._url, content=body, timeout=timeout) as response:
            async for part in response.aiter_raw():
                received += part
                if len(received) > _MAX_RESPONSE_BYTES:
                    raise HubUnavailable("its answer is too large")
            return response.status_code, bytes(received)
