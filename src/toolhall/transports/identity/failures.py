"""How often an address brought a credential that was not valid: whoever guesses is not listened to for a while."""

from collections import OrderedDict
from collections.abc import Callable

from toolhall.transports.identity.addresses import network_of

MOST_FAILURES = 20
WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 10_000


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
        count, until = self._counts.get(network_of(address), (0, 0.0))
        left = until - self._clock()
        return left if count >= self._most and left > 0 else None

    def add(self, address: str) -> None:
        """One more."""
        network, now = network_of(address), self._clock()
        count, until = self._counts.get(network, (0, 0.0))
        if until <= now:
            self._counts.pop(network, None)  # it begins anew, behind all others
            count, until = 0, now + WINDOW_SECONDS
        self._counts[network] = (count + 1, until)
        while len(self._counts) > MOST_ADDRESSES or next(iter(self._counts.values()))[1] <= now:
            self._counts.popitem(last=False)
