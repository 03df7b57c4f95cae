"""What is counted and traced of a call holds nothing that the caller chose, and does not grow without end."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import toolhall.telemetry
from tests.unit.builders import call_of
from toolhall.app import Toolhall
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool
from toolhall.telemetry import CallTracer, Telemetry, render

CANARY = "CANARY-77aa"


@pytest.mark.threat("I10")
async def test_I10_calls_of_unknown_tool_names_share_one_metric_label() -> None:  # noqa: N802
    """Calls of tools that do not exist are counted under one name, however many names there are."""
    with Toolhall() as hall:
        for number in range(100):
            await hall.dispatcher.answer(CallTool(f"made-up-{number}", {}, "test"), LOCAL)
        counted = {key: series.count for key, series in hall.telemetry.calls.items()}
        assert counted == {("unknown", "test", "NotFound"): 100}
        assert b"made-up" not in render(hall.telemetry)


@pytest.mark.threat("I10")
def test_I10_metric_series_stop_growing_and_every_call_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: N802
    """However many tools are registered over time, the number of series stops growing and no call is left uncounted."""
    monkeypatch.setattr(toolhall.telemetry, "_MAX_SERIES", 10)
    telemetry = Telemetry()
    for number in range(500):
        telemetry.record_call(f"Kit.t{number}@1.0.0", "test", f"outcome{number % 20}", 0)
    assert len(telemetry.calls) <= 21
    assert sum(series.count for series in telemetry.calls.values()) == 500
    assert len(telemetry.durations) == 11


@pytest.mark.threat("G8")
def test_G8_span_holds_no_argument_and_no_unknown_tool_name() -> None:  # noqa: N802
    """Neither arguments nor the name of a tool that does not exist reach a trace."""
    exported, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    spans = CallTracer(provider, owns_provider=True)
    spans.start_span(call_of(arguments={"secret": CANARY})).end(("pick", "Kit.pick@1.0.0"), "Crashed")
    spans.start_span(call_of(CANARY)).end(None, "NotFound")
    spans.close()
    assert exported.get_finished_spans()[1].name == "tools/call"
    assert CANARY not in "".join(span.to_json() for span in exported.get_finished_spans())
