"""Records those who are refused because they prove nobody: of each address only so many a minute."""

from collections.abc import Callable

from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import CallTool
from toolhall.transports.identity.failures import Failures

MOST_RECORDS = 20  # of one address within a minute: strangers must not fill a disk
_DIALECTS = ("mcp", "oxp", "hub", "machine")


class Strangers:
    """What they asked for, as far as it was read."""

    def __init__(self, hall: Hall, clock: Callable[[], float]) -> None:
        self._hall = hall
        self._recorded = Failures(clock, MOST_RECORDS)

    def refused(self, asked: CallTool, caller: Caller, error: ToolhallError) -> None:
        """Record this refusal, unless there are enough of its address already."""
        address = caller.address or ""
        if self._recorded.wait(address) is None:
            self._recorded.add(address)
            self._hall.refuse(asked, caller, error)


def asked_at(path: str) -> CallTool:
    """A request that was not read: only its path is known, and by that its dialect; others are plain REST."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    return CallTool(path, {}, first if first in _DIALECTS else "openapi", 0)
