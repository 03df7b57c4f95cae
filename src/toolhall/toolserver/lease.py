"""`LeaseClient`: joins a hall, sends heartbeats, rejoins and leaves; `HttpHubClient`: its HTTP client."""

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
LEAVE_SECONDS = 35.0  # a hall answers when nothing runs any more, after 30 seconds at the latest
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 1.0, 5.0
_log = logging.getLogger("toolhall.toolserver")


class HubUnavailable(Exception):
    """The hall cannot be reached, or the line to it broke; the message says why."""


def unavailable_from_refusal(refused: HubRefusal) -> HubUnavailable:
    """What a no is to a server that was joined before: asked again, the hall may say something else."""
    return HubUnavailable(f"the hall says no: {refused.message}")


class HubClient(Protocol):
    """A way to ask a hall."""

    async def request(self, method: str, params: JsonObject, seconds: float = REQUEST_SECONDS) -> Json:
        """The result; raises the Refusal that it was answered with, or Away."""
        ...


def backoff_delays(random_fraction: Callable[[], float] = random.random) -> Iterator[float]:
    """How long to wait before each new attempt: longer and longer, and never at the same time as everybody else."""
    seconds = _MIN_BACKOFF_SECONDS
    while True:
        yield seconds * (0.75 + 0.25 * random_fraction())
        seconds = min(2 * seconds, _MAX_BACKOFF_SECONDS)


class LeaseClient:
    """One replica's stay; `joined` is set after the first time, `held` is the lease that was given last."""

    def __init__(self, params: JsonObject, status: Callable[[], Awaitable[str]]) -> None:
        self.joined = asyncio.Event()
        self.granted: JoinResult | None = None
        self._params = params
        self._status = status
        self._reported_unavailable = False
        self._leaving = False
        self._backoff = backoff_delays()

    async def run(self, hub: HubClient) -> None:
        """Join, and stay until the hall does not know us any more; Away when the line is broken.

        Raises Refusal where the very first answer is a no. Once we leave, nothing more is said here.
        """
        await self._block_if_leaving()
        try:
            held = read_join_result(await hub.request(JOIN, self._params))
        except RetryableRefusal as refused:
            raise HubUnavailable(refused.message) from None
        except HubRefusal as refused:
            if not self.joined.is_set():
                raise
            raise unavailable_from_refusal(refused) from None
        if self._reported_unavailable:
            _log.warning("joined the hall again")
        self._reported_unavailable, self._backoff = False, backoff_delays()
        self.granted = held
        self.joined.set()
        try:
            await self._send_heartbeats(hub, held)
        except RetryableRefusal as refused:
            raise HubUnavailable(refused.message) from None
        except HubRefusal as refused:
            _log.info("joining again: %s", refused.message)

    async def back_off(self, reason: HubUnavailable) -> None:
        """Wait before the next attempt; says once why there must be one."""
        if not self._reported_unavailable:
            self._reported_unavailable = True
            _log.warning("the hall is away, and will be asked again and again: %s", reason)
        await asyncio.sleep(next(self._backoff))

    async def leave(self, hub: HubClient) -> None:
        """Say goodbye, and wait until the hall wants nothing more; where it is away, it knows by itself soon."""
        self._leaving = True
        if self.granted is None:
            return
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._send_leave(hub, self.granted.lease)
        except (HubUnavailable, HubRefusal) as error:
            _log.warning("could not say goodbye to the hall: %s", error)
        except TimeoutError:
            _log.warning("could not say goodbye to the hall: it took none for %g seconds", LEAVE_SECONDS)

    async def _send_leave(self, hub: HubClient, lease: str) -> None:
        """A hall that is full turns everybody away for a moment, and still sends calls to who has not left."""
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
            now = read_tool_states(await hub.request(HEARTBEAT, write_heartbeat(granted.lease, await self._status())))
            for name, state in now.items():
                if tools.get(name) != state:
                    _log.warning("%s is %s in the hall now", name, state)
            tools = now or tools

    async def _block_if_leaving(self) -> None:
        """Whoever says goodbye must not join again by the way: what stays is cancelled then."""
        if self._leaving:
            await asyncio.Event().wait()


_MAX_RESPONSE_BYTES = 4 * 1024 * 1024
_CONNECT_SECONDS = 5.0
_BUSY = 503


class HttpHubClient:
    """Reads no proxy settings and follows no redirect: the key goes where the operator said."""

    def __init__(self, url: str, key: str) -> None:
        self._url = f"{url}/hub"
        self._ids = count(1)
        headers = {"content-type": "application/json", "accept": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        self._client = httpx2.AsyncClient(headers=headers, trust_env=False, follow_redirects=False)

    async def request(self, method: str, params: JsonObject, seconds: float = REQUEST_SECONDS) -> Json:
        """The result; raises the Refusal that it was answered with, or Away."""
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
        except RetryableRefusal as unread:
            if status in (401, 403, 404, 405, 421):
                raise HubRefusal(f"status {status}: {unread.message}") from None
            raise

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def _post(self, body: bytes, seconds: float) -> tuple[int, bytes]:
        timeout = httpx2.Timeout(seconds, connect=_CONNECT_SECONDS)
        read = bytearray()
        async with self._client.stream("POST", self._url, content=body, timeout=timeout) as reply:
            async for part in reply.aiter_raw():
                read += part
                if len(read) > _MAX_RESPONSE_BYTES:
                    raise HubUnavailable("its answer is too large")
            return reply.status_code, bytes(read)
