"""Says in the words of a path's own dialect why a request goes no further, before its message was read."""

import time
from collections.abc import Callable

from toolhall.dialects.hub import messages as hub
from toolhall.dialects.machine import messages as machine
from toolhall.dialects.mcp.write import write_error as write_mcp
from toolhall.dialects.openapi.errors import write_error as write_rest
from toolhall.dialects.oxp import messages as oxp
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import Wire
from toolhall.transports.stamps import Stamps

_stamp = Stamps(time.time).new


def refusal(path: str, error: ToolhallError) -> Wire:
    """The reply; paths of no dialect speak plain REST."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    return _WORDS.get(first, write_rest)(error)


_WORDS: dict[str, Callable[[ToolhallError], Wire]] = {
    "mcp": lambda error: write_mcp(None, error),
    "oxp": lambda error: oxp.write_error(None, error),
    "hub": lambda error: hub.write_error(hub.CoreRequest(None, "", {}), error),
    "machine": lambda error: machine.write_error(machine.UNKNOWN, error, _stamp()),
}
