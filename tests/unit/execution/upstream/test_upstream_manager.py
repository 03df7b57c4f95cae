"""The life of upstreams: states, when they are listed, what becomes of a change of settings, and the end."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.harness.patience import patience
from tests.servers.scripted_upstream import ScriptedSession, ScriptedUpstream, count, forever, returning
from tests.unit.execution.upstream.harness import ADA, BOB, UpstreamHarness, until, upstream_of
from toolhall.execution.upstream import connection
from toolhall.execution.upstream.credentials import NoUpstreamCredentials
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    NotAcceptable,
    NotSent,
    RateLimited,
    SessionExpired,
    Unauthorized,
)
from toolhall.model.errors import NotFound, Unavailable
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call
from toolhall.model.secret import Secret
from toolhall.model.upstream import Upstream
from toolhall.telemetry import Metric

_harnesses: list[UpstreamHarness] = []


@pytest.fixture(autouse=True)
async def _close_harnesses(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
    monkeypatch.setattr(connection, "GATHER_SECONDS", 0.01)
    yield
    while _harnesses:
        harness = _harnesses.pop()
        await harness.manager.close()
        assert not harness.server.open


def started(server: ScriptedUpstream, **settings: Any) -> UpstreamHarness:
    harness = UpstreamHarness(server, **settings)
    _harnesses.append(harness)
    harness.manager.start()
    return harness


def server_with(revision: str = "2025-11-25", **tools: Any) -> ScriptedUpstream:
    server = ScriptedUpstream(revision)
    server.tools.update(tools)
    return server


def state_of(harness: UpstreamHarness) -> str:
    return harness.manager.status("Docs").state


# --- reaching ---------------------------------------------------------------------------------------------------------


async def test_upstream_is_reached_and_listed_in_the_background() -> None:
    harness = started(server_with(work=returning("done")))
    assert state_of(harness) == "new"
    await until(lambda: state_of(harness) == "ready")
    status = harness.manager.status("Docs")
    assert (status.revision, status.era, status.server_name) == ("2025-11-25", "legacy", "scripted")
    assert (status.syncs, status.sessions, status.reason) == (1, 1, None)
    assert [tool["name"] for tool in harness.listings[0].tools] == ["work"]
    assert harness.listings[0].server_version == "1.2.3"


async def test_upstream_that_is_not_there_is_tried_again_until_it_is() -> None:
    server = server_with(work=returning("done"))
    server.refuses = [NotSent("connection refused")]
    harness = started(server)
    await until(lambda: state_of(harness) == "away")
    status = harness.manager.status("Docs")
    assert status.reason == "connection refused"
    assert status.next_try is not None
    await until(lambda: state_of(harness) == "ready")
    assert harness.manager.status("Docs").next_try is None


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (NotSent("no route"), "away"),
        (RateLimited("slow down", 3600.0), "away"),
        (NotAcceptable("an HTML page answers"), "refused"),
        (Unauthorized("a token is wanted", 401, "Bearer"), "waiting"),
    ],
)
async def test_fault_tells_the_state(error: Exception, state: str) -> None:
    server = server_with(work=returning("done"))
    server.refuses = [error] * 100
    harness = started(server)
    await until(lambda: state_of(harness) == state)
    assert harness.manager.status("Docs").reason


@pytest.mark.threat("G16")
async def test_key_that_the_upstream_repeats_is_in_no_reason_log_or_check(caplog: pytest.LogCaptureFixture) -> None:
    class Vault(NoUpstreamCredentials):
        async def secret(self, name: str) -> Secret | None:
            return Secret("sk-canary-1")

        async def headers(self, upstream: Upstream, call: Call | None) -> Headers:
            return (("X-Key", "key=sk-canary-1"), ("Authorization", "Bearer at-canary-2"))

    caplog.set_level("INFO")
    server = server_with(work=returning("done"))
    server.refuses = [NotAcceptable("HTTP 400: bad key sk-canary-1 or token at-canary-2")] * 100
    harness = started(server, credentials=Vault(), headers={"X-Key": "key=${secret:DOCS}"})
    await until(lambda: state_of(harness) == "refused")
    told: list[str] = []
    for _ in range(6):  # until the circuit is open
        with pytest.raises(Unavailable) as refused:
            await harness.call()
        told.append(f"{refused.value.message}{refused.value.detail}")
    steps = await harness.manager.check("Docs")
    assert "bad key" in (harness.manager.status("Docs").reason or "")
    shown = f"{harness.manager.status('Docs')}{told}{[each.text for each in steps]}{caplog.text}"
    assert "canary" not in shown


async def test_list_that_cannot_be_read_refuses_the_upstream() -> None:
    async def endless(session: ScriptedSession, request: McpRequest) -> JsonObject:
        return {"tools": [], "nextCursor": "again"}

    server = server_with()
    server.methods["tools/list"] = endless
    harness = started(server)
    await until(lambda: state_of(harness) == "refused")
    assert "same page" in (harness.manager.status("Docs").reason or "")
    assert harness.listings == []


async def test_missing_secret_of_a_child_makes_it_wait() -> None:
    harness = started(server_with(), command="server", env={"TOKEN": "${secret:DOCS}"})
    await until(lambda: state_of(harness) == "waiting")
    assert "toolhall secret set DOCS" in (harness.manager.status("Docs").reason or "")
    assert harness.server.opened == []


async def test_child_gets_its_environment_with_the_secrets_of_the_hall() -> None:
    class Vault(NoUpstreamCredentials):
        async def secret(self, name: str) -> Secret | None:
            return Secret(f"value of {name}")

    harness = started(server_with(), credentials=Vault(), command="server", env={"TOKEN": "x-${secret:DOCS}"})
    await until(lambda: state_of(harness) == "ready")
    assert harness.server.environments == [{"TOKEN": "x-value of DOCS"}]
    assert Secret("value of DOCS") in harness.server.printable_secrets, "or its error output would show it"


async def test_era_is_remembered() -> None:
    server = server_with(work=returning("done"))
    harness = started(server)
    await until(lambda: state_of(harness) == "ready")
    await harness.text(caller=ADA)
    assert server.eras == [None, "legacy"]


async def test_eight_upstreams_at_most_connect_at_a_time() -> None:
    server = server_with()
    server.handshake_gate = asyncio.Event()
    harness = UpstreamHarness(server)
    _harnesses.append(harness)
    harness.manager.configure({name: upstream_of(name) for name in map("Docs{}".format, range(20))})
    harness.manager.start()
    await until(lambda: len(server.eras) == 8)
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(server.eras) == 8
    server.handshake_gate.set()
    await until(lambda: all(each.state == "ready" for each in harness.manager.statuses()))


# --- listing again ----------------------------------------------------------------------------------------------------


async def test_changes_of_lists_are_gathered_into_one_sync() -> None:
    harness = started(server_with(work=returning("done")))
    await until(lambda: state_of(harness) == "ready")
    harness.server.tools["more"] = returning("more")
    for kind in ("tools", "resources", "tools"):
        harness.server.opened[0].events.on_list_changed(kind)
    await until(lambda: len(harness.listings) == 2)
    assert [tool["name"] for tool in harness.listings[1].tools] == ["work", "more"]
    await asyncio.sleep(0.05)
    assert len(harness.listings) == 2


@pytest.mark.parametrize(("ttl_ms", "seconds"), [(1, 30.0), (90_000, 90.0), (86_400_000, 3_600.0)])
async def test_modern_list_is_fetched_again_when_it_is_stale(ttl_ms: int, seconds: float) -> None:
    async def listed(session: ScriptedSession, request: McpRequest) -> JsonObject:
        return {"tools": [], "ttlMs": ttl_ms, "cacheScope": "public"}

    server = server_with("2026-07-28")
    server.methods["tools/list"] = listed
    harness = started(server)
    await until(lambda: state_of(harness) == "ready")
    docs = harness.manager.connection("Docs")
    assert docs.sync_due - docs.listed_at == pytest.approx(seconds, abs=1.0)


async def test_lost_session_of_the_hall_is_opened_again() -> None:
    harness = started(server_with(work=returning("done")))
    await until(lambda: state_of(harness) == "ready")
    harness.server.opened[0].lose("the stream ended")
    await until(lambda: len(harness.server.opened) == 2 and len(harness.listings) == 2)


async def test_lost_child_is_counted_and_started_with_the_next_call() -> None:
    harness = started(server_with(count=count), command="server")
    await until(lambda: state_of(harness) == "ready")
    assert await harness.text("count") == "1"
    for session in harness.server.open:
        session.lose()
    assert harness.manager.status("Docs").children == 0
    assert harness.manager.status("Docs").restarts == 2
    assert await harness.text("count") == "1"


@pytest.mark.parametrize("seconds", [-1.0, 1.0], ids=["at once", "later"])
async def test_child_that_ended_by_itself_is_listed_again(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Another version may have taken its place, which tells nobody what changed before it was started."""
    monkeypatch.setattr(connection, "LOST_RESYNC_SECONDS", seconds)
    harness = started(server_with(count=count), command="server", share="hall")
    await until(lambda: state_of(harness) == "ready")
    assert await harness.text("count") == "1"
    assert len(harness.listings) == 1
    harness.server.open[0].lose()
    assert await harness.text("count") == "1"
    await until(lambda: len(harness.listings) == 2)


