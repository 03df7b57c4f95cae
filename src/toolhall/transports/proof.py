"""Whether what a tool server joined with would still be taken, also while none of its messages comes."""

import asyncio
from collections.abc import Callable
from typing import Any

from toolhall.model.caller import Caller
from toolhall.transports.identity.base import Proven, Unproven, proven


class Proof:
    """Of one caller, by what proves it `again`; a key that was revoked, or a token that ran out, is none any more."""

    def __init__(self, again: Callable[[], Proven]) -> None:
        self._again = again
        self._asking: set[asyncio.Task[Any]] = set()

    def __call__(self) -> bool | None:
        """None where that is not known: who has to be asked first is asked, and known the next time."""
        try:
            found = self._again()
        except Unproven:
            return False
        if isinstance(found, Caller):
            return True
        asking = asyncio.get_running_loop().create_task(_asked(proven(found)))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        return None


async def _asked(answer: Any) -> None:
    try:
        await answer
    except Unproven:
        return
