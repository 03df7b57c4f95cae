"""`/metrics`: for whoever may manage the hall, or for everybody where that is configured."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.harness import asgi_client
from tests.harness.asgi_client import FORWARDED
from toolhall import Config, Toolhall, tool


@tool
async def pick() -> str:
    return "one"


async def got(hall: Toolhall, headers: dict[str, str] | None = None) -> tuple[int, dict[bytes, bytes], bytes]:
    """The status, the headers and the body of the reply."""
    reply = await asgi_client.send(hall, "GET", "/metrics", headers=headers or {})
    return reply.status, dict(reply.headers.raw), reply.body


async def test_metrics_are_valid_prometheus_text() -> None:
    with Toolhall(pick) as hall:
        hall.telemetry.record_call("test_metrics.pick@0.1.0", "test", "ok", 0.001)
        hall.journal.failing = True
        status, headers, body = await got(hall)
    assert (status, headers[b"content-type"]) == (200, b"text/plain; version=0.0.4; charset=utf-8")
    families = {family.name: family for family in text_string_to_metric_families(body.decode())}
    assert families["toolhall_calls"].samples[0].value == 1
    assert families["toolhall_audit_failing"].samples[0].value == 1
    assert {"toolhall_calls_running", "toolhall_loop_stalls", "toolhall_lost_threads", "toolhall_workers_lost"} < set(
        families
    )


@pytest.mark.parametrize("public", [False, True])
async def test_metrics_for_anonymous_need_public_metrics(*, public: bool) -> None:
    with Toolhall(pick, config=Config(public_metrics=public)) as hall:
        status, _, body = await got(hall, FORWARDED)
    assert status == (200 if public else 403)
    assert (b"toolhall_" in body) is public
