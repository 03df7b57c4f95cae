"""Records those who are refused because they prove nobody: of each address so many a minute, and how many more."""

from collections.abc import Callable

import msgspec

from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError, Unauthenticated
from toolhall.model.exchange import CallTool
from toolhall.transports.identity.failures import MOST_ADDRESSES, Failures

MOST_RECORDS = 20  # of one address within a minute: strangers must not fill a disk
_DIALECTS = ("mcp", "oxp", "hub", "machine")


class _More(msgspec.Struct):
    """What one address was refused without a record: the last of it, until when that is counted, and how many."""

    asked: CallTool
    caller: Caller
    until: float
    count: int = 0


class Strangers:
    """What they asked for, as far as it was read."""

    def __init__(self, hall: Hall, clock: Callable[[], float]) -> None:
        self._hall = hall
        self._clock = clock
        self._recorded = Failures(clock, MOST_RECORDS)
        self._more: dict[str, _More] = {}

    def refused(self, asked: CallTool, caller: Caller, error: ToolhallError) -> None:
        """Record this refusal; if there are enough of its address already, only count it."""
        address, now = caller.address or "", self._clock()
        if self._more:
            self._tell(now)
        wait = self._recorded.wait(address)
        if wait is None:
            self._recorded.add(address)
            self._hall.refuse(asked, caller, error)
        else:
            more = self._more.setdefault(address, _More(asked, caller, now + wait))
            more.count += 1

    def close(self) -> None:
        """Record what was only counted so far."""
        self._tell(float("inf"))

    def _tell(self, now: float) -> None:
        """One record of each minute that is over; of every minute, where too many are counted."""
        if len(self._more) > MOST_ADDRESSES:
            now = float("inf")
        over = [address for address, more in self._more.items() if more.until <= now]
        for address in over:
            more = self._more.pop(address)
            said = f"{more.count} more of this address within a minute, which are not recorded one by one"
            self._hall.note(more.asked, more.caller, Unauthenticated(said))


def asked_at(path: str) -> CallTool:
    """A request that was not read: only its path is known, and by that its dialect; others are plain REST."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    return CallTool(path, {}, first if first in _DIALECTS else "openapi", 0)
