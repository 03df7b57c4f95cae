"""How many connections there may be: from one address, and in this process."""

import ipaddress
import sys

if sys.platform != "win32":
    import resource

MOST_PER_ADDRESS = 256
MOST_CONNECTIONS = 10_000
_OWN_FILES = 256  # descriptors that the hall needs for itself: records, the store, its children's pipes


class Entrance:
    """Counts who is in; an address that has too many connections keeps only its own callers out.

    This machine's own address is not limited: everybody behind a proxy here would share it.
    """

    def __init__(self, most: int = MOST_CONNECTIONS, most_per_address: int = MOST_PER_ADDRESS) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self.inside = 0
        self._by_address: dict[str, int] = {}

    def enter(self, address: str | None) -> bool:
        """Whether one more may come in from there; a Unix socket has no address."""
        if self.inside >= self._most:
            return False
        if address is not None and not _is_here(address):
            there = self._by_address.get(address, 0)
            if there >= self._most_per_address:
                return False
            self._by_address[address] = there + 1
        self.inside += 1
        return True

    @property
    def addresses(self) -> int:
        """Of how many addresses something is remembered."""
        return len(self._by_address)

    def leave(self, address: str | None) -> None:
        """One that came in is gone."""
        self.inside -= 1
        left = self._by_address.pop(address or "", 0) - 1
        if address is not None and left > 0:
            self._by_address[address] = left


def connections_possible() -> int:
    """How many connections this process can hold; it asks the system for as many files as that takes."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OWN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, soft - _OWN_FILES))


def _is_here(address: str) -> bool:
    return address == "127.0.0.1" or ipaddress.ip_address(address.partition("%")[0]).is_loopback
