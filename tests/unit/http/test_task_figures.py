"""Open long calls in `/health` and `/metrics`."""

from prometheus_client.parser import text_string_to_metric_families

from tests.harness.asgi_client import FORWARDED, send, send_json
from tests.harness.long_calls import asking, start
from toolhall import Context, Toolhall, tool
from toolhall.model.json import JsonObject
from toolhall.pipeline.tasks.figures import TaskFigures
from toolhall.pipeline.tasks.rows import TaskRows
from toolhall.stores.common import StoreFailed
from toolhall.stores.tasks import MemoryTaskStore, TaskCounts

FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}}


@tool(effect="reads", task=True)
async def asks(ctx: Context) -> str:
    """Ask for a name."""
    return str(await ctx.ask("Which?", FORM, key="name"))


class FailingStore(MemoryTaskStore):
    """Cannot be counted while `fails`."""

    fails = True

    async def counts(self, now: float) -> TaskCounts:
        if self.fails:
            raise StoreFailed("the disk is gone")
        return await super().counts(now)


async def test_open_tasks_are_in_health_for_observers_and_in_metrics() -> None:
    async with Toolhall(asks) as hall:
        assert "tasks" not in (await send_json(hall, "/health"))[1]["components"]
        hall.tasks.figures = TaskFigures(hall.tasks.rows)  # nothing is remembered of the look before
        await asking(hall, await start(hall, "asks"))
        tasks = (await send_json(hall, "/health"))[1]["components"]["tasks"]
        assert tasks.pop("oldestSeconds") >= 0
        assert tasks == {"state": "healthy", "working": 0, "inputRequired": 1}
        assert "components" not in (await send_json(hall, "/health", headers=FORWARDED))[1]


async def test_open_tasks_are_counted_by_state_in_metrics() -> None:
    async with Toolhall(asks) as hall:
        await asking(hall, await start(hall, "asks"))
        text = (await send(hall, "GET", "/metrics")).body.decode()
    (family,) = (each for each in text_string_to_metric_families(text) if each.name == "toolhall_tasks_open")
    assert {each.labels["state"]: each.value for each in family.samples} == {"working": 0, "input_required": 1}


async def test_health_is_degraded_while_the_store_of_tasks_fails() -> None:
    async with Toolhall(asks) as hall:
        hall.tasks.rows.store = FailingStore()
        status, body = await send_json(hall, "/health")
        assert (status, body["status"], body["components"]["tasks"]["state"]) == (200, "degraded", "degraded")


async def test_figures_are_counted_once_a_second_and_again_after_a_failure() -> None:
    now = 0.0
    rows = TaskRows(lambda: 0.0)
    rows.store = store = FailingStore()
    figures = TaskFigures(rows, lambda: now)
    await figures.refresh()
    assert figures.failing
    store.fails = False
    await figures.refresh()
    assert figures.failing
    now = 1.0
    await figures.refresh()
    assert not figures.failing