async def test_sync_now_tells_the_reason_of_a_failure() -> None:
    harness = started(server_with(work=returning("done")))
    await until(lambda: state_of(harness) == "ready")
    await harness.manager.sync_now("Docs")
    assert len(harness.listings) >= 2
    harness.server.opened[0].is_open = False
    harness.server.refuses = [NotSent("connection refused")] * 10
    with pytest.raises(Unavailable, match="Docs: connection refused"):
        await harness.manager.sync_now("Docs")
    with pytest.raises(NotFound):
        await harness.manager.sync_now("Nothing")


async def test_session_that_expired_is_renewed_for_the_list() -> None:
    server = server_with()
    refusals = [SessionExpired("no such session")]

    async def listed(session: ScriptedSession, request: McpRequest) -> JsonObject:
        if refusals:
            raise refusals.pop()
        return {"tools": []}

    server.methods["tools/list"] = listed
    harness = started(server)
    await until(lambda: state_of(harness) == "ready")
    assert len(server.opened) == 2


async def test_changed_resource_is_told_to_the_hall() -> None:
    harness = started(server_with())
    await until(lambda: state_of(harness) == "ready")
    harness.server.opened[0].events.on_resource_updated("docs:///a")
    assert harness.resources == ["docs:///a"]


async def test_watched_resource_is_subscribed_to_in_each_session_of_the_hall() -> None:
    async def accept(session: ScriptedSession, request: McpRequest) -> JsonObject:
        return {}

    server = ScriptedUpstream(capabilities={"resources": {"subscribe": True}})
    server.methods |= {f"resources/{each}": accept for each in ("subscribe", "unsubscribe", "list")}
    server.methods["resources/list"] = _no_resources
    server.methods["resources/templates/list"] = _no_resources
    harness = started(server)
    await until(lambda: state_of(harness) == "ready")

    def asked() -> list[str]:
        return [each.method for each in server.requests if each.method.endswith("subscribe")]

    harness.manager.watch("Docs", "docs:///a", watched=True)
    await until(lambda: asked() == ["resources/subscribe"])
    server.opened[0].lose("the stream ended")
    await until(lambda: asked() == ["resources/subscribe"] * 2)
    harness.manager.watch("Docs", "docs:///a", watched=False)
    await until(lambda: asked()[-1] == "resources/unsubscribe")
    harness.manager.watch("Nothing", "docs:///a", watched=True)


