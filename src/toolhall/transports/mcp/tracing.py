"""The trace that a client's message belongs to, as MCP's `_meta` carries it."""

from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.telemetry.spans import carry


def join_trace(request: Request) -> None:
    """The call becomes a part of the client's trace, if the message says which that is."""
    meta = request.params.get("_meta")
    if type(meta) is dict and "traceparent" in meta:
        carry(meta["traceparent"], meta.get("tracestate"))
