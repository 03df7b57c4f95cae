"""Long calls in dialects without tasks: "not yet", and the result for the same id."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from tests.harness.asgi_client import FORWARDED, send, send_json, send_to_hub
from tests.harness.long_calls import left_by_kill, until
from tests.harness.patience import patience
from toolhall import Context, Task, ToolFailed, Toolhall, tool
from toolhall.config import Config
from toolhall.http import repeatable_calls
from toolhall.model.json import JsonObject
from toolhall.registration.access import NewGrant, NewKey

KIT = "test_repeatable_calls"
FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}}


class Gate:
    """What the slow tool waits for, and what it did."""

    open: ClassVar[asyncio.Event]
    runs: ClassVar[list[str]]


@tool(effect="writes", task=Task(required=True))
async def slow(what: str) -> str:
    """Wait for the gate."""
    Gate.runs.append(what)
    await Gate.open.wait()
    return f"{what} is done"


@tool(effect="writes", task=True)
async def fails(what: str) -> str:
    """Fail."""
    Gate.runs.append(what)
    raise ToolFailed(f"no luck with {what}")


@tool(effect="reads", task=True)
async def asks(ctx: Context, what: str) -> str:
    """Ask, which nobody can here."""
    return str(await ctx.ask(what, FORM, key="name"))


@tool(effect="writes")
async def plain(what: str) -> str:
    """Answer at once."""
    Gate.runs.append(what)
    return f"{what} is done"


class Dialect:
    """Sends a call in one dialect, and says what the answer means: a word, and a value or an error."""

    async def call(self, hall: Any, call_id: Any, name: str, what: str, **headers: str) -> tuple[str, Any]:
        raise NotImplementedError

    async def cancel(self, hall: Any, call_id: str) -> None:
        raise NotImplementedError


class Oxp(Dialect):
    async def call(self, hall: Any, call_id: Any, name: str, what: str, **headers: str) -> tuple[str, Any]:
        request = {"tool_id": f"{KIT}.{name}", "call_id": call_id, "input": {"what": what}}
        status, body = await send_json(hall, "/oxp/tools/call", "POST", {"request": request}, headers)
        if status != 200:
            return "refused", body["message"]
        result = body["result"]
        if result["success"]:
            return "done", result["value"]
        error = result["error"]
        return ("running" if error["can_retry"] and error["retry_after_ms"] == 1_000 else "failed"), error["message"]


class Hub(Dialect):
    async def call(self, hall: Any, call_id: Any, name: str, what: str, **headers: str) -> tuple[str, Any]:
        message = {"type": "tool_request", "id": call_id, "tool": KIT, "method": name, "params": {"what": what}}
        _, body = await send_json(hall, "/hub", "POST", message, headers)
        error = body["error"]
        if error is None:
            return "done", body["result"]["result"]
        if error["code"] != "TOOL_ERROR":
            return "refused", error["message"]
        return ("running" if error["details"].get("retry_after") == 1 else "failed"), error["message"]

    async def cancel(self, hall: Any, call_id: str) -> None:
        message = {"type": "request", "id": "c", "method": "cancel", "params": {"id": call_id}}
        assert (await send_json(hall, "/hub", "POST", message))[1]["result"] == {"status": "cancelled"}


class Machine(Dialect):
    async def call(self, hall: Any, call_id: Any, name: str, what: str, **headers: str) -> tuple[str, Any]:
        payload = {"tool": {"id": KIT, "capability": name, "parameters": {"what": what}}}
        header = {"version": "1.0", "messageId": call_id, "messageType": "request"}
        _, body = await send_json(hall, "/machine", "POST", {"header": header, "payload": payload}, headers)
        if "error" in body:
            return "refused", body["error"]["message"]
        execution = body["payload"]["execution"]
        if execution["status"] == "success":
            return "done", execution["result"]["result"]
        error = execution["error"]
        if execution["status"] == "running":
            assert (error["code"], error["details"]["retry_after_ms"]) == ("RESOURCE_ERROR", 1_000)
            return "running", error["message"]
        return "failed", error["message"]

    async def cancel(self, hall: Any, call_id: str) -> None:
        header = {"version": "1.0", "messageId": "c", "messageType": "notification"}
        message = msgspec.json.encode({"header": header, "payload": {"cancel": {"requestId": call_id}}})
        reply = await send(hall, "POST", "/machine", message, {"content-type": "application/json"})
        assert reply.status == 202


DIALECTS: dict[str, Dialect] = {"oxp": Oxp(), "hub": Hub(), "machine": Machine()}
each_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
STILL = "this call takes long and still runs; send the same id again for its result"


def hall_on(data: Path) -> Toolhall:
    return Toolhall(slow, fails, asks, plain, config=Config(data=str(data)))


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Toolhall]:
    Gate.open, Gate.runs = asyncio.Event(), []
    async with hall_on(tmp_path / "data") as opened:
        yield opened
        Gate.open.set()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Nobody waits for a long call; undo it to wait."""
    monkeypatch.setattr(repeatable_calls, "ANSWER_SECONDS", 0.0)
    return monkeypatch


