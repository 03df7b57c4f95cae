"""Names are looked up a few at a time, apart from everything else: a resolver that hangs holds up nobody else."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from toolhall.egress.addresses import EgressAllowlist, EgressFailed
from toolhall.egress.client import EgressClient
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.egress.resolver import SystemResolver, hall_resolver, tool_resolver

FEW = 3


class FakeGetaddrinfo:
    """A resolver that never answers for names that begin with `slow`, until the test ends."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.end = threading.Event()
        self._known = socket.getaddrinfo

    def __call__(self, host: str, *rest: Any, **named: Any) -> Any:
        self.asked.append(host)
        if host.startswith("slow"):
            self.end.wait()
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return self._known(host, *rest, **named)


@pytest.fixture
def fake_getaddrinfo(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGetaddrinfo]:
    fake_getaddrinfo = FakeGetaddrinfo()
    monkeypatch.setattr(socket, "getaddrinfo", fake_getaddrinfo)
    yield fake_getaddrinfo
    fake_getaddrinfo.end.set()


async def abandon_lookup(lookups: SystemResolver, host: str) -> None:
    """Start a lookup and cancel it."""
    asking = asyncio.ensure_future(lookups(host, 443))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])


async def test_resolver_returns_unique_addresses() -> None:
    found = await SystemResolver(1)("localhost", 80)
    assert ip_address("127.0.0.1") in found or ip_address("::1") in found
    assert len(set(found)) == len(found)


async def test_resolver_unknown_name_raises_oserror() -> None:
    with pytest.raises(OSError, match=r"."):
        await SystemResolver(1)("nowhere.invalid", 80)


@pytest.mark.threat("I6")
async def test_resolver_counts_abandoned_lookups(fake_getaddrinfo: FakeGetaddrinfo) -> None:
    lookups = SystemResolver(FEW)
    for number in range(FEW):
        await abandon_lookup(lookups, f"slow{number}.example")
    with pytest.raises(EgressFailed, match=r"good\.example was not resolved"):
        await lookups("good.example", 443)
    assert len(fake_getaddrinfo.asked) == FEW
    assert await asyncio.to_thread(lambda: "free"), "the loop's own threads wait for none of them"


@pytest.mark.threat("I6")
async def test_resolver_shares_pending_lookups(fake_getaddrinfo: FakeGetaddrinfo) -> None:
    lookups = SystemResolver(2)
    for _ in range(20):
        await abandon_lookup(lookups, "slow.example")
    assert await lookups("localhost", 80)
    assert fake_getaddrinfo.asked == ["slow.example", "localhost"]


async def test_resolver_finished_lookup_frees_its_slot(fake_getaddrinfo: FakeGetaddrinfo) -> None:
    lookups = SystemResolver(1)
    waiting = [asyncio.ensure_future(lookups("slow.example", 443)) for _ in range(2)]
    await asyncio.sleep(0)
    fake_getaddrinfo.end.set()
    assert [type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)] == [socket.gaierror] * 2
    assert await lookups("localhost", 80)


@pytest.mark.threat("I6")
async def test_resolver_of_tools_does_not_block_the_hall(
    fake_getaddrinfo: FakeGetaddrinfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All places of tools are taken: their next request fails at once, and one of the hall's own goes on."""
    for number in range(16):
        await abandon_lookup(tool_resolver, f"slow{number}.example")
    connected: list[str] = []

    async def connect(self: object, host: str, *_: Any, **__: Any) -> None:
        connected.append(host)
        raise ConnectionError

    monkeypatch.setattr("httpcore2.AnyIOBackend.connect_tcp", connect)
    allow = ("localhost:9",)
    with pytest.raises(EgressFailed, match="was not resolved"):
        await LazyEgressClient(allow).fetch("GET", "http://localhost:9/")
    assert connected == []
    for own in (LazyEgressClient(allow, for_hall=True).egress_client, EgressClient.for_hall(EgressAllowlist(allow))):
        with pytest.raises(EgressFailed, match="sent no valid response"):
            await own.fetch("GET", "http://localhost:9/")
    assert len(connected) == 2
    assert hall_resolver is not tool_resolver
