"""Single-use request states: UsedStateStore remembers which states were consumed until they expire."""

from typing import Protocol

MAX_USED_STATES = 10_000  # remembered per caller; each is forgotten once it has expired


class TooManyStates(Exception):
    """A caller has used as many states as are remembered per caller; the oldest expires in `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"more than {MAX_USED_STATES} states were used lately; wait {seconds:.0f} seconds")


class UsedStateStore(Protocol):
    """Remembers consumed states until they expire; expired ones are refused when they are decrypted."""

    async def consume(self, state_id: str, caller: str, expires: float, now: float) -> bool:
        """Consume the state; False if it was consumed before. Raises TooManyStates."""
        ...

    async def release(self, state_id: str) -> None:
        """Make the state usable again, because its request had no effect."""
        ...


class MemoryUsedStateStore:
    """In-memory implementation, for halls without a data folder and as the oracle of the interface tests."""

    def __init__(self) -> None:
        self._used: dict[str, tuple[str, float]] = {}
        self._counts: dict[str, int] = {}  # by caller

    async def consume(self, state_id: str, caller: str, expires: float, now: float) -> bool:
        """Consume the state; False if it was consumed before. Raises TooManyStates."""
        if state_id in self._used and self._used[state_id][1] > now:
            return False
        if self._counts.get(caller, 0) >= MAX_USED_STATES:
            self._prune(now)
        if self._counts.get(caller, 0) >= MAX_USED_STATES:
            raise TooManyStates(min(until for who, until in self._used.values() if who == caller) - now)
        if len(self._used) % MAX_USED_STATES == 0:  # now and then, so that callers that stopped calling are forgotten
            self._prune(now)
        self._used[state_id] = caller, expires
        self._counts[caller] = self._counts.get(caller, 0) + 1
        return True

    async def release(self, state_id: str) -> None:
        """Make the state usable again, because its request had no effect."""
        found = self._used.pop(state_id, None)
        if found is not None:
            self._counts[found[0]] -= 1

    def _prune(self, now: float) -> None:
        self._used = {name: used for name, used in self._used.items() if used[1] > now}
        self._counts = {}
        for caller, _ in self._used.values():
            self._counts[caller] = self._counts.get(caller, 0) + 1
