"""Health follows what the hall can do: degraded without records, not ready once it stops."""

from tests.harness.asgi_client import FORWARDED, send_json
from toolhall import Toolhall, tool


@tool
def pick() -> str:
    return "one"


async def test_health_of_working_hall_is_healthy() -> None:
    with Toolhall(pick) as hall:
        status, body = await send_json(hall, "/health")
        assert (status, body["status"], body["components"]["tools"]) == (200, "healthy", {"test_health": "healthy"})
        assert await send_json(hall, "/health/ready") == (200, {"status": "ready"})
        assert await send_json(hall, "/health/live") == (200, {"status": "alive"})


async def test_health_with_failing_audit_is_degraded() -> None:
    with Toolhall(pick) as hall:
        hall.journal.failing = True
        status, body = await send_json(hall, "/health")
        assert (status, body["status"], body["components"]["core"]) == (200, "degraded", "degraded")


async def test_ready_while_stopping_is_503() -> None:
    with Toolhall(pick) as hall:
        hall.end_streams()
        assert await send_json(hall, "/health/ready") == (503, {"status": "stopping"})
        assert (await send_json(hall, "/health"))[0] == 503


async def test_health_for_non_admin_omits_components() -> None:
    with Toolhall(pick) as hall:
        for failing, state in ((False, "healthy"), (True, "degraded")):
            hall.journal.failing = failing
            status, body = await send_json(hall, "/health", headers=FORWARDED)
            assert (status, body["status"], body.keys()) == (200, state, {"status", "uptime"})
        hall.end_streams()
        assert (await send_json(hall, "/health", headers=FORWARDED))[0] == 503
