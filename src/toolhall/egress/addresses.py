"""Which addresses may be connected to: public ones, and those on the operator's EgressAllowlist.

Also the two errors of the package: EgressRefused (the hall does not connect there) and EgressFailed (the network or the
other side failed).
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias


class EgressRefused(Exception):
    """The hall itself does not go there; one line that may be logged, with what to change."""


class EgressFailed(Exception):
    """The other side could not be reached, or answered in a way that nobody should read; one line for the log."""


IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network
ALLOW_SETTING = "egress_allow"
ALLOW_SETTING_SOURCES = (
    f"{ALLOW_SETTING} in toolhall.toml or TOOLHALL_EGRESS_ALLOW"  # where an operator allows more addresses
)
_METADATA = "the metadata service of a cloud"
_PRIVATE = "a private network"
_THIS_HOST = "this machine"
_RESERVED = "reserved for special use"
_EMBEDDED_IPV4 = "an IPv4 address in disguise"
# Written out, because what the standard library calls global differs between its versions.
_NON_PUBLIC_NETWORKS: dict[int, list[tuple[IpNetwork, str]]] = {
    4: [
        (IPv4Network(network), why)
        for network, why in [
            ("0.0.0.0/8", _THIS_HOST),
            ("127.0.0.0/8", _THIS_HOST),
            ("100.100.100.200/32", _METADATA),  # Alibaba
            ("168.63.129.16/32", _METADATA),  # Azure; a public address otherwise
            ("169.254.0.0/16", _METADATA),  # link-local: AWS, Google, Azure and others
            ("192.0.0.0/24", _METADATA),  # Oracle
            ("10.0.0.0/8", _PRIVATE),
            ("100.64.0.0/10", _PRIVATE),
            ("172.16.0.0/12", _PRIVATE),
            ("192.168.0.0/16", _PRIVATE),
            ("192.0.2.0/24", _RESERVED),
            ("192.88.99.0/24", _EMBEDDED_IPV4),  # 6to4 relays
            ("198.18.0.0/15", _RESERVED),
            ("198.51.100.0/24", _RESERVED),
            ("203.0.113.0/24", _RESERVED),
            ("224.0.0.0/3", _RESERVED),  # multicast, reserved, broadcast
        ]
    ],
    6: [
        (IPv6Network(network), why)
        for network, why in [
            ("::/128", _THIS_HOST),
            ("::1/128", _THIS_HOST),
            ("::/96", _EMBEDDED_IPV4),
            ("::ffff:0:0/96", _EMBEDDED_IPV4),
            ("::ffff:0:0:0/96", _EMBEDDED_IPV4),
            ("64:ff9b::/96", _EMBEDDED_IPV4),  # NAT64
            ("64:ff9b:1::/48", _EMBEDDED_IPV4),
            ("2002::/16", _EMBEDDED_IPV4),  # 6to4
            ("2001::/32", _EMBEDDED_IPV4),  # Teredo
            ("2001::/23", _RESERVED),
            ("2001:db8::/32", _RESERVED),
            ("3fff::/20", _RESERVED),
            ("fd00:ec2::/32", _METADATA),  # AWS
            ("fc00::/7", _PRIVATE),
            ("fe80::/10", _METADATA),
            ("fec0::/10", _PRIVATE),
        ]
    ],
}
_LOOPBACK: list[IpNetwork] = [IPv4Network("127.0.0.0/8"), IPv6Network("::1/128")]
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # all that was ever given out
_HOSTNAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMERIC_HOST = re.compile(r"(?:.*\.)?(?:0x[0-9a-f]*|[0-9]+)")
_HOST_ENTRY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/]+)(?::([1-9][0-9]{0,4}))?")


def non_public_kind(address: IpAddress) -> str | None:
    """What an address is that nobody outside should make the hall connect to; None for a public one."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return _RESERVED
    for network, why in _NON_PUBLIC_NETWORKS[address.version]:
        if address in network:
            return why
    if not address.is_global or (isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST):
        return _RESERVED
    return None


def parse_address(host: str) -> IpAddress | None:
    """The address that a host is, if it is written as one; in no other way than the usual one."""
    try:
        return IPv6Address(host[1:-1]) if host.startswith("[") else ip_address(host)
    except ValueError:
        return None


