"""Telemetry counts calls and their durations (`render`, for Prometheus); CallTracer exports OpenTelemetry spans.

The number of time series is bounded: beyond 10,000 the labels become `other`. A span holds no arguments, no results, no
credentials and no names that callers invent: only the tool, the outcome and the duration. OpenTelemetry is imported
only if an exporter is configured.
"""

import importlib
import logging
import os
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

from toolhall.model import errors
from toolhall.model.call_records import CONSOLE_SUFFIX
from toolhall.model.messages import Call

_LIBRARY = "opentelemetry"
_SCOPE = "toolhall"
_METHOD = "tools/call"
_EXPORTER_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER")
_OK_OUTCOMES = frozenset({"ok", "asked"})
_UNSET_OUTCOMES = frozenset({"Cancelled"})
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_MAX_TRACESTATE = 512  # characters; W3C Trace Context requires to propagate at least as many
_log = logging.getLogger("toolhall.telemetry")

# The W3C trace context of the caller's message; a transport sets it before it dispatches the request.
_trace_context: ContextVar[dict[str, str] | None] = ContextVar("toolhall_trace", default=None)

UNKNOWN_TOOL = "unknown"  # the label for every name that is no tool: callers could otherwise invent labels
OVERFLOW_LABEL = "other"  # the label beyond _MAX_SERIES
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_MAX_SERIES = 10_000


def set_trace_context(traceparent: object, tracestate: object = None) -> None:
    """Make the calls of this task part of the caller's trace; an invalid trace context is ignored."""
    if not isinstance(traceparent, str) or not _TRACEPARENT.fullmatch(traceparent):
        return
    state = {"tracestate": tracestate} if isinstance(tracestate, str) and len(tracestate) <= _MAX_TRACESTATE else {}
    _trace_context.set({"traceparent": traceparent, **state})


def tracer_from_environment(environment: Mapping[str, str] = os.environ) -> "CallTracer | None":
    """A CallTracer, if the environment configures an OTLP exporter or the program has set up OpenTelemetry itself."""
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
        _log.warning("OTEL_* variables ask for spans, but OpenTelemetry is not installed; install toolhall[otel]")
        return None


class CallTracer:
    """Starts a span when a call starts and ends it when the call ends."""

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
        """Start a child of the caller's span and make it current: spans of the tool become its children."""
        context = _trace_context.get()
        parent = None if context is None else self._propagator.extract(context)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "toolhall.call.id": call.id,
            "toolhall.dialect": call.dialect,
        }
        dialect, _, revision = call.dialect.removesuffix(CONSOLE_SUFFIX).partition("@")
        if dialect == "mcp":
            attributes["mcp.method.name"] = _METHOD
            if revision:
                attributes["mcp.protocol.version"] = revision
        span = self._tracer.start_span(_METHOD, parent, self._trace.SpanKind.SERVER, attributes)
        token = self._context.attach(self._trace.set_span_in_context(span, parent))
        return CallSpan(self, span, token)

    def end_span(self, span: Any, token: Any, tool: tuple[str, str] | None, outcome: str) -> None:
        """End a span; `tool` is the published name and the id from the registry, or None if there is no such tool."""
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
        """Flush and stop the exporter, unless the program owns it."""
        if self._owns_provider:
            self._provider.shutdown()


class CallSpan:
    """The span of one call."""

    __slots__ = ("_span", "_token", "_tracer")

    def __init__(self, tracer: CallTracer, span: Any, token: Any) -> None:
        self._tracer = tracer
        self._span = span
        self._token = token

    def end(self, tool: tuple[str, str] | None, outcome: str) -> None:
        """See CallTracer.end_span."""
        self._tracer.end_span(self._span, self._token, tool, outcome)


def _is_exporter_configured(environment: Mapping[str, str]) -> bool:
    exporters = environment.get("OTEL_TRACES_EXPORTER")
    if exporters is not None and exporters.strip() not in ("", "otlp"):
        if exporters.strip() != "none":
            _log.warning("OTEL_TRACES_EXPORTER is %r; spans are sent as 'otlp' only, so none are sent", exporters)
        return False
    return any(environment.get(name) for name in _EXPORTER_VARIABLES)


def _existing_provider() -> Any:
    """The tracer provider that the embedding program has set up; None also if it never imported OpenTelemetry."""
    trace = sys.modules.get(f"{_LIBRARY}.trace")
    provider = None if trace is None else trace.get_tracer_provider()
    return None if trace is None or isinstance(provider, trace.ProxyTracerProvider) else provider


def _provider_from_environment() -> Any:
    """A provider that exports over OTLP/HTTP in the background, configured by the OTEL_* variables."""
    sdk = importlib.import_module(f"{_LIBRARY}.sdk.trace")
    export = importlib.import_module(f"{_LIBRARY}.sdk.trace.export")
    resources = importlib.import_module(f"{_LIBRARY}.sdk.resources")
    otlp = importlib.import_module(f"{_LIBRARY}.exporter.otlp.proto.http.trace_exporter")
    attributes = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": _SCOPE}
    provider = sdk.TracerProvider(resource=resources.Resource.create(attributes))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return provider