async def not_yet(dialect: Dialect, hall: Toolhall, call_id: str = "c-1") -> None:
    """Make a call that is not answered yet, and runs."""
    assert await dialect.call(hall, call_id, "slow", "tea") == ("running", STILL)
    await until(lambda: Gate.runs)


@each_dialect
async def test_call_that_takes_long_is_answered_by_its_id(
    hall: Toolhall, dialect: Dialect, impatient: pytest.MonkeyPatch
) -> None:
    await not_yet(dialect, hall)
    assert await dialect.call(hall, "c-1", "slow", "tea") == ("running", STILL)
    impatient.undo()
    waiting = asyncio.ensure_future(dialect.call(hall, "c-1", "slow", "tea"))
    Gate.open.set()
    assert await waiting == await dialect.call(hall, "c-1", "slow", "tea") == ("done", "tea is done")
    assert Gate.runs == ["tea"]


@each_dialect
async def test_failure_is_answered_again(hall: Toolhall, dialect: Dialect) -> None:
    for _ in range(2):
        assert await dialect.call(hall, "c-1", "fails", "tea") == ("failed", "no luck with tea")
    assert Gate.runs == ["tea"]


@each_dialect
async def test_equal_calls_at_once_run_once(hall: Toolhall, dialect: Dialect) -> None:
    Gate.open.set()
    answers = await asyncio.gather(*(dialect.call(hall, "c-1", "slow", "tea") for _ in range(5)))
    assert (answers, Gate.runs) == ([("done", "tea is done")] * 5, ["tea"])


@each_dialect
async def test_id_of_another_call_is_refused(hall: Toolhall, dialect: Dialect) -> None:
    Gate.open.set()
    assert (await dialect.call(hall, "c-1", "slow", "tea"))[0] == "done"
    reused = ("refused", "this id was used for another call; use a new one")
    assert await dialect.call(hall, "c-1", "slow", "milk") == reused
    assert await dialect.call(hall, "c-1", "fails", "tea") == reused
    assert await dialect.call(hall, "c-2", "slow", "milk") == ("done", "milk is done")
    assert Gate.runs == ["tea", "milk"]


@each_dialect
async def test_refused_call_may_be_made_again_under_its_id(hall: Toolhall, dialect: Dialect) -> None:
    bad: Any = 5
    assert (await dialect.call(hall, "c-1", "fails", bad))[0] == "refused"
    assert (await dialect.call(hall, "c-1", "fails", "tea"))[0] == "failed"


@each_dialect
async def test_question_is_refused_as_in_line(hall: Toolhall, dialect: Dialect) -> None:
    assert (await dialect.call(hall, "c-1", "asks", "Which?"))[0] == "failed"