async def _no_resources(session: ScriptedSession, request: McpRequest) -> JsonObject:
    return {"resources": [], "resourceTemplates": []}


async def test_idle_sessions_end_and_that_of_the_hall_stays() -> None:
    harness = started(server_with(work=returning("done")))
    await until(lambda: state_of(harness) == "ready")
    await harness.text()
    docs = harness.manager.connection("Docs")
    for session in docs.pool.sessions:  # ten minutes pass
        session.idle_since -= 601
    docs.on_list_changed("tools")  # its life looks at them
    await until(lambda: [session.is_open for session in harness.server.opened] == [True, False])


# --- settings ---------------------------------------------------------------------------------------------------------


async def test_change_of_settings_touches_only_what_changed() -> None:
    harness = started(server_with(work=returning("done")))
    harness.manager.configure({"Docs": upstream_of(), "Other": upstream_of("Other")})
    await until(lambda: all(each.state == "ready" for each in harness.manager.statuses()))
    harness.manager.configure({"Docs": upstream_of(), "Other": upstream_of("Other", timeout=5)})
    await until(lambda: len(harness.server.opened) == 3 and harness.manager.status("Other").state == "ready")
    assert harness.manager.status("Docs").syncs == 1
    assert len(harness.server.open) == 2


async def test_running_calls_end_before_a_change_of_settings_closes_their_session() -> None:
    gate = asyncio.Event()

    async def held(session: ScriptedSession, request: McpRequest) -> JsonObject:
        await gate.wait()
        return {"content": [{"type": "text", "text": "held"}]}

    harness = started(server_with(held=held))
    running = asyncio.create_task(harness.text("held"))
    await until(lambda: bool(harness.server.calls))
    harness.manager.configure({})
    with pytest.raises(NotFound):
        harness.manager.status("Docs")
    gate.set()
    assert await running == "held"
    await until(lambda: not harness.server.open)


