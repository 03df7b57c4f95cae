"""`/api/calls`, `/api/overview`, `/api/audit/state` and `/api/events`: what the console shows of calls."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness.asgi_client import AsgiRequest
from tests.harness.patience import patience
from tests.unit.http.api.management_client import PICK, activated, definition, manage, registered
from tests.unit.pipeline.test_stage_of_calls import TOOLS, WAYS
from toolhall import Config, Toolhall
from toolhall.http.api.calls import stage_rows
from toolhall.http.api.events import CALLS_PER_SECOND, MAX_PER_CALLER
from toolhall.model.call_records import CALL_STAGES, AuditRecord
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool
from toolhall.registration.access import NewKey


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Toolhall]:
    with Toolhall(*TOOLS, config=Config(data=str(tmp_path), calls_per_second=10_000, call_burst=10_000)) as hall:
        await hall.open()
        yield hall


async def call(hall: Toolhall, name: str, **arguments: Any) -> None:
    await hall.dispatcher.answer(CallTool(name, arguments, "test", 7), LOCAL)


async def read(hall: Toolhall, path: str) -> Any:
    reply = await manage(hall, "GET", path)
    assert reply.status == 200, reply
    return reply.body


async def last_call(hall: Toolhall) -> Any:
    record = (await read(hall, "/api/audit?limit=1"))["records"][0]
    return await read(hall, f"/api/calls/{record['call']}")


@pytest.mark.parametrize("way", range(len(WAYS)))
async def test_call_shows_for_every_stage_where_it_ended_why_and_what_to_do(way: int) -> None:
    stage, outcome, end = WAYS[way]
    record = await end()
    rows: Any = stage_rows(record)
    assert [row["stage"] for row in rows] == list(CALL_STAGES)
    place = CALL_STAGES.index(stage)
    if outcome == "ok":
        assert {row["state"] for row in rows} == {"passed"}
        return
    states = [row["state"] for row in rows]
    assert states[place] == "stopped"
    assert states.count("stopped") == 1
    assert set(states[place + 1 :]) <= {"not_reached"}
    assert set(states[: min(place, 6)]) <= {"passed"}
    reason, fix = rows[place]["reason"], rows[place]["fix"]
    assert reason
    assert fix
    assert reason[-1] in ".:" or reason.endswith("it.")
    assert "{" not in reason + fix
    assert all(row["reason"] is None for row in rows if row["stage"] != stage)


async def test_call_has_both_records_and_its_tool(hall: Toolhall) -> None:
    await call(hall, "sell")
    shown = await last_call(hall)
    assert (shown["kind"], shown["intent"]["phase"], shown["end"]["outcome"]) == ("ok", "intent", "ok")
    assert shown["tool"]["id"] == shown["end"]["tool"]
    assert (shown["grant"], shown["approval"]) == (None, None)


async def test_call_that_waits_for_a_person_has_its_approval(hall: Toolhall) -> None:
    hall.dispatcher.watch_calls(watched=True)
    await call(hall, "risky")
    shown = await last_call(hall)
    assert shown["kind"] == "asked"
    assert shown["end"]["stage"] == "verify"
    assert sum(shown["end"]["stagesUs"]) == shown["end"]["durationUs"]


async def test_call_of_which_nothing_is_recorded_is_not_found(hall: Toolhall) -> None:
    assert (await manage(hall, "GET", "/api/calls/nothing-1")).status == 404
    assert (await manage(hall, "GET", "/api/calls/a/b")).status == 404


def test_intent_without_an_end_is_running() -> None:
    rows: Any = stage_rows(None)
    assert [row["state"] for row in rows] == ["passed"] * 6 + ["not_reached"] * 4


@pytest.mark.parametrize(("outcome", "stage"), [("Denied", "authorize"), ("BadOutput", "check"), ("TimedOut", "run")])
def test_record_from_before_stages_were_recorded_shows_the_usual_stage(outcome: str, stage: str) -> None:
    rows: Any = stage_rows(AuditRecord(1.0, "c", "ada", "mcp", "Kit.pick@1.0.0", outcome, reason="no {braces}"))
    assert [row["stage"] for row in rows if row["state"] == "stopped"] == [stage]


async def test_overview_counts_calls_by_outcome_stage_tool_and_caller(hall: Toolhall) -> None:
    for name in ("succeed", "succeed", "crash", "missing", "risky", "sell"):
        await call(hall, name)
    shown = await read(hall, "/api/overview?window=15m")
    assert (shown["calls"], shown["bucketSeconds"], shown["running"]) == (6, 60, 0)
    assert shown["outcomes"] == {"ok": 3, "Crashed": 1, "NotFound": 1, "NeedsVerification": 1}
    assert {stage: count for stage, count in shown["stopped"].items() if count} == {"find": 1, "verify": 1, "run": 1}
    sums = {kind: sum(bucket[kind] for bucket in shown["buckets"]) for kind in ("ok", "refused", "failed", "asked")}
    assert sums == {"ok": 3, "refused": 1, "failed": 1, "asked": 1}
    assert sum(each["calls"] for each in shown["durations"]) == 6
    assert shown["p50Us"] <= shown["p99Us"]
    assert shown["topCallers"] == [{"caller": "local", "calls": 6, "refused": 1}]
    assert shown["topTools"][0]["calls"] == 2
    assert shown["processes"] == {"running": 1, "seen": 1}


@pytest.mark.parametrize(("window", "buckets"), [("15m", 15), ("1h", 60), ("24h", 96), ("7d", 168)])
async def test_overview_of_every_window_goes_on_counting(hall: Toolhall, window: str, buckets: int) -> None:
    await call(hall, "succeed")
    first = await read(hall, f"/api/overview?window={window}")
    await call(hall, "succeed")
    second = await read(hall, f"/api/overview?window={window}")
    other = await read(hall, "/api/overview?window=7d")
    assert (first["calls"], second["calls"], other["calls"]) == (1, 2, 2)
    assert len(first["buckets"]) == buckets


async def test_overview_of_an_unknown_window_is_refused(hall: Toolhall) -> None:
    assert (await manage(hall, "GET", "/api/overview?window=2h")).status == 400


async def test_audit_is_verified_once_at_a_time_and_its_state_says_so(hall: Toolhall) -> None:
    await call(hall, "succeed")
    before = await read(hall, "/api/audit/state")
    assert before["verified"] is None
    assert before["logs"][0]["records"] >= 2
    started = await manage(hall, "POST", "/api/audit/verify", {})
    assert started.status == 202
    async with asyncio.timeout(patience()):
        while (state := await read(hall, "/api/audit/state"))["verifying"] is not None:  # noqa: ASYNC110 - it is asked, as a client would
            await asyncio.sleep(0.01)
    assert state["verified"]["problem"] is None
    assert state["verified"]["records"] >= 2
    assert (state["failing"], state["behind"]) == (False, False)


async def test_second_verification_is_a_conflict_while_one_runs(hall: Toolhall) -> None:
    hall.api.verification.is_running = True
    assert (await manage(hall, "POST", "/api/audit/verify", {})).status == 409


class Listening:
    """A client of the event stream."""

    def __init__(self, hall: Toolhall, query: str = "", last_event_id: str | None = None) -> None:
        headers = {"host": "localhost"} | ({} if last_event_id is None else {"last-event-id": last_event_id})
        self.request = AsgiRequest(hall, "GET", f"/api/events?{query}", b"", headers, None).start()

    async def started(self) -> "Listening":
        await self.request.until(b"id: ")
        return self

    def events(self) -> list[tuple[str, str, Any]]:
        """Every event so far: topic, id and data."""
        blocks = self.request.sent.decode().split("\n\n")[:-1]
        split = ([line.partition(": ") for line in block.splitlines()] for block in blocks)
        fields = [{name: value for name, _, value in lines} for lines in split]
        return [(each["event"], each["id"], msgspec.json.decode(each["data"])) for each in fields if "event" in each]

    async def until(self, count: int) -> list[tuple[str, str, Any]]:
        async with asyncio.timeout(patience()):
            while len(self.events()) < count:  # noqa: ASYNC110 - an event may come in parts
                await asyncio.sleep(0.01)
        return self.events()


async def test_events_are_the_calls_that_pass_the_filters(hall: Toolhall) -> None:
    listening = await Listening(hall, "topics=calls&outcome=refused").started()
    await call(hall, "succeed")
    await call(hall, "missing")
    ((topic, _, data),) = await listening.until(1)
    assert (topic, data["topic"], data["record"]["outcome"]) == ("calls", "calls", "NotFound")
    assert sum(data["record"]["stagesUs"]) == data["record"]["durationUs"], "times are taken while somebody listens"
    await listening.request.disconnect()


async def test_client_that_comes_back_with_the_last_id_misses_nothing(hall: Toolhall) -> None:
    listening = await Listening(hall, "topics=calls").started()
    await call(hall, "succeed")
    ((_, last_id, _),) = await listening.until(1)
    await listening.request.disconnect()
    for _ in range(3):
        await call(hall, "crash")
    again = Listening(hall, "topics=calls", last_id)
    assert [data["record"]["outcome"] for _, _, data in await again.until(3)] == ["Crashed"] * 3
    await again.request.disconnect()


async def test_many_calls_are_left_out_and_counted(hall: Toolhall) -> None:
    listening = await Listening(hall, "topics=calls").started()
    for _ in range(10 * CALLS_PER_SECOND):
        await call(hall, "succeed")

    def told() -> int:
        return sum(data.get("more", 1) for _, _, data in listening.events())

    async with asyncio.timeout(patience()):
        while told() < 10 * CALLS_PER_SECOND:  # noqa: ASYNC110 - an event may come in parts
            await asyncio.sleep(0.01)
    assert told() == 10 * CALLS_PER_SECOND
    assert len(listening.events()) < 10 * CALLS_PER_SECOND
    await listening.request.disconnect()


async def test_events_tell_of_approvals_tools_and_verifications(hall: Toolhall) -> None:
    listening = await Listening(hall, "topics=approvals,tools,audit").started()
    await registered(hall, definition())
    await activated(hall, PICK)
    await manage(hall, "POST", "/api/audit/verify", {})
    async with asyncio.timeout(patience()):
        while not any(data.get("done") for _, _, data in listening.events()):  # noqa: ASYNC110 - an event may come in parts
            await asyncio.sleep(0.01)
    told = [data for _, _, data in listening.events()]
    assert {"topic": "tools", "ids": [PICK]} in told
    assert not any(data["topic"] == "calls" for data in told)
    await listening.request.disconnect()


@pytest.mark.threat("B24")
async def test_events_are_bounded_per_caller_and_end_with_the_hall(hall: Toolhall) -> None:
    """One caller cannot take all streams."""
    streams = [await Listening(hall).started() for _ in range(MAX_PER_CALLER)]
    assert (await manage(hall, "GET", "/api/events")).status == 429
    hall.end_streams()
    for each in streams:
        await each.request.ended()


@pytest.mark.threat("B24")
async def test_revoked_key_ends_its_stream() -> None:
    """Before anything else is sent."""
    with Toolhall(*TOOLS, config=Config(profile="server", allowed_hosts=("localhost",))) as hall:
        await hall.open()
        key, secret = await hall.access.keys.create(NewKey("watcher", scopes=("observe",)), "tests")
        headers = {"host": "localhost", "authorization": f"Bearer {secret}"}
        request = AsgiRequest(hall, "GET", "/api/events?topics=calls", b"", headers).start()
        await request.until(b"id: ")
        await hall.access.keys.revoke(key.id)
        await call(hall, "succeed")  # nothing is sent without a new proof
        await request.ended()
        assert b"event: calls" not in request.sent


@pytest.mark.parametrize("query", ["topics=weather", "level=11", "colour=red"])
async def test_events_with_a_bad_filter_are_refused(hall: Toolhall, query: str) -> None:
    assert (await manage(hall, "GET", f"/api/events?{query}")).status == 400


async def test_stage_times_are_taken_only_while_somebody_listens(hall: Toolhall) -> None:
    listening = await Listening(hall, "topics=calls").started()
    await listening.request.disconnect()
    await call(hall, "succeed")
    record = (await read(hall, "/api/audit?limit=1"))["records"][0]
    assert (record["stage"], "stagesUs" in record) == ("audit", False)