@each_dialect
async def test_same_id_of_another_caller_is_another_call(
    hall: Toolhall, dialect: Dialect, impatient: pytest.MonkeyPatch
) -> None:
    await not_yet(dialect, hall)
    _, secret = await hall.access.keys.create(NewKey("ada"), "tests")
    headers = {"authorization": f"Bearer {secret}", **FORWARDED}
    impatient.undo()
    Gate.open.set()
    assert await dialect.call(hall, "c-1", "slow", "tea", **headers) == ("done", "tea is done")
    assert Gate.runs == ["tea", "tea"]


@each_dialect
async def test_repeat_needs_the_permission_of_a_call(hall: Toolhall, dialect: Dialect) -> None:
    _, secret = await hall.access.keys.create(NewKey("ada"), "tests")
    headers = {"authorization": f"Bearer {secret}", **FORWARDED}
    Gate.open.set()
    assert (await dialect.call(hall, "c-1", "slow", "tea", **headers))[0] == "done"
    await hall.access.grants.add(NewGrant("ada", f"{KIT}.*", effect="forbid"), "tests")
    assert (await dialect.call(hall, "c-1", "slow", "tea", **headers))[0] != "done"


@each_dialect
async def test_result_is_there_after_a_restart(
    hall: Toolhall, dialect: Dialect, impatient: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await not_yet(dialect, hall)
    impatient.undo()
    Gate.open.set()
    assert (await dialect.call(hall, "c-1", "slow", "tea"))[0] == "done"
    await hall.journal.flush()
    async with hall_on(left_by_kill(tmp_path / "data", tmp_path / "left")) as again:
        assert await dialect.call(again, "c-1", "slow", "tea") == ("done", "tea is done")
    assert Gate.runs == ["tea"]


@pytest.mark.parametrize("dialect", [DIALECTS["hub"], DIALECTS["machine"]], ids=["hub", "machine"])
async def test_call_is_cancelled_by_its_id(hall: Toolhall, dialect: Dialect, impatient: pytest.MonkeyPatch) -> None:
    await not_yet(dialect, hall)
    await dialect.cancel(hall, "c-1")
    impatient.undo()
    assert (await hall.tasks.rows_of_all())[0].state == "cancelled"
    assert (await dialect.call(hall, "c-1", "slow", "tea"))[0] in ("failed", "refused")
    waiting = asyncio.ensure_future(dialect.call(hall, "c-2", "slow", "milk"))
    await until(lambda: Gate.runs == ["tea", "milk"])
    await dialect.cancel(hall, "c-2")
    async with asyncio.timeout(patience()):
        assert (await waiting)[0] in ("failed", "refused")
    assert {each.state for each in await hall.tasks.rows_of_all()} == {"cancelled"}


@pytest.mark.parametrize("dialect", [DIALECTS["hub"], DIALECTS["machine"]], ids=["hub", "machine"])
async def test_tool_without_tasks_runs_each_time(hall: Toolhall, dialect: Dialect) -> None:
    for _ in range(2):
        assert await dialect.call(hall, "c-1", "plain", "tea") == ("done", "tea is done")
    assert Gate.runs == ["tea", "tea"]
    assert await hall.tasks.rows_of_all() == ()


async def test_hub_number_names_no_call_for_long(hall: Toolhall) -> None:
    """Clients that count begin again with each connection."""
    for _ in range(2):
        assert (await DIALECTS["hub"].call(hall, 1, "fails", "tea"))[0] == "failed"
    assert Gate.runs == ["tea", "tea"]
    assert await hall.tasks.rows_of_all() == ()


async def test_hub_call_over_a_socket_is_answered_by_post(hall: Toolhall, impatient: pytest.MonkeyPatch) -> None:
    message = {"type": "tool_request", "id": "c-1", "tool": KIT, "method": "slow", "params": {"what": "tea"}}
    assert (await send_to_hub(hall, message))["error"]["details"]["retry_after"] == 1
    impatient.undo()
    Gate.open.set()
    assert await DIALECTS["hub"].call(hall, "c-1", "slow", "tea") == ("done", "tea is done")
    assert Gate.runs == ["tea"]
