"""`fault_of`: what a failed connection or list says of an upstream, with what to do."""

import logging

from toolhall.mcp_client.session import NotAcceptable, RateLimited, RpcError, SessionError, Unauthorized
from toolhall.model.errors import Malformed, NeedsRequirement, ToolhallError
from toolhall.model.upstream import UpstreamState

_log = logging.getLogger("toolhall.upstreams")


def fault_of(error: Exception) -> tuple[UpstreamState, str, float]:  # noqa: PLR0911 - one for each fault
    """What a failed connection or list says of an upstream: a state, the reason with what to do, a least pause."""
    match error:
        case Unauthorized():
            return "waiting", f"{error.reason}; link an account, or set the secret that its headers need", 0.0
        case NeedsRequirement():
            return "waiting", error.message, 0.0
        case RateLimited():
            return "away", error.reason, min(error.retry_after or 0.0, 3_600.0)
        case NotAcceptable() | RpcError():
            return "refused", error.reason, 0.0
        case Malformed():
            return "refused", f"its list cannot be read: {error.message}", 0.0
        case SessionError():
            return "away", error.reason, 0.0
        case TimeoutError():
            return "away", "it did not answer in time", 0.0
        case ToolhallError():
            return "away", f"what it lists could not be stored: {error.message}", 0.0
        case _:
            _log.error("an upstream cannot be reached for an unexpected reason", exc_info=error)
            return "refused", "an internal error of the hall; its log has the details", 0.0