class DurationHistogram:
    """The number of calls in each bucket, and the sum of their seconds."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0


class CallSeries:
    """The number of calls of one tool, dialect and outcome; `durations` counts all calls of the tool."""

    __slots__ = ("count", "durations")

    def __init__(self, durations: DurationHistogram) -> None:
        self.count = 0
        self.durations = durations


class Metric(NamedTuple):
    """A counter or gauge that another component maintains; it is read when the metrics are rendered."""

    name: str
    kind: Literal["counter", "gauge"]
    about: str
    read: Callable[[], float]
    labels: Mapping[str, str] = {}  # metrics of one name follow each other


class Telemetry:
    """Records every call once, when it ends; `tracer` is None unless spans are exported."""

    def __init__(self, tracer: CallTracer | None = None, metrics: Iterable[Metric] = ()) -> None:
        self.tracer = tracer
        self.calls: dict[tuple[str, str, str], CallSeries] = {}  # by tool, dialect and outcome
        self.durations: dict[str, DurationHistogram] = {}  # by tool
        self.metrics = tuple(metrics)
        self.changing_metrics: Callable[[], Iterable[Metric]] = tuple  # those that come and go, as of upstreams

    def record_call(self, tool: str, dialect: str, outcome: str, seconds: float) -> None:
        """Count a call; `tool` is the id of the tool, or UNKNOWN_TOOL if there is no such tool."""
        series = self.calls.get((tool, dialect, outcome)) or self._new_series(tool, dialect, outcome)
        series.count += 1
        durations = series.durations
        durations.counts[bisect_left(BUCKETS, seconds)] += 1
        durations.seconds += seconds

    def close(self) -> None:
        """Flush spans that have not been exported."""
        if self.tracer is not None:
            self.tracer.close()

    def calls_by_outcome(self) -> Iterator[tuple[str, int]]:
        """The number of calls by outcome."""
        totals: dict[str, int] = {}
        for (_, _, outcome), series in self.calls.copy().items():
            totals[outcome] = totals.get(outcome, 0) + series.count
        return iter(totals.items())

    def _new_series(self, tool: str, dialect: str, outcome: str) -> CallSeries:
        """Start a series; tools come and go, so the number of their ids has no bound of its own."""
        if len(self.calls) >= _MAX_SERIES:
            tool = dialect = OVERFLOW_LABEL
            if len(self.calls) >= 2 * _MAX_SERIES:
                outcome = OVERFLOW_LABEL
        series = self.calls.get((tool, dialect, outcome))
        if series is None:
            durations = self.durations.setdefault(tool, DurationHistogram())
            series = self.calls[tool, dialect, outcome] = CallSeries(durations)
        return series


def render(telemetry: Telemetry) -> bytes:
    """All metrics in the Prometheus text format."""
    return "".join(f"{line}\n" for line in _lines(telemetry)).encode()


def _lines(telemetry: Telemetry) -> Iterator[str]:
    yield from _header("toolhall_calls_total", "counter", "Calls that have ended, by tool, dialect and outcome.")
    for (tool, dialect, outcome), series in telemetry.calls.copy().items():
        yield f"toolhall_calls_total{_labels(tool=tool, dialect=dialect, outcome=outcome)} {series.count}"
    yield from _header("toolhall_refused_total", "counter", "Calls that were refused, by reason.")
    for outcome, count in telemetry.calls_by_outcome():
        if outcome in _REFUSED_OUTCOMES:
            yield f"toolhall_refused_total{_labels(reason=outcome)} {count}"
    yield from _durations(telemetry)
    before = ""
    for metric in (*telemetry.metrics, *telemetry.changing_metrics()):
        if metric.name != before:
            yield from _header(metric.name, metric.kind, metric.about)
        before = metric.name
        yield f"{metric.name}{_labels(**metric.labels) if metric.labels else ''} {metric.read():g}"


def _durations(telemetry: Telemetry) -> Iterator[str]:
    name = "toolhall_call_duration_seconds"
    yield from _header(name, "histogram", "Seconds from the arrival of a call to its end, by tool.")
    for tool, durations in telemetry.durations.copy().items():
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), durations.counts, strict=True):
            total += count
            yield f"{name}_bucket{_labels(tool=tool, le=bound)} {total}"
        yield f"{name}_sum{_labels(tool=tool)} {durations.seconds!r}"
        yield f"{name}_count{_labels(tool=tool)} {total}"


def _header(name: str, kind: str, about: str) -> Iterable[str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items()) + "}"


def _escape_label(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


_REFUSED_OUTCOMES = frozenset(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.Refused) and kind is not errors.Refused
)