async def test_upstream_that_is_off_is_not_reached() -> None:
    harness = started(server_with(work=returning("done")), off=True)
    assert state_of(harness) == "off"
    with pytest.raises(Unavailable, match="switched off"):
        await harness.call()
    assert harness.server.eras == []


async def test_suspended_manager_reaches_nothing_and_begins_anew() -> None:
    harness = started(server_with(work=returning("done")))
    await until(lambda: state_of(harness) == "ready")
    harness.manager.suspend()
    await until(lambda: not harness.server.open)
    assert state_of(harness) == "new"
    harness.manager.start()
    await until(lambda: state_of(harness) == "ready")


async def test_closed_manager_can_start_again() -> None:
    harness = started(server_with(work=returning("done")))
    await until(lambda: state_of(harness) == "ready")
    await harness.manager.close()
    assert not harness.server.open
    harness.manager.start()
    await until(lambda: state_of(harness) == "ready")
    assert await harness.text() == "done"


async def test_close_cuts_what_runs() -> None:
    harness = started(server_with(work=forever))
    running = asyncio.create_task(harness.call())
    await until(lambda: bool(harness.server.calls))
    async with asyncio.timeout(patience()):
        await harness.manager.close()
    assert not harness.server.open
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


# --- what is told -----------------------------------------------------------------------------------------------------


async def test_metrics_count_upstreams_sessions_and_syncs() -> None:
    harness = started(server_with(work=returning("done")))
    await until(lambda: state_of(harness) == "ready")
    for caller in (ADA, BOB):
        await harness.text(caller=caller)

    def figure(name: str, **labels: str) -> float:
        found = [each for each in harness.manager.metrics() if _is(each, name, labels)]
        return found[0].read()

    assert figure("toolhall_upstreams", state="ready") == 1
    assert figure("toolhall_upstreams", state="away") == 0
    assert figure("toolhall_upstream_sessions") == 3
    assert figure("toolhall_upstream_children") == 0
    assert figure("toolhall_upstream_syncs_total") == 1


def _is(metric: Metric, name: str, labels: dict[str, str]) -> bool:
    return metric.name == name and dict(metric.labels) == labels


async def test_check_names_each_step() -> None:
    harness = started(server_with(work=returning("done")))
    steps = await harness.manager.check("Docs")
    assert [(step.name, step.passed) for step in steps] == [
        ("credentials", True),
        ("era", True),
        ("handshake", True),
        ("list", True),
    ]
    assert steps[-1].text == "1 tools"


async def test_check_ends_with_the_step_that_failed_and_what_to_do() -> None:
    server = server_with()
    server.refuses = [NotAcceptable("an HTML page answers")] * 10
    harness = UpstreamHarness(server)
    steps = await harness.manager.check(upstream_of("New"))
    assert [(step.name, step.passed) for step in steps] == [("credentials", True), ("handshake", False)]
    assert steps[-1].text == "an HTML page answers"
    assert "MCP endpoint" in (steps[-1].fix or "")


async def test_check_names_the_package_of_a_missing_program() -> None:
    steps = await UpstreamHarness(server_with()).manager.check(upstream_of(command="uvx", env={"PATH": "/nowhere"}))
    assert steps[-1].fix == "install uv, which has it"
