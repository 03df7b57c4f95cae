# ruff: noqa: N802 - tests carry the names of their rows
"""Somebody makes the hall connect where only the hall can: however the address is written, nobody is connected to."""

import httpx2
import pytest

from tests.unit.egress.loopback_server import fixed_resolver, loopback_server
from toolhall.egress.addresses import EgressAllowlist, EgressRefused
from toolhall.egress.client import EgressClient
from toolhall.egress.resolver import tool_resolver
from toolhall.egress.transport import GuardedBackend
from toolhall.egress.urls import parse_url

# Every way to write this machine, its neighbours and the metadata of clouds that some resolver or library understands.
SPELLINGS = [
    *("127.0.0.1", "127.1", "127.0.1", "127.255.255.254", "2130706433", "0x7f000001", "0x7F.0.0.1", "0x7f.1"),
    *("0177.0.0.1", "017700000001", "0177.1", "00000177.0.0.1", "127.0.0.01", "0", "0.0.0.0", "0x0", "00"),
    *("127.0.0.1.", "127。0。0。1", "127．0．0．1", "１２７.0.0.1", "①②⑦.0.0.1", "127%2e0.0.1", "%31%32%37.0.0.1"),  # noqa: RUF001
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "ｌocalhost", "ⓛocalhost", "[::]"),  # noqa: RUF001
    *("[::1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]"),
    *("[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[fe80::1]"),
    *("[fe80::1%25lo]", "[::1%25lo]", "[fec0::1]"),
    *("[fd00:ec2::254]", "[fc00::1]", "[ff02::1]", "[127.0.0.1]", "169.254.169.254", "2852039166", "0xa9fea9fe"),
    *("0251.0376.0251.0376", "169.254.43518", "100.100.100.200", "192.0.0.192", "168.63.129.16", "10.0.0.1"),
    *("172.16.0.1", "192.168.0.1", "100.64.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "user@127.0.0.1"),
    *("example.com@127.0.0.1", "127.0.0.1\\@example.com", "example.com\t@127.0.0.1", "[::1]@example.com"),
]  # fmt: skip
LED_HERE = [
    *(["127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["0.0.0.0"], ["169.254.169.254"]),
    *(["1.1.1.1", "127.0.0.1"], ["127.0.0.1", "1.1.1.1"], ["2606:4700:4700::1111", "10.0.0.1"]),
]


def test_E1_table_of_address_spellings_has_at_least_forty_distinct_entries() -> None:
    assert len(set(SPELLINGS)) == len(SPELLINGS) >= 40


@pytest.mark.threat("E1")
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_E1_blocked_address_in_any_spelling_is_not_connected_to(scheme: str) -> None:
    """Nearly seventy spellings, by either way through the door: all refused, and nobody connected."""
    async with loopback_server() as server, EgressClient(EgressAllowlist()).http_client() as client:
        for spelling in SPELLINGS:
            url = f"{scheme}://{spelling}:{server.port}/"
            with pytest.raises(EgressRefused):
                await EgressClient(EgressAllowlist()).fetch("GET", url)
            with pytest.raises((EgressRefused, httpx2.InvalidURL)):
                await client.get(url)
    assert server.connections == 0


@pytest.mark.threat("E1")
@pytest.mark.parametrize(
    "host", ["localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "::1", "127.0.0.1"]
)
async def test_E1_resolved_address_of_a_host_is_checked_before_connecting(host: str) -> None:
    """Even if a spelling got past the reading of the URL, where it leads is judged before anybody connects."""
    async with loopback_server() as server:
        with pytest.raises(EgressRefused, match="egress_allow"):
            await GuardedBackend(EgressAllowlist(), tool_resolver).connect_tcp(host, server.port, timeout=5)
    assert server.connections == 0


@pytest.mark.threat("E1")
@pytest.mark.parametrize("addresses", LED_HERE, ids="-".join)
async def test_E1_host_with_one_blocked_address_among_others_is_not_connected_to(addresses: list[str]) -> None:
    """A public name that leads inside, alone or beside public addresses, is not connected to."""
    async with loopback_server() as server:
        with pytest.raises(EgressRefused, match="egress_allow"):
            await EgressClient(EgressAllowlist(), fixed_resolver(addresses)).fetch(
                "GET", f"https://evil.example:{server.port}/"
            )
    assert server.connections == 0


@pytest.mark.threat("E1")
async def test_E1_allowlisted_host_and_port_allow_no_other_name_or_port() -> None:
    """A name that leads to an opened host and port is not that host, and neither is another port."""
    async with loopback_server() as server, loopback_server() as other:
        door = EgressClient(EgressAllowlist([server.entry]), fixed_resolver(["127.0.0.1"]))
        for url in (f"https://evil.example:{server.port}/", f"http://localhost:{server.port}/", other.url):
            with pytest.raises(EgressRefused):
                await door.fetch("GET", url)
        assert (await door.fetch("GET", server.url)).status == 200
    assert (server.connections, other.connections) == (1, 0)


@pytest.mark.threat("E2")
async def test_E2_checked_address_is_the_one_connected_to_when_dns_changes() -> None:
    """A name that leads elsewhere the second time: the first answer is used, the second is judged anew."""
    async with loopback_server(host="127.0.0.2") as good, loopback_server(port=good.port) as trap:
        door = EgressClient(EgressAllowlist(["127.0.0.2/32"]), fixed_resolver(["127.0.0.2"], ["127.0.0.1"]))
        url = f"http://rebinding.localhost:{good.port}/"
        assert (await door.fetch("GET", url)).status == 200
        with pytest.raises(EgressRefused, match="egress_allow"):
            await door.fetch("GET", url)
    assert (good.connections, trap.connections) == (1, 0)


@pytest.mark.threat("E9")
@pytest.mark.parametrize(
    "url",
    [
        *("unix:/run/docker.sock", "unix:///run/docker.sock", "http+unix://%2Frun%2Fdocker.sock/", "ftp://127.0.0.1/"),
        *(
            "gopher://127.0.0.1/_x",
            "file:///etc/passwd",
            "dict://127.0.0.1:11211/",
            "ldap://127.0.0.1/",
            "jar:http://x!/",
        ),
        *("ws://127.0.0.1/", "wss://example.com/", "//127.0.0.1/", "/run/docker.sock", "HTTPS+unix://x/", "tftp://x/"),
    ],
)
async def test_E9_url_scheme_other_than_https_is_refused(url: str) -> None:
    """Other schemes are refused, whoever asks."""
    with pytest.raises(EgressRefused, match="is not an https URL"):
        await EgressClient(EgressAllowlist()).fetch("GET", url)
    async with EgressClient(EgressAllowlist(["127.0.0.1"])).http_client() as client:
        with pytest.raises((EgressRefused, httpx2.UnsupportedProtocol)):
            await client.get(url)


@pytest.mark.threat("E9")
async def test_E9_unix_socket_connection_is_refused() -> None:
    """There is no option for one, and what connects refuses them too."""
    options: dict[str, str] = {"uds": "/run/docker.sock"}
    with pytest.raises(TypeError):
        EgressClient(EgressAllowlist()).http_client(**options)  # type: ignore[arg-type]
    with pytest.raises(EgressRefused, match="Unix sockets are not allowed"):
        await GuardedBackend(EgressAllowlist(), tool_resolver).connect_unix_socket("/run/docker.sock")


@pytest.mark.threat("D7")
@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "JavaScript://example.com/%0aalert(1)", "data:text/html,<script>", "file:///etc/passwd"),
        *("http://x$(calc)", "https://x$(calc)/", "https://x`id`/", "https://x;id/", "https://x|id/", "https://x&id/"),
        *("vbscript:x", "ms-msdt:/id", "about:blank", "blob:https://example.com/x", "http://example.com/authorize"),
        *("https://example.com/\"><script>", "https://example.com/a b", "https://example.com/\n", "\x01https://a.example/"),
        *("http://127.0.0.1:9/", "https://localhost/authorize", "https://user:pw@example.com/", "-https://example.com/"),
    ],
)  # fmt: skip
def test_D7_unsafe_authorize_url_is_refused_by_the_url_parser(url: str) -> None:
    """What a person is sent to is https after a strict reading: no script, no file, no command, no password."""
    with pytest.raises(EgressRefused) as refused:
        parse_url(url)
    assert str(refused.value).isprintable()
