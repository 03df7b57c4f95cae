"""`/metrics`: for whoever may manage the hall, or for everybody where that is configured."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.builders import call_of
from tests.unit.http.asgi_client import FORWARDED
from toolhall import Config, Toolhall, tool


@tool
async def pick() -> str:
    return "one"


async def got(hall: Toolhall, headers: dict[str, str] | None = None) -> tuple[int, dict[bytes, bytes], bytes]:
    """The status, the headers and the body of the reply."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(part: Any) -> None:
        sent.append(part)

    pairs = [(name.encode(), said.encode()) for name, said in ({"host": "localhost"} | (headers or {})).items()]
    scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": pairs, "client": None}
    await hall(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


async def test_metrics_are_valid_prometheus_text() -> None:
    with Toolhall(pick) as hall:
        hall.telemetry.record_call(call_of(), "test_metrics.pick@0.1.0", "ok", 0.001)
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