def is_hostname(host: str) -> bool:
    """Whether it is a name in plain letters; what a resolver would take for a number (0x7f.1) is none."""
    return len(host) <= 253 and bool(_HOSTNAME.fullmatch(host)) and not _NUMERIC_HOST.fullmatch(host)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by what it is called (RFC 6761); other names may lead here too."""
    address = parse_address(host)
    return host == "localhost" or host.endswith(".localhost") if address is None else address.is_loopback


class BadAllowlistEntry(ValueError):
    """An entry of the setting that opens nothing or everything; the message says what to write."""


class EgressAllowlist:
    """What the operator opened: `host`, `host:port`, `[::1]:9000` for requests to just that, `10.0.0.0/8` for all."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._hosts: set[tuple[str, int | None]] = set()
        self._networks: list[IpNetwork] = []
        for entry in entries:
            if "/" in entry:
                self._networks.append(_parse_network(entry))
            else:
                self._hosts.add(_parse_host(entry))

    def with_address(self, address: IpAddress) -> "EgressAllowlist":
        """The same with one address more, or with all that are this machine; never a metadata service."""
        plain = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
        more = EgressAllowlist()
        more._hosts = self._hosts
        if plain.is_loopback:
            more._networks = [*self._networks, *_LOOPBACK]
        elif non_public_kind(plain) == _PRIVATE:
            more._networks = [*self._networks, ip_network(plain)]
        else:
            more._networks = self._networks
        return more

    def refusal_reason(self, host: str, port: int, address: IpAddress) -> str | None:
        """What speaks against connecting to this address, which the host of a request leads to; None: nothing."""
        why = non_public_kind(address)
        if is_loopback(host) and not address.is_loopback:
            return why or "elsewhere, though it is a name of this machine"
        if why is None or any(address in network for network in self._networks):
            return None
        # A name is opened for what is private. That it leads to a metadata service is no operator's wish.
        if self.has_entry(host, port) and (why in (_PRIVATE, _THIS_HOST) or parse_address(host) == address):
            return None
        return why

    def has_entry(self, host: str, port: int) -> bool:
        """Whether an entry is exactly this host, with this port or with none."""
        return (host, port) in self._hosts or (host, None) in self._hosts

    def allows_loopback(self, host: str, port: int) -> bool:
        """Whether a name of this machine may be asked for; its addresses are judged when they are known."""
        return self.has_entry(host, port) or any(network.is_loopback for network in self._networks)


def allowlist_entry(host: str, port: int, address: IpAddress | None) -> str:
    """What an operator adds to open this; for all but private networks, a name is not enough."""
    if address is None or parse_address(host) == address or non_public_kind(address) in (_PRIVATE, _THIS_HOST):
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{address}/{address.max_prefixlen}"


def _parse_network(entry: str) -> IpNetwork:
    try:
        found = ip_network(entry, strict=False)
    except ValueError:
        raise BadAllowlistEntry(
            f"{ALLOW_SETTING}: {entry!r} is no network; write 10.0.0.0/8, or a host without scheme and path"
        ) from None
    if found.prefixlen == 0:
        raise BadAllowlistEntry(
            f"{ALLOW_SETTING}: {entry!r} would open every address; name the networks that are needed"
        )
    if entry != str(found):
        raise BadAllowlistEntry(f"{ALLOW_SETTING}: {entry!r} is not the start of a network; write {found}")
    return found


def _parse_host(entry: str) -> tuple[str, int | None]:
    found = _HOST_ENTRY.fullmatch(entry)
    if found is None:
        raise BadAllowlistEntry(
            f"{ALLOW_SETTING}: {entry!r} is no host; write host, host:port, [::1]:9000 or 10.0.0.0/8"
        )
    host, port = found[1].lower(), int(found[2]) if found[2] else None
    if port is not None and port > 65_535:
        raise BadAllowlistEntry(f"{ALLOW_SETTING}: {entry!r} has no port; it is a number up to 65535")
    address = parse_address(host)
    if address is None and not is_hostname(host):
        raise BadAllowlistEntry(
            f"{ALLOW_SETTING}: {entry!r} is neither a name in plain letters (xn--... for others) nor an address; "
            "there are no wildcards"
        )
    return host if address is None else str(address), port
