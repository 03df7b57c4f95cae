"""Whether what a tool server joined with would still be taken, though none of its messages comes through now."""

import asyncio
from typing import Any

from toolhall.model.caller import Caller
from toolhall.transports.asgi import Headers, Scope
from toolhall.transports.identity.base import Identity, Unproven, proven

_NEEDED = ("type", "path", "method", "client")  # of a scope, which also holds its connection


class Proof:
    """Of one caller; a key that was revoked, or a token that ran out, is none any more."""

    def __init__(self, identity: Identity, scope: Scope, headers: Headers) -> None:
        self._identity = identity
        self._scope = {name: scope[name] for name in _NEEDED if name in scope}
        self._headers = headers
        self._asking: set[asyncio.Task[Any]] = set()

    def __call__(self) -> bool:
        """As far as it is known now; who has to be asked first is asked, and known the next time."""
        try:
            found = self._identity.caller(self._scope, self._headers)
        except Unproven:
            return False
        if isinstance(found, Caller):
            return True
        asking = asyncio.get_running_loop().create_task(_asked(proven(found)))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        return False


async def _asked(answer: Any) -> None:
    try:
        await answer
    except Unproven:
        return
