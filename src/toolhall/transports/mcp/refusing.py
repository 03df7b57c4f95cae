"""Calls that MCP refuses itself, before they come to the hall."""

from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError
from toolhall.model.exchange import CallTool

_UNSETTLED = "mcp"  # before a revision is agreed on


def refused(
    hall: Hall, request: Request | None, caller: Caller, size: int, error: ToolhallError, dialect: str = _UNSETTLED
) -> ToolhallError:
    """The answer to a request that goes no further; a call is recorded and counts, as far as it could be read."""
    if request is None or request.method != "tools/call":
        return error
    name, arguments = request.params.get("name"), request.params.get("arguments")
    known = name if isinstance(name, str) else ""
    return hall.refuse(CallTool(known, arguments if isinstance(arguments, dict) else {}, dialect, size), caller, error)
