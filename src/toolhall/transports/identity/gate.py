"""Checks the credential that a request brings, by what made it; an address that fails often is told to wait."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from toolhall.model.caller import Caller
from toolhall.model.errors import Limited
from toolhall.transports.asgi import Headers, Scope
from toolhall.transports.identity.addresses import address_of, is_here
from toolhall.transports.identity.base import Proven, Unproven, invalid
from toolhall.transports.identity.failures import Failures
from toolhall.transports.identity.sent import OXP_PATHS, is_key, same

_log = logging.getLogger("toolhall.identity")

Found: TypeAlias = Caller | Awaitable[Caller | None] | None


class Keys(Protocol):
    """The API keys there are."""

    def __len__(self) -> int:
        """How many are valid."""
        ...

    def find(self, text: str, now: float) -> Caller | None:
        """Whose key this is, if it is a valid one now."""
        ...


class Tokens(Protocol):
    """A way to prove callers by signed tokens."""

    def find(self, text: str) -> Found:
        """Who signed in with this token, if it is a valid one now."""
        ...


class Gate:
    """Finds the caller of a credential; `oxp` are tokens that are good for OXP only, and looked at first there."""

    def __init__(
        self,
        keys: Keys,
        clock: Callable[[], float],
        *,
        tokens: Tokens | None = None,
        oxp: Tokens | None = None,
        failures: Failures | None = None,
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._tokens = tokens
        self._oxp = oxp
        self._failures = failures or Failures(clock)

    @property
    def takes_tokens(self) -> bool:
        """Whether anything but an API key can be valid here."""
        return self._tokens is not None

    def prove(self, text: str, scope: Scope) -> Proven:
        """The caller, at once for a key or a token that was seen before; Unproven is raised or awaited."""
        if is_key(text):
            found: Found = self._keys.find(text, self._clock())
        else:
            found = self._by_token(text, scope["path"])
        if isinstance(found, Caller):
            return found
        if found is None:
            raise self._failed(scope)
        return self._waited(found, scope)

    def prove_again(self, token: str, scope: Scope, headers: Headers) -> Proven | None:
        """The caller of a credential inside a message; None where the headers brought the same."""
        return None if same(headers, token) else self.prove(token, scope)

    def _by_token(self, text: str, path: str) -> Found:
        if self._oxp is not None and path.startswith(OXP_PATHS):
            found = self._oxp.find(text)
            if found is not None:
                return found
        return None if self._tokens is None else self._tokens.find(text)

    async def _waited(self, waiting: Awaitable[Caller | None], scope: Scope) -> Caller:
        found = await waiting
        if found is None:
            raise self._failed(scope)
        return found

    def _failed(self, scope: Scope) -> Unproven:
        """Only what failed is held back: a neighbour's guesses lock nobody out, least of all behind one proxy."""
        address = address_of(scope)
        if is_here(address):
            return invalid()
        wait = self._failures.wait(address)
        if wait is not None:
            return Unproven(Limited(wait), sent=True)
        self._failures.add(address)
        if self._failures.wait(address) is not None:
            _log.warning("%s brings credentials that are not valid, and is told to wait for a minute", address)
        return invalid()
