"""Where a connection comes from, and who somebody is of whom nothing else is known."""

import ipaddress

import msgspec

from toolhall.model.caller import NOBODY, Caller
from toolhall.transports.asgi import Scope

_MOST_REMEMBERED = 4_096
_NETWORK_BITS = 64  # what one customer has of IPv6
USUAL = "127.0.0.1"
# A proxy need not say that it is one; these are what those say that do.
FORWARDED = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via"}
)
_LOOPBACK = ("127.", "::1", "::ffff:127.")
_strangers: dict[str, Caller] = {}


def address_of(scope: Scope) -> str:
    """The other end of a connection; a Unix socket has none."""
    client = scope.get("client")
    return client[0] if client else ""


def is_here(address: str) -> bool:
    """Whether it is this machine."""
    return address == USUAL or not address or address.startswith(_LOOPBACK)


def network_of(address: str) -> str:
    """What belongs to one customer: an address of IPv4, a network of IPv6."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(int(parsed) >> _NETWORK_BITS)


def nobody(scope: Scope) -> Caller:
    """Nobody in particular, from this address; the same object again where it can be."""
    address = address_of(scope)
    known = _strangers.get(address)
    if known is None:
        if len(_strangers) >= _MOST_REMEMBERED:
            _strangers.clear()
        known = _strangers[address] = msgspec.structs.replace(NOBODY, address=network_of(address))
    return known
