"""Which addresses are closed, and what an operator can open."""

from ipaddress import ip_address, ip_network

import pytest

from toolhall.egress.addresses import BadAllowlistEntry, EgressAllowlist, is_hostname, is_loopback, non_public_kind

CLOSED = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::808:808",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%1",
    "fec0::1",
    "ff02::1",
    "2606:4700:4700::1111%1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.1.1",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
    "2001:4860:4860::8888",
]


def test_non_public_addresses_are_refused(subtests: pytest.Subtests) -> None:
    for address in CLOSED:
        with subtests.test(repr(address)):
            assert non_public_kind(ip_address(address))


def test_public_addresses_are_allowed(subtests: pytest.Subtests) -> None:
    for address in PUBLIC:
        with subtests.test(repr(address)):
            assert non_public_kind(ip_address(address)) is None


def test_network_boundaries_are_exact(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "fc00::/7", "224.0.0.0/4"]
    for network in rows:
        with subtests.test(repr(network)):
            whole = ip_network(network)
            assert non_public_kind(whole[0])
            assert non_public_kind(whole[-1])


def test_allowlist_entry_allows_what_it_names(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str, int, str, bool]] = [
        ("db.internal", "db.internal", 5432, "10.0.0.5", True),
        ("DB.internal", "db.internal", 5432, "10.0.0.5", True),
        ("db.internal:443", "db.internal", 443, "10.0.0.5", True),
        ("db.internal:443", "db.internal", 444, "10.0.0.5", False),
        ("db.internal", "evil.example", 443, "10.0.0.5", False),
        ("db.internal", "x.db.internal", 443, "10.0.0.5", False),
        ("db.internal", "db.internal", 443, "169.254.169.254", False),
        ("db.internal", "db.internal", 443, "fd00:ec2::254", False),
        ("db.internal", "db.internal", 443, "0.0.0.0", True),
        ("127.0.0.1:9000", "127.0.0.1", 9000, "127.0.0.1", True),
        ("127.0.0.1:9000", "127.0.0.1", 9001, "127.0.0.1", False),
        ("127.0.0.1:9000", "evil.example", 9000, "127.0.0.1", False),
        ("127.0.0.1:9000", "localhost", 9000, "127.0.0.1", False),
        ("169.254.169.254", "169.254.169.254", 80, "169.254.169.254", True),
        ("[::1]:9000", "::1", 9000, "::1", True),
        ("[0:0::1]", "::1", 9000, "::1", True),
        ("10.0.0.0/8", "any.example", 443, "10.1.2.3", True),
        ("10.0.0.0/8", "any.example", 443, "11.1.2.3", True),
        ("10.0.0.0/8", "any.example", 443, "192.168.1.1", False),
        ("10.0.0.0/8", "any.example", 443, "::ffff:10.1.2.3", False),
        ("localhost:80", "localhost", 80, "127.0.0.1", True),
        ("localhost:80", "localhost", 80, "10.0.0.1", False),
        ("localhost:80", "localhost", 80, "8.8.8.8", False),
    ]
    for entry, host, port, address, is_open in rows:
        with subtests.test(repr((entry, host, port, address, is_open))):
            assert (EgressAllowlist([entry]).refusal_reason(host, port, ip_address(address)) is None) is is_open


def test_allowlist_invalid_entry_names_the_fix(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        ("", "write host"),
        ("*", "no wildcards"),
        ("*.internal", "no wildcards"),
        ("https://db.internal", "without scheme"),
        ("db.internal/path", "without scheme"),
        ("::1", "[::1]:9000"),
        ("::1:9000", "[::1]:9000"),
        ("[127.0.0.1]", "neither an ASCII hostname"),
        ("[::1%1]", "[::1]:9000"),
        ("host:0", "write host"),
        ("host:99999", "65535"),
        ("host:", "write host"),
        ("host: 80", "write host"),
        ("ho st", "ASCII"),
        ("exämple", "xn--"),
        ("0x7f.1", "neither an ASCII hostname"),
        ("2130706433", "neither an ASCII hostname"),
        ("127.1", "neither an ASCII hostname"),
        ("host.", "neither an ASCII hostname"),
        ("10.0.0.1/8", "write 10.0.0.0/8"),
        ("10.0.0.0/255.0.0.0", "write 10.0.0.0/8"),
        ("0.0.0.0/0", "every address"),
        ("::/0", "every address"),
        ("10.0.0.0/33", "not a network"),
        ("user@host", "neither an ASCII hostname"),
    ]
    for entry, fix in rows:
        with subtests.test(repr((entry, fix))):
            with pytest.raises(BadAllowlistEntry) as bad:
                EgressAllowlist([entry])
            assert fix in str(bad.value)
            assert str(bad.value).startswith("egress_allow: ")


def test_is_hostname() -> None:
    assert all(
        map(is_hostname, ["localhost", "a", "a-b.c_d.example", "xn--exmple-cua.com", "1.example", "0x7f.example"])
    )
    wrong = [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "-a",
        "a-",
        "127.1",
        "0x7f",
        "a.1",
        "a.0x1",
        "ä",
        "a b",
        "a" * 64,
        "a." * 127 + "a",
    ]
    assert not any(map(is_hostname, wrong))


def test_is_loopback() -> None:
    assert all(map(is_loopback, ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"]))
    assert not any(map(is_loopback, ["localhost.example", "notlocalhost", "10.0.0.1", "0.0.0.0", "::"]))
