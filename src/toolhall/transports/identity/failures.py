"""How often an address brought a credential that was not valid: whoever guesses is not listened to for a while."""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable

MOST_FAILURES = 20
WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 10_000
_NETWORK_BITS = 64  # what one customer has of IPv6


class Failures:
    """Counts by address, an IPv6 network being one; the address that began first is forgotten when there are many."""

    def __init__(self, clock: Callable[[], float], most: int = MOST_FAILURES) -> None:
        self._clock = clock
        self._most = most
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how often, and until when that counts

    def __len__(self) -> int:
        return len(self._counts)

    def wait(self, address: str) -> float | None:
        """In how many seconds this address may try again; None where it may now."""
        if not self._counts:
            return None
        count, until = self._counts.get(_network(address), (0, 0.0))
        left = until - self._clock()
        return left if count >= self._most and left > 0 else None

    def add(self, address: str) -> None:
        """One more."""
        network, now = _network(address), self._clock()
        count, until = self._counts.get(network, (0, 0.0))
        if until <= now:
            self._counts.pop(network, None)  # it begins anew, behind all others
            count, until = 0, now + WINDOW_SECONDS
        self._counts[network] = (count + 1, until)
        while len(self._counts) > MOST_ADDRESSES or next(iter(self._counts.values()))[1] <= now:
            self._counts.popitem(last=False)


def _network(address: str) -> str:
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(int(parsed) >> _NETWORK_BITS)
