"""Health follows what the hall can do: degraded without records, not ready once it stops."""

from tests.unit.http.asgi_client import FORWARDED, asked
from toolhall import Toolhall, tool


@tool
def pick() -> str:
    return "one"


async def test_a_sound_hall_is_healthy_and_ready() -> None:
    with Toolhall(pick) as hall:
        status, body = await asked(hall, "/health")
        assert (status, body["status"], body["components"]["tools"]) == (200, "healthy", {"test_health": "healthy"})
        assert await asked(hall, "/health/ready") == (200, {"status": "ready"})
        assert await asked(hall, "/health/live") == (200, {"status": "alive"})


async def test_without_records_it_is_degraded() -> None:
    with Toolhall(pick) as hall:
        hall.journal.failing = True
        status, body = await asked(hall, "/health")
        assert (status, body["status"], body["components"]["core"]) == (200, "degraded", "degraded")


async def test_once_it_stops_it_is_not_ready() -> None:
    with Toolhall(pick) as hall:
        hall.end_streams()
        assert await asked(hall, "/health/ready") == (503, {"status": "stopping"})
        assert (await asked(hall, "/health"))[0] == 503


async def test_whoever_may_not_manage_is_told_the_roll_up_only() -> None:
    with Toolhall(pick) as hall:
        for failing, state in ((False, "healthy"), (True, "degraded")):
            hall.journal.failing = failing
            status, body = await asked(hall, "/health", headers=FORWARDED)
            assert (status, body["status"], body.keys()) == (200, state, {"status", "uptime"})
        hall.end_streams()
        assert (await asked(hall, "/health", headers=FORWARDED))[0] == 503
