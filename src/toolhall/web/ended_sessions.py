"""`EndedSessions`: sessions that people signed out of, and sign-ins that were finished, until they would expire anyway.

A sealed cookie stays valid wherever it was copied to, so what must not count any more is remembered: in the store of
used states, which all processes of a hall share, and in memory, where every request of a session looks. Other
processes learn of a sign-out when they load what changed in the store, within about a second.
"""

import logging

from toolhall.stores.approvals import MemoryUsedStateStore, TooManyStates, UsedStateStore
from toolhall.stores.common import StoreFailed

_SESSION, _SIGN_IN = "session:", "sign-in:"  # prefixes of ids in the store; those of request states are plain digests
_MIN_PRUNED = 1_000
_log = logging.getLogger("toolhall.pages")


class EndedSessions:
    """Remembers ended sessions and finished sign-ins by their nonces."""

    def __init__(self) -> None:
        self._store: UsedStateStore = MemoryUsedStateStore()  # until the hall's stores are open
        self._ends: dict[str, float] = {}  # when each would have ended anyway
        self._prune_from = _MIN_PRUNED

    def use_store(self, store: UsedStateStore) -> None:
        """Keep them in this store from now on; `reload` loads what it has."""
        self._store = store

    async def reload(self, now: float) -> None:
        """Load the sessions that were ended in any process; raises StoreFailed."""
        found = await self._store.unexpired(_SESSION, now)
        self._ends |= {name.removeprefix(_SESSION): ends for name, ends in found.items()}
        self._prune(now)

    def has_ended(self, nonce: str) -> bool:
        """Whether somebody signed out of this session."""
        return nonce in self._ends

    async def end(self, nonce: str, caller: str, ends: float, now: float) -> None:
        """End a session everywhere; what cannot be stored counts in this process only, and is logged.

        Who signs out more often than the store remembers of one caller fills no memory: the rest is not kept.
        """
        self._prune(now)
        self._ends[nonce] = ends
        try:
            await self._store.consume(f"{_SESSION}{nonce}", f"{_SESSION}{caller}", ends, now)
        except StoreFailed as failed:
            _log.warning("a session was ended in this process only: %s", failed)
        except TooManyStates as failed:
            del self._ends[nonce]
            _log.warning("a session was ended in its own browser only: %s", failed)

    async def finish_sign_in(self, state: str, caller: str, expires: float, now: float) -> bool:
        """Use up an attempt to sign in; False if it was used before. Raises StoreFailed or TooManyStates."""
        return await self._store.consume(f"{_SIGN_IN}{state}", f"{_SIGN_IN}{caller}", expires, now)

    def _prune(self, now: float) -> None:
        if len(self._ends) >= self._prune_from:
            self._ends = {nonce: ends for nonce, ends in self._ends.items() if ends > now}
            self._prune_from = max(_MIN_PRUNED, 2 * len(self._ends))  # so that a sign-out costs the same on average
