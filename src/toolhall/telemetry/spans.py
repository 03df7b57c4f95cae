"""OpenTelemetry spans, one per call (CallTracer); nothing is imported unless an exporter is configured.

A span holds no arguments, no results, no credentials and no names that only the caller knows: only which tool, how it
ended and how long it took.
"""

import importlib
import logging
import os
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from toolhall.model.messages import Call

_LIBRARY = "opentelemetry"
_SCOPE = "toolhall"
_METHOD = "tools/call"
_EXPORTER_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_OK_OUTCOMES = frozenset({"ok", "asked"})
_UNSET_OUTCOMES = frozenset({"Cancelled"})
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_MAX_TRACESTATE = 512  # letters of tracestate, as W3C asks to keep at least
_log = logging.getLogger("toolhall.telemetry")
# What the caller's message said of the trace it belongs to; a transport sets it before it asks the hall.
_trace_context: ContextVar[dict[str, str] | None] = ContextVar("toolhall_trace", default=None)


def set_trace_context(traceparent: object, tracestate: object = None) -> None:
    """The calls of this task belong to the caller's trace; what is no trace context is not carried."""
    if not isinstance(traceparent, str) or not _TRACEPARENT.fullmatch(traceparent):
        return
    state = {"tracestate": tracestate} if isinstance(tracestate, str) and len(tracestate) <= _MAX_TRACESTATE else {}
    _trace_context.set({"traceparent": traceparent, **state})


def tracer_from_environment(environment: Mapping[str, str] = os.environ) -> "CallTracer | None":
    """Spans, if the environment names a collector or the program has set up OpenTelemetry itself."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    provider = _existing_provider()
    if provider is not None:
        return CallTracer(provider)
    if not _is_exporter_configured(environment):
        return None
    try:
        return CallTracer(_provider_from_environment(), owns_provider=True)
    except ImportError:
        _log.warning("OTEL_... asks for spans, but OpenTelemetry is not installed; install toolhall[otel]")
        return None


class CallTracer:
    """Begins a span with a call and ends it with the call."""

    def __init__(self, provider: Any, *, owns_provider: bool = False) -> None:
        trace = importlib.import_module(f"{_LIBRARY}.trace")
        self._trace = trace
        self._context = importlib.import_module(f"{_LIBRARY}.context")
        propagation = importlib.import_module(f"{_LIBRARY}.trace.propagation.tracecontext")
        self._propagator = propagation.TraceContextTextMapPropagator()
        self._provider = provider
        self._owns_provider = owns_provider
        self._tracer = provider.get_tracer(_SCOPE)

    def start_span(self, call: Call) -> "CallSpan":
        """Start a span below the caller's; what the tool traces itself comes below this one."""
        carried = _trace_context.get()
        parent = None if carried is None else self._propagator.extract(carried)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "toolhall.call.id": call.id,
            "toolhall.dialect": call.dialect,
        }
        dialect, _, revision = call.dialect.partition("@")
        if dialect == "mcp":
            attributes["mcp.method.name"] = _METHOD
            if revision:
                attributes["mcp.protocol.version"] = revision
        span = self._tracer.start_span(_METHOD, parent, self._trace.SpanKind.SERVER, attributes)
        token = self._context.attach(self._trace.set_span_in_context(span, parent))
        return CallSpan(self, span, token)

    def end_span(self, span: Any, token: Any, tool: tuple[str, str] | None, outcome: str) -> None:
        """Say how it ended, under the names that the registry knows."""
        if tool is not None:
            span.update_name(f"{_METHOD} {tool[0]}")
            span.set_attributes({"gen_ai.tool.name": tool[0], "toolhall.tool.id": tool[1]})
        span.set_attribute("toolhall.outcome", outcome)
        if outcome not in _OK_OUTCOMES and outcome not in _UNSET_OUTCOMES:
            span.set_attribute("error.type", outcome)
            span.set_status(self._trace.StatusCode.ERROR, outcome)
        elif outcome in _OK_OUTCOMES:
            span.set_status(self._trace.StatusCode.OK)
        span.end()
        self._context.detach(token)

    def close(self) -> None:
        """Send what is left, if the collector is ours to stop."""
        if self._owns_provider:
            self._provider.shutdown()


class CallSpan:
    """One call's."""

    __slots__ = ("_span", "_token", "_tracer")

    def __init__(self, tracer: CallTracer, span: Any, token: Any) -> None:
        self._tracer = tracer
        self._span = span
        self._token = token

    def end(self, tool: tuple[str, str] | None, outcome: str) -> None:
        """`tool` is the published name and the id of the tool that was found, if one was."""
        self._tracer.end_span(self._span, self._token, tool, outcome)


def _is_exporter_configured(environment: Mapping[str, str]) -> bool:
    exporters = environment.get("OTEL_TRACES_EXPORTER")
    if exporters is not None and exporters.strip() not in ("", "otlp"):
        if exporters.strip() != "none":
            _log.warning("OTEL_TRACES_EXPORTER is %r; spans are sent as 'otlp' only, so none are sent", exporters)
        return False
    return any(environment.get(name) for name in _EXPORTER_VARIABLES)


def _existing_provider() -> Any:
    """What the program that uses us has set up; one that never imported OpenTelemetry has not."""
    trace = sys.modules.get(f"{_LIBRARY}.trace")
    provider = None if trace is None else trace.get_tracer_provider()
    return None if trace is None or isinstance(provider, trace.ProxyTracerProvider) else provider


def _provider_from_environment() -> Any:
    """Sends over HTTP in the background, as the OTEL_... variables say."""
    sdk = importlib.import_module(f"{_LIBRARY}.sdk.trace")
    export = importlib.import_module(f"{_LIBRARY}.sdk.trace.export")
    resources = importlib.import_module(f"{_LIBRARY}.sdk.resources")
    otlp = importlib.import_module(f"{_LIBRARY}.exporter.otlp.proto.http.trace_exporter")
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": _SCOPE}
    provider = sdk.TracerProvider(resource=resources.Resource.create(named))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider
