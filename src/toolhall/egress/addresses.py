"""Address policy of outbound connections: public addresses, and what the operator's EgressAllowlist adds.

Also the two errors of the package: EgressRefused (the hall's policy forbids the request) and EgressFailed (the network
or the server failed).
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

IpAddress: TypeAlias = IPv4Address | IPv6Address
IpNetwork: TypeAlias = IPv4Network | IPv6Network
ALLOW_SETTING = "egress_allow"
ALLOW_SETTING_SOURCES = f"{ALLOW_SETTING} in toolhall.toml or TOOLHALL_EGRESS_ALLOW"
_METADATA = "the metadata service of a cloud"
_PRIVATE = "a private network"
_THIS_HOST = "this machine"
_RESERVED = "an address that is reserved for special use"
_EMBEDDED_IPV4 = "an IPv4 address embedded in another one"
# Listed here, because `is_global` of the standard library differs between versions of Python. The first match counts.
_NON_PUBLIC_NETWORKS: dict[int, list[tuple[IpNetwork, str]]] = {
    4: [
        (IPv4Network(network), kind)
        for network, kind in [
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
        (IPv6Network(network), kind)
        for network, kind in [
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
_GLOBAL_UNICAST = IPv6Network("2000::/3")  # the only IPv6 block that IANA assigns public addresses from
_HOSTNAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMERIC_HOST = re.compile(r"(?:.*\.)?(?:0x[0-9a-f]*|[0-9]+)")
_HOST_ENTRY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/]+)(?::([1-9][0-9]{0,4}))?")


class EgressRefused(Exception):
    """The hall's policy forbids the request; the message is one line that may be logged, and names the fix."""


class EgressFailed(Exception):
    """The server could not be reached, or its response is unusable; the message is one line that may be logged."""


class BadAllowlistEntry(ValueError):
    """An invalid entry of the setting, or one that would allow every address; the message says what to write."""


class EgressAllowlist:
    """Destinations that the operator allows beyond public addresses.

    `host`, `host:port` and `[::1]:9000` allow requests to exactly that host; `10.0.0.0/8` allows every address of the
    network, whatever name resolves to it.
    """

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._hosts: set[tuple[str, int | None]] = set()
        self._networks: list[IpNetwork] = []
        for entry in entries:
            if "/" in entry:
                self._networks.append(_parse_network(entry))
            else:
                self._hosts.add(_parse_host(entry))

    def with_address(self, address: IpAddress) -> "EgressAllowlist":
        """A copy that also allows one private address, or all of loopback; never a metadata service."""
        plain = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
        copy = EgressAllowlist()
        copy._hosts = self._hosts
        if plain.is_loopback:
            copy._networks = [*self._networks, *_LOOPBACK]
        elif non_public_kind(plain) == _PRIVATE:
            copy._networks = [*self._networks, ip_network(plain)]
        else:
            copy._networks = self._networks
        return copy

    def refusal_reason(self, host: str, port: int, address: IpAddress) -> str | None:
        """Why a request to `host` must not connect to `address`, which the host resolved to; None if it may."""
        kind = non_public_kind(address)
        if is_loopback(host) and not address.is_loopback:
            return kind or "an address that is not loopback"
        if kind is None or any(address in network for network in self._networks):
            return None
        # An entry by name allows private addresses only: no operator wants a name to resolve to a metadata service.
        if self.has_entry(host, port) and (kind in (_PRIVATE, _THIS_HOST) or parse_address(host) == address):
            return None
        return kind

    def has_entry(self, host: str, port: int) -> bool:
        """Whether an entry is exactly this host, with this port or without a port."""
        return (host, port) in self._hosts or (host, None) in self._hosts

    def allows_loopback(self, host: str, port: int) -> bool:
        """Whether a loopback name may be resolved at all; its addresses are checked afterwards."""
        return self.has_entry(host, port) or any(network.is_loopback for network in self._networks)


def non_public_kind(address: IpAddress) -> str | None:
    """What kind of non-public address this is, for a message; None for a public one."""
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return _RESERVED
    for network, kind in _NON_PUBLIC_NETWORKS[address.version]:
        if address in network:
            return kind
    if not address.is_global or (isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST):
        return _RESERVED
    return None


def parse_address(host: str) -> IpAddress | None:
    """The address, if a host is an IP literal in its standard spelling; None for a name."""
    try:
        return IPv6Address(host[1:-1]) if host.startswith("[") else ip_address(host)
    except ValueError:
        return None


def is_hostname(host: str) -> bool:
    """Whether a host is an ASCII hostname; what a resolver could read as an address (0x7f.1) is not."""
    return len(host) <= 253 and bool(_HOSTNAME.fullmatch(host)) and not _NUMERIC_HOST.fullmatch(host)


def is_loopback(host: str) -> bool:
    """Whether a host is loopback by its name or literal (RFC 6761); other names may resolve to loopback too."""
    address = parse_address(host)
    return host == "localhost" or host.endswith(".localhost") if address is None else address.is_loopback


def allowlist_entry(host: str, port: int, address: IpAddress | None) -> str:
    """The entry that would allow this destination: an address, unless an entry by name is enough."""
    if address is None or parse_address(host) == address or non_public_kind(address) in (_PRIVATE, _THIS_HOST):
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{address}/{address.max_prefixlen}"


def _parse_network(entry: str) -> IpNetwork:
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        raise BadAllowlistEntry(
            f"{ALLOW_SETTING}: {entry!r} is not a network; write 10.0.0.0/8, or a host without scheme and path"
        ) from None
    if network.prefixlen == 0:
        raise BadAllowlistEntry(
            f"{ALLOW_SETTING}: {entry!r} would allow every address; list the networks that are needed"
        )
    if entry != str(network):
        raise BadAllowlistEntry(f"{ALLOW_SETTING}: {entry!r} is not the start of a network; write {network}")
    return network


def _parse_host(entry: str) -> tuple[str, int | None]:
    match = _HOST_ENTRY.fullmatch(entry)
    if match is None:
        raise BadAllowlistEntry(
            f"{ALLOW_SETTING}: {entry!r} is not a host; write host, host:port, [::1]:9000 or 10.0.0.0/8"
        )
    host, port = match[1].lower(), int(match[2]) if match[2] else None
    if port is not None and port > 65_535:
        raise BadAllowlistEntry(f"{ALLOW_SETTING}: {entry!r} has an invalid port; use a number up to 65535")
    address = parse_address(host)
    if address is None and not is_hostname(host):
        raise BadAllowlistEntry(
            f"{ALLOW_SETTING}: {entry!r} is neither an ASCII hostname (xn--... for others) nor an address; "
            "there are no wildcards"
        )
    return host if address is None else str(address), port
