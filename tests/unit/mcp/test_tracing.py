"""A call becomes a part of its client's trace, whichever way the client says which that is."""

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.properties.callers.house import visit
from toolhall import Toolhall, tool
from toolhall.app import toolhall as home
from toolhall.telemetry import CallTracer

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
TERMS = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}


@tool(effect="reads")
async def look() -> str:
    return "seen"


@pytest.mark.parametrize("way", ["header", "meta", "none"])
async def test_call_with_traceparent_joins_trace(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    monkeypatch.setattr(home, "tracer_from_environment", lambda: CallTracer(provider, owns_provider=True))
    meta: dict[str, Any] = {f"io.modelcontextprotocol/{name}": value for name, value in TERMS.items()}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "look"}
    if way == "header":
        headers["traceparent"] = TRACEPARENT
    if way == "meta":
        meta["traceparent"] = TRACEPARENT
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "_meta": meta}}
    with Toolhall(look) as hall:
        reply = await visit(hall.http, "/mcp", json.dumps(message).encode(), headers, client="127.0.0.1")
        assert reply.status == 200
        (span,) = exported.get_finished_spans()
        assert span.name == "tools/call look"
        assert span.context is not None
        assert (f"{span.context.trace_id:032x}" == TRACE) is (way != "none")
