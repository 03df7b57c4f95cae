# ruff: noqa: N802 - tests carry the names of their rows
"""What dials tool servers goes nowhere where the door does not go, but for the one address that it was given."""

import asyncio
import ssl
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.harness.patience import patience
from tests.threats.test_egress_addresses import LED_HERE, SPELLINGS
from tests.threats.test_egress_requests import PROXIES
from tests.unit.egress.loopback_server import fixed_resolver, loopback_server, tls_contexts
from toolhall.egress.addresses import EgressAllowlist, EgressRefused, IpAddress
from toolhall.egress.resolver import Dialer, NameNotFound, tool_resolver

HERE = ip_address("127.0.0.1")
METADATA = ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fe80::1"]


class SilentClient(asyncio.Protocol):
    """A client that sends nothing and disconnects."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.address = transport.get_extra_info("peername")[0]
        transport.close()


async def dialled(dial: Dialer, url: str) -> SilentClient:
    async with asyncio.timeout(patience()):
        return await dial.connect(dial.parse(url), SilentClient)


@pytest.mark.threat("E1")
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_E1_forbidden_address_in_any_spelling_is_not_dialled(scheme: str) -> None:
    async with loopback_server() as server:
        for spelling in SPELLINGS:
            with pytest.raises(EgressRefused):
                await dialled(Dialer(EgressAllowlist()), f"{scheme}://{spelling}:{server.port}/")
    assert server.connections == 0


@pytest.mark.threat("E1")
@pytest.mark.parametrize("addresses", LED_HERE, ids="-".join)
async def test_E1_one_forbidden_address_refuses_the_name(addresses: list[str]) -> None:
    """Whatever address the line has for itself: that one is open, and nothing beside it."""
    async with loopback_server() as server:
        for dial in (
            Dialer(EgressAllowlist(), fixed_resolver(addresses)),
            Dialer(EgressAllowlist(), fixed_resolver(addresses)).with_address(ip_address("192.168.0.7")),
        ):
            with pytest.raises(EgressRefused, match="egress_allow"):
                await dialled(dial, f"https://evil.example:{server.port}/")
    assert server.connections == 0


@pytest.mark.threat("E2")
async def test_E2_dialer_connects_to_the_checked_address() -> None:
    """A name that leads elsewhere the second time: the first answer is used, the second is judged anew."""
    async with loopback_server(host="127.0.0.2") as good, loopback_server(port=good.port) as trap:
        dial = Dialer(EgressAllowlist(["127.0.0.2/32"]), fixed_resolver(["127.0.0.2"], ["127.0.0.1"]))
        url = f"http://rebinding.localhost:{good.port}/"
        assert (await dialled(dial, url)).address == "127.0.0.2"
        with pytest.raises(EgressRefused, match="egress_allow"):
            await dialled(dial, url)
    assert trap.connections == 0


@pytest.mark.threat("E6")
async def test_E6_dialer_ignores_proxies_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with loopback_server() as proxy, loopback_server() as server:
        for name in PROXIES:
            monkeypatch.setenv(name, proxy.url)
        assert (await dialled(Dialer(EgressAllowlist([server.entry])), server.url)).address == "127.0.0.1"
    assert proxy.connections == 0


@pytest.mark.threat("E9")
@pytest.mark.parametrize("url", ["unix:/run/docker.sock", "ftp://127.0.0.1/", "ws://127.0.0.1/", "/run/docker.sock"])
def test_E9_dialer_allows_https_only(url: str) -> None:
    with pytest.raises(EgressRefused, match="is not an https URL"):
        Dialer(EgressAllowlist()).with_address(HERE).parse(url)


@pytest.mark.parametrize("joined_from", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_with_address_loopback_allows_loopback(joined_from: str, host: str) -> None:
    async with loopback_server() as server:
        dial = Dialer(EgressAllowlist(), tool_resolver).with_address(ip_address(joined_from))
        assert (await dialled(dial, f"http://{host}:{server.port}/")).address == "127.0.0.1"


@pytest.mark.parametrize("address", ["10.1.2.3", "192.168.0.7", "fd12::7", "100.64.0.1"])
def test_with_address_applies_to_one_dialer(address: str) -> None:
    """Its neighbours stay closed, and so does it for others; secrets travel, so the line is encrypted."""
    dial = Dialer(EgressAllowlist())
    own, url = dial.with_address(ip_address(address)), f"https://{f'[{address}]' if ':' in address else address}:9/"
    assert own.parse(url).host == address
    for other, closed in (
        (own, "https://10.1.2.4:9/"),
        (own, "https://127.0.0.1:9/"),
        (own, "http://localhost:9/"),
        (own, url.replace("https", "http")),
        (dial, url),
    ):
        with pytest.raises(EgressRefused):
            other.parse(closed)


@pytest.mark.threat("E1")
@pytest.mark.parametrize("address", [*METADATA, "0.0.0.0", "224.0.0.1", "2002:7f00:1::"])
async def test_E1_with_address_never_allows_a_metadata_service(address: str) -> None:
    """Whatever somebody made the hall believe about where they are."""
    found: IpAddress = ip_address(address)
    dial = Dialer(EgressAllowlist(), fixed_resolver([address])).with_address(found)
    for host in (f"[{address}]" if ":" in address else address, "evil.example"):
        with pytest.raises(EgressRefused):
            await dialled(dial, f"https://{host}:9/")


async def test_dialer_verifies_the_certificate(tmp_path: Path) -> None:
    """The name is what is checked, though an address is what is connected to."""
    server_side, believing = tls_contexts(tmp_path, "tools.example")
    async with loopback_server(tls=server_side) as server:
        allowed = EgressAllowlist(["127.0.0.0/8"])
        dial = Dialer(allowed, fixed_resolver(["127.0.0.1"]), lambda: believing)
        assert (await dialled(dial, f"https://tools.example:{server.port}/")).address == "127.0.0.1"
        with pytest.raises(ssl.SSLCertVerificationError, match=r"other\.example"):
            await dialled(dial, f"https://other.example:{server.port}/")
        with pytest.raises(ssl.SSLCertVerificationError):
            await dialled(Dialer(allowed, fixed_resolver(["127.0.0.1"])), f"https://tools.example:{server.port}/")


async def test_dialer_tries_the_next_address() -> None:
    async with loopback_server(host="127.0.0.2") as server:
        dial = Dialer(EgressAllowlist(["127.0.0.0/8"]), fixed_resolver(["127.0.0.1", "127.0.0.2"]))
        assert (await dialled(dial, f"http://a.localhost:{server.port}/")).address == "127.0.0.2"


async def test_dialer_unresolvable_name_raises_name_not_found() -> None:
    with pytest.raises(NameNotFound, match="no address"):
        await dialled(Dialer(EgressAllowlist(), fixed_resolver([])), "https://nowhere.example/")
    with pytest.raises(NameNotFound, match="cannot be resolved"):
        await dialled(Dialer(EgressAllowlist(), tool_resolver), "https://nowhere.invalid/")
