"""The door: whoever wants something from outside the hall gets it here, or a clear no."""

from collections.abc import Mapping
from typing import TypedDict, Unpack

import httpx2
import msgspec

from toolhall.egress.addresses import Allowed
from toolhall.egress.bodies import Bounds
from toolhall.egress.errors import EgressFailed
from toolhall.egress.resolving import Resolver, for_hall, system
from toolhall.egress.transport import GuardedTransport, Rules, Trust, system_trust
from toolhall.egress.urls import checked, header
from toolhall.model.json import Json, encode

CLIENT_SECONDS = 30.0
CLIENT_BYTES = 10 * 1024 * 1024
FETCH_SECONDS = 5.0
FETCH_BYTES = 64 * 1024


class Cost(TypedDict, total=False):
    """What a fetch may cost at most."""

    max_bytes: int
    seconds: float


class Reply(msgspec.Struct, frozen=True):
    """What came back, whole; headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"<reply {self.status}, {len(self.body)} bytes>"  # it may hold tokens


class Door:
    """Opens to public addresses, and to what the operator `allowed`; `trust` says whose certificates are believed."""

    def __init__(self, allowed: Allowed, resolve: Resolver = system, trust: Trust = system_trust) -> None:
        self.allowed = allowed
        self._resolve = resolve
        self._trust = trust

    @classmethod
    def of_hall(cls, allowed: Allowed) -> "Door":
        """For what the hall itself asks the outside: no tool can take its turn."""
        return cls(allowed, for_hall)

    def client(
        self,
        *,
        base_url: str = "",
        headers: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        timeout: float = CLIENT_SECONDS,
        max_bytes: int = CLIENT_BYTES,
    ) -> httpx2.AsyncClient:
        """A client that can only go through this door; with a `base_url`, only to what is below it.

        `timeout` is for a whole reply, from the first look at its address to the last byte. Its errors are those of
        httpx2, and EgressRefused and EgressFailed.
        """
        base = checked(base_url, self.allowed) if base_url else None
        bounds = Bounds(max_bytes, timeout)
        return httpx2.AsyncClient(
            transport=GuardedTransport(Rules(self.allowed, self._resolve, self._trust, bounds, base)),
            base_url=base_url,
            headers={"accept-encoding": "gzip", **_checked(headers)},
            auth=auth,
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
        )

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        json: Json = None,
        **cost: Unpack[Cost],
    ) -> Reply:
        """One request and its whole reply, whatever its status; EgressRefused or EgressFailed otherwise."""
        target = checked(url, self.allowed)
        seconds = cost.get("seconds", FETCH_SECONDS)
        said = _checked(headers) | ({} if json is None else {"content-type": "application/json"})
        content = None if json is None else encode(json)
        try:
            async with self.client(timeout=seconds, max_bytes=cost.get("max_bytes", FETCH_BYTES)) as client:
                found = await client.request(method, str(target), headers=said, data=form, content=content)
        except (httpx2.HTTPError, OSError) as error:
            raise EgressFailed(f"{target.shown} {_because(error)}") from None
        return Reply(found.status_code, dict(found.headers), found.content)


def _checked(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Here already, because the library's own errors quote what they do not like."""
    return {name: header(value) for name, value in (headers or {}).items()}


def _because(error: Exception) -> str:
    """Why nothing came back; texts that could quote what was sent are left out."""
    match error:
        case httpx2.ConnectError():
            return f"cannot be reached: {' '.join(str(error).split())}"
        case httpx2.TimeoutException():
            return "did not answer in time"
        case _:
            return f"did not answer as it should: {type(error).__name__}"
