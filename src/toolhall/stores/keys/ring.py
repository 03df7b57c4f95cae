"""Knows in a moment whose an API key is: everything is in memory, and replaced whole when a key comes or goes."""

import hmac
import logging
import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.secret import Secret
from toolhall.stores.derived import API_KEYS, derived
from toolhall.stores.keys.base import ApiKey
from toolhall.stores.keys.text import Key, digest, fingerprint, read

MOST_SEEN = 10_000
REMEMBER_SECONDS = 60.0
_NEVER = float("inf")
_log = logging.getLogger("toolhall.keys")


class _Held(NamedTuple):
    """A key that is good for something, until it expires."""

    id: str
    digest: bytes
    caller: Caller  # one object, as long as nothing changes
    until: float


class KeyRing:
    """Answers who holds a key; `remember` is called now and then when there are uses to be written down."""

    def __init__(self, root: bytes, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pepper = derived(root, API_KEYS)
        self._nobody = _Held("", os.urandom(32), Caller(""), 0.0)  # compared with, where there is no such key
        self._held: dict[str, _Held] = {}
        self._revoked: set[str] = set()  # for good, also where the file says something else later
        self._seen: dict[bytes, _Held] = {}
        self._used: dict[str, float] = {}
        self._due = 0.0
        self.remember: Callable[[], None] = _nothing

    def load(self, keys: Iterable[ApiKey]) -> None:
        """From now on these are all; what was revoked, now or ever before, opens nothing."""
        every = list(keys)
        self._revoked.update(key.id for key in every if key.revoked_at is not None)
        for key in every:
            if key.id in self._revoked and key.revoked_at is None:
                _log.error("the key %s was revoked, and another program put it back; it stays revoked", key.id)
        self._held = {key.id: _held(key) for key in every if key.id not in self._revoked}
        self._seen = {}

    def find(self, text: str, now: float) -> Caller | None:
        """Whose key this is; None if it is nobody's, or not any more."""
        mark = fingerprint(text)
        held = self._seen.get(mark) or self._verified(text, mark)
        if held is None or held.until <= now:
            return None
        self._used[held.id] = now
        if now >= self._due:
            self._due = now + REMEMBER_SECONDS
            self.remember()
        return held.caller

    def __len__(self) -> int:
        """How many are good for something now."""
        now = self._clock()
        return sum(held.until > now for held in self._held.values())

    def proof_of(self, key: Key) -> bytes:
        """What is kept of a new key."""
        return digest(self._pepper, key)

    @property
    def used(self) -> dict[str, float]:
        """When keys were used that have been used since they were last written down."""
        return dict(self._used)

    def take_used(self) -> dict[str, float]:
        """The same, for who writes it down: the next time they are not among it."""
        used, self._used = self._used, {}
        return used

    def _verified(self, text: str, mark: bytes) -> _Held | None:
        """Found by its public name, then compared in constant time, also where there is none of that name."""
        key = read(text)
        if key is None:
            return None
        held = self._held.get(key.id, self._nobody)
        if not hmac.compare_digest(held.digest, digest(self._pepper, key)) or held is self._nobody:
            return None
        if len(self._seen) >= MOST_SEEN:
            self._seen = {}
        # Whatever a tool gets hold of, the key that it was called with is never shown to anyone.
        caller = msgspec.structs.replace(held.caller, credential=Secret(text))
        held = self._seen[mark] = held._replace(caller=caller)
        return held


def _held(key: ApiKey) -> _Held:
    caller = Caller(
        key.name,
        proof="shared" if key.shared else "key",
        person=key.owner or key.name,
        scopes=frozenset(key.scopes),
        expires_at=key.expires_at,
    )
    return _Held(key.id, key.digest, caller, _NEVER if key.expires_at is None else key.expires_at)


def _nothing() -> None:
    """Where nothing is written down."""
