"""OpenTelemetry: one span for each call, below the caller's, with nothing in it that is the caller's secret."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextvars import copy_context
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from tests.unit.builders import call_of
from toolhall.model.messages import Call
from toolhall.telemetry import CallTracer, set_trace_context, tracer_from_environment

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
PICK = ("pick", "Kit.pick@1.0.0")
CANARY = "CANARY-77aa"


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exported: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exported))
    return made


@pytest.fixture
def spans(provider: TracerProvider) -> Iterator[CallTracer]:
    made = CallTracer(provider, owns_provider=True)
    yield made
    made.close()


def mcp_call() -> Call:
    return msgspec.structs.replace(call_of(arguments={"secret": CANARY}), dialect="mcp@2025-11-25")


def test_span_has_tool_and_outcome(spans: CallTracer, exported: InMemorySpanExporter) -> None:
    spans.start_span(mcp_call()).end(PICK, "ok")
    (span,) = exported.get_finished_spans()
    assert (span.name, span.kind, span.status.status_code) == ("tools/call pick", SpanKind.SERVER, StatusCode.OK)
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pick",
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "toolhall.call.id": "call-1",
        "toolhall.dialect": "mcp@2025-11-25",
        "toolhall.outcome": "ok",
        "toolhall.tool.id": "Kit.pick@1.0.0",
    }


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("TimedOut", StatusCode.ERROR), ("Denied", StatusCode.ERROR), ("Cancelled", StatusCode.UNSET)],
)
def test_span_status_follows_the_outcome(
    spans: CallTracer, exported: InMemorySpanExporter, outcome: str, status: StatusCode
) -> None:
    spans.start_span(call_of()).end(PICK, outcome)
    (span,) = exported.get_finished_spans()
    assert span.status.status_code is status
    assert (span.attributes or {}).get("error.type") == (outcome if status is StatusCode.ERROR else None)


def test_span_is_child_of_the_callers_trace(spans: CallTracer, exported: InMemorySpanExporter) -> None:
    def call() -> None:
        set_trace_context(TRACEPARENT, "vendor=1")
        spans.start_span(call_of()).end(PICK, "ok")

    copy_context().run(call)
    (span,) = exported.get_finished_spans()
    assert span.parent is not None
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT
    assert span.context.trace_state.get("vendor") == "1"


@pytest.mark.parametrize("said", [None, 5, "", "00-zz-00-01", TRACEPARENT + "\n", f"{TRACEPARENT}-{CANARY}", ["a"]])
def test_invalid_trace_context_is_ignored(spans: CallTracer, exported: InMemorySpanExporter, said: object) -> None:
    def call() -> None:
        set_trace_context(said)
        spans.start_span(call_of()).end(PICK, "ok")

    copy_context().run(call)
    assert exported.get_finished_spans()[0].parent is None


def test_spans_of_the_tool_are_children(
    provider: TracerProvider, spans: CallTracer, exported: InMemorySpanExporter
) -> None:
    span = spans.start_span(call_of())
    provider.get_tracer("tool").start_span("inner").end()
    span.end(PICK, "ok")
    inner, outer = exported.get_finished_spans()
    assert inner.parent is not None
    assert outer.context is not None
    assert inner.parent.span_id == outer.context.span_id
    assert trace.get_current_span() is trace.INVALID_SPAN


class Collector(ThreadingHTTPServer):
    """Takes what an exporter sends."""

    def __init__(self) -> None:
        self.received: list[tuple[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Taking)


class _Taking(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert isinstance(self.server, Collector)
        self.server.received.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - so it is called there


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_spans_are_exported_to_the_configured_collector(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    spans = tracer_from_environment()
    assert spans is not None
    spans.start_span(mcp_call()).end(PICK, "ok")
    spans.close()
    ((path, request),) = collector.received
    (resource,) = request.resource_spans
    assert path == "/v1/traces"
    assert [span.name for span in resource.scope_spans[0].spans] == ["tools/call pick"]
    named = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert named["service.name"] == "toolhall"


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "console"},
    ],
)
def test_tracer_without_exporter_is_none(environment: dict[str, str]) -> None:
    assert tracer_from_environment(environment) is None


def test_tracer_without_exporter_imports_nothing() -> None:
    program = (
        "import sys; from toolhall.telemetry import tracer_from_environment\n"
        "assert tracer_from_environment({}) is None; print(*sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "opentelemetry" not in ran.stdout


def test_tracer_without_library_warns() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from toolhall.telemetry import tracer_from_environment\n"
        "assert tracer_from_environment({'OTEL_EXPORTER_OTLP_ENDPOINT': 'http://127.0.0.1:1'}) is None"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "install toolhall[otel]" in ran.stderr


def test_tracer_uses_existing_provider() -> None:
    program = (
        "from opentelemetry import trace\nfrom opentelemetry.sdk.trace import TracerProvider\n"
        "provider = TracerProvider(); trace.set_tracer_provider(provider)\n"
        "from toolhall.telemetry import tracer_from_environment\n"
        "spans = tracer_from_environment({}); assert spans._provider is provider and not spans._owns_provider"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
