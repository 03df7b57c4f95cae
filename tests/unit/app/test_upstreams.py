"""A hall with upstreams: its own part of them, from what files and the store say to what callers and operators see."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.harness import long_calls
from tests.harness.patience import patience
from tests.servers import stdio_mcp
from tests.servers.http_mcp import MODERN, HttpMcpServer, Wire, serving
from tests.servers.protected_upstream import protected_upstream
from tests.unit.http.api.management_client import manage
from toolhall import Toolhall
from toolhall.app.data_dir import OpenOptions
from toolhall.authoring.declaration import tool
from toolhall.config import Config
from toolhall.model.caller import ALL_TOOLS, LOCAL, Caller
from toolhall.model.content import Text
from toolhall.model.errors import NotActive, NotFound, ToolhallError
from toolhall.model.messages import CallTool, Complete, CompletedCall, Completion
from toolhall.model.secret import Secret
from toolhall.model.upstream import Upstream, UpstreamSettings
from toolhall.registration.access import NewGrant
from toolhall.telemetry import render

WORDS = {"type": "object", "properties": {"words": {"type": "string"}}}
SEARCH = {"name": "search", "description": "Search the documents.", "inputSchema": WORDS}
TOKEN = "a-token-of-the-hall-itself"


@tool(version="1.0.0")
def own() -> str:
    """Say that it is here."""
    return "here"


class Docs(HttpMcpServer):
    """An upstream with tools, which a test may change."""

    def __init__(self, revision: str = MODERN) -> None:
        super().__init__(revision, capabilities={"tools": {"listChanged": True}})
        self.tools = [SEARCH]
        self.on["tools/list"] = self._list

    async def _list(self, wire: Wire) -> None:
        wire.result({"tools": self.tools, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"})


@pytest.fixture
async def docs() -> AsyncIterator[Docs]:
    async with serving(Docs()) as server:
        assert isinstance(server, Docs)
        yield server


def named(name: str = "Docs", *, by_person: bool = True, **settings: Any) -> Upstream:
    """An upstream as a file of the person at this machine names it."""
    return Upstream(
        name=name, settings=UpstreamSettings(**settings), source="file", where="mcp.json", named_by_person=by_person
    )


@asynccontextmanager
async def opened(*upstreams: Upstream, config: Config | None = None) -> AsyncGenerator[Toolhall]:
    """A served hall with these upstreams and a tool of its own."""
    with Toolhall(own, config=config) as hall:
        hall.add_upstreams(upstreams)
        await hall.open()
        try:
            yield hall
        finally:
            await hall.settle()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(patience()):
        while not holds():  # noqa: ASYNC110 - what is waited for is seen from outside
            await asyncio.sleep(0.005)


async def reached(hall: Toolhall, name: str = "Docs", state: str = "ready") -> None:
    """Wait until the upstream has a state."""
    await until(lambda: hall.upstreams.view(name).status.state == state)


def listed(hall: Toolhall) -> set[str]:
    return {entry.id for entry in hall.registry.snapshot.entries}


async def call(hall: Toolhall, name: str, **arguments: Any) -> Any:
    """What a caller gets: a result, or an error."""
    return await hall.dispatcher.answer(CallTool(name, arguments, "test"), LOCAL)


async def test_upstream_of_a_file_is_listed_and_called(docs: Docs) -> None:
    async with opened(named(url=docs.url)) as hall:
        await reached(hall)
        assert "Docs.search@1.0.0" in listed(hall)
        reply = await manage(hall, "POST", "/tools/Docs/search", {"words": "tide"})
        assert reply.status == 200, reply
        assert docs.named("tools/call")[0].message["params"]["arguments"] == {"words": "tide"}


async def test_command_of_a_file_is_listed_and_called(tmp_path: Path) -> None:
    command = named("Notes", command=sys.executable, args=(stdio_mcp.__file__, MODERN), cwd=str(tmp_path))
    async with opened(command) as hall:
        await reached(hall, "Notes")
        view = hall.upstreams.view("Notes")
        assert (view.status.children, view.status.era) == (1, "modern")
        assert any(each.startswith("Notes.") for each in listed(hall))


async def test_opening_waits_for_no_upstream_and_a_dead_one_harms_no_other(docs: Docs) -> None:
    async with opened(named(url=docs.url), named("Gone", url="http://127.0.0.1:1/mcp")) as hall:
        assert (await manage(hall, "GET", "/health/ready")).status == 200
        await reached(hall)
        await reached(hall, "Gone", "away")
        health = await manage(hall, "GET", "/health")
        assert (health.status, health.body["status"]) == (200, "degraded")
        found = health.body["components"]["upstreams"]
        assert found["Docs"] == {"state": "ready"}
        assert found["Gone"]["state"] == "away"
        assert "127.0.0.1:1" in found["Gone"]["reason"]
        assert "Docs.search@1.0.0" in listed(hall)


async def test_only_a_required_upstream_makes_the_hall_unhealthy() -> None:
    async with opened(named(url="http://127.0.0.1:1/mcp", required=True)) as hall:
        await reached(hall, state="away")
        assert (await manage(hall, "GET", "/health")).status == 503


async def test_upstream_that_is_off_is_healthy_and_not_called(docs: Docs) -> None:
    async with opened(named(url=docs.url, off=True)) as hall:
        health = await manage(hall, "GET", "/health")
        assert (health.body["status"], health.body["components"]["upstreams"]) == (
            "healthy",
            {"Docs": {"state": "off"}},
        )
        assert docs.seen == []


async def test_tools_are_listed_from_the_store_when_the_upstream_is_gone(tmp_path: Path) -> None:
    config = Config(data=str(tmp_path))
    async with serving(Docs()) as server:
        url = server.url
        async with opened(named(url=url), config=config) as hall:
            await reached(hall)
    async with opened(named(url=url), config=config) as hall:
        assert "Docs.search@1.0.0" in listed(hall)
        view = hall.upstreams.view("Docs")
        assert (view.status.revision, view.status.server_name, view.tools) == (MODERN, "scripted", 1)


async def test_tools_of_an_upstream_that_no_file_names_any_more_are_not_listed(docs: Docs, tmp_path: Path) -> None:
    config = Config(data=str(tmp_path))
    async with opened(named(url=docs.url), config=config) as hall:
        await reached(hall)
    async with opened(config=config) as hall:
        assert "Docs.search@1.0.0" not in listed(hall)
        refused = await call(hall, "Docs.search@1.0.0")
        assert isinstance(refused, NotActive)
        assert "not one of this hall's" in refused.message
        hall.add_upstreams([named(url=docs.url)])
        assert "Docs.search@1.0.0" in listed(hall), "nothing of it was forgotten"


async def test_switching_off_ends_what_is_offered_and_survives_a_restart(docs: Docs, tmp_path: Path) -> None:
    config = Config(data=str(tmp_path))
    async with opened(named(url=docs.url), config=config) as hall:
        await reached(hall)
        await hall.upstreams.set_off("Docs", off=True, by=LOCAL)
        assert "Docs.search@1.0.0" not in listed(hall)
    async with opened(named(url=docs.url), config=config) as hall:
        assert hall.upstreams.view("Docs").status.state == "off"
        await hall.upstreams.set_off("Docs", off=False, by=LOCAL)
        assert "Docs.search@1.0.0" in listed(hall)
        await reached(hall)


async def test_file_wins_over_what_was_added(docs: Docs, tmp_path: Path) -> None:
    config = Config(data=str(tmp_path))
    async with opened(config=config) as hall:
        await hall.upstreams.add("Docs", UpstreamSettings(url=docs.url, level=7), LOCAL)
        await reached(hall)
    async with opened(config=config) as hall:
        assert hall.upstreams.view("Docs").upstream.source == "store"
        hall.replace_upstreams("mcp.json", [named(url=docs.url, level=3)])
        view = hall.upstreams.view("Docs")
        assert (view.upstream.source, view.upstream.settings.level) == ("file", 3)
        hall.replace_upstreams("mcp.json", [])
        assert hall.upstreams.view("Docs").upstream.settings.level == 7


async def test_removed_upstream_takes_its_tools_with_it(docs: Docs) -> None:
    async with opened() as hall:
        await hall.upstreams.add("Docs", UpstreamSettings(url=docs.url), LOCAL)
        await reached(hall)
        await hall.upstreams.remove("Docs", LOCAL)
        assert hall.upstreams.listed() == ()
        assert all(each.origin != "upstream" for each in hall.registration.all_records)
        with pytest.raises(NotFound):
            hall.upstreams.view("Docs")


async def test_completions_are_asked_for_only_by_those_who_see_the_prompt(docs: Docs) -> None:
    async def answer(wire: Wire) -> None:
        wire.result({"completion": {"values": ["tide"]}, "resultType": "complete"})

    async def prompts(wire: Wire) -> None:
        listed = [{"name": "ask", "arguments": [{"name": "topic"}]}]
        wire.result({"prompts": listed, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"})

    docs.capabilities = {"prompts": {}, "completions": {}}
    docs.on |= {"completion/complete": answer, "prompts/list": prompts}
    config = Config(profile="server", egress_allow=(f"127.0.0.1:{docs.port}",))
    asked = Complete(kind="prompt", name="Docs_ask", argument="topic", typed="t", dialect="test")
    async with opened(named(url=docs.url, trusted=True, level=4), config=config) as hall:
        await reached(hall)
        await hall.access.grants.add(NewGrant(callers="ada", tools="Docs.*"), "test")
        scopes, expires_at = frozenset({ALL_TOOLS}), time.time() + 3_600
        ada, bob = (Caller(name, proof="key", scopes=scopes, expires_at=expires_at) for name in ("ada", "bob"))
        assert isinstance(await hall.dispatcher.complete(asked, bob), NotFound)
        assert docs.named("completion/complete") == []
        assert await hall.dispatcher.complete(asked, ada) == Completion(("tide",), 1)
        (request,) = docs.named("completion/complete")
        assert request.message["params"]["ref"] == {"type": "ref/prompt", "name": "ask"}


class Pages(Docs):
    """An upstream with a resource and a template, and a tool that links to them and to what it does not list."""

    LINKS = ("docs://readme", "docs://pages/7", "docs://elsewhere/1")

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = {"tools": {}, "resources": {"subscribe": True}}
        lists: dict[str, Any] = {
            "resources/list": {"resources": [{"uri": "docs://readme", "name": "readme"}]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "docs://pages/{page}", "name": "page"}]},
            "tools/call": {"content": [{"type": "resource_link", "uri": each, "name": "a"} for each in self.LINKS]},
        }
        self.on |= {method: self._returning(result) for method, result in lists.items()}

    def _returning(self, result: Any) -> Callable[[Wire], Awaitable[None]]:
        async def answer(wire: Wire) -> None:
            wire.result({**result, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"})

        return answer


async def test_links_and_updates_name_a_resource_by_the_uri_that_it_has_here() -> None:
    async with serving(Pages()) as first, serving(Pages()) as second, opened(named(url=first.url)) as hall:
        await reached(hall)
        hall.replace_upstreams("mcp.json", [named(url=first.url), named("Wiki", url=second.url)])
        await reached(hall, "Wiki")
        for name, uris in (
            ("Docs", Pages.LINKS),
            ("Wiki", ("docs://Wiki/readme", "docs://Wiki/pages/7", "docs://elsewhere/1")),
        ):
            answer = await call(hall, f"{name}_search", words="tide")
            assert tuple(each.uri for each in answer.result.content) == uris
        heard: list[str] = []
        hall.dispatcher.changes.subscribe("docs://Wiki/pages/7", heard.append)
        hall.upstreams.manager.connection("Wiki").on_resource_updated("docs://pages/7")
        assert heard == ["docs://Wiki/pages/7"]


class Works(Docs):
    """An upstream of 2025-11-25 with a tool that runs as a task only; it ends when the test says so."""

    def __init__(self) -> None:
        super().__init__("2025-11-25")
        self.capabilities = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}, "cancel": {}}}
        self.tools = [{**SEARCH, "execution": {"taskSupport": "required"}}]
        self.status = "working"
        self.on |= {
            "tools/call": self._create,
            "tasks/get": self._look,
            "tasks/result": self._end,
            "tasks/cancel": self._look,
        }

    async def _create(self, wire: Wire) -> None:
        assert "task" in wire.message["params"]
        wire.result({"task": {"taskId": "t1", "status": "working", "pollInterval": 1}})

    async def _look(self, wire: Wire) -> None:
        assert wire.message["params"]["taskId"] == "t1"
        wire.result({"taskId": "t1", "status": self.status, "pollInterval": 1})

    async def _end(self, wire: Wire) -> None:
        wire.result({"content": [{"type": "text", "text": "from the task"}]})


async def test_tool_that_must_be_a_task_is_answered_in_line_or_becomes_a_task_of_the_hall() -> None:
    async with serving(Works()) as works, opened(named(url=works.url)) as hall:
        assert isinstance(works, Works)
        await reached(hall)
        task = await long_calls.start(hall, "Docs_search", words="tide")
        await works.until("tasks/get")
        works.status = "completed"
        ended = await long_calls.ended(hall, task)
        assert (ended.state, len(works.named("tools/call"))) == ("completed", 1)
        assert isinstance(ended.outcome, CompletedCall)
        assert ended.outcome.result.content == (Text("from the task"),)
        answer = await call(hall, "Docs_search", words="tide")
        assert answer.result.content == (Text("from the task"),)


async def test_task_of_the_hall_that_is_cancelled_is_cancelled_at_its_upstream() -> None:
    async with serving(Works()) as works, opened(named(url=works.url)) as hall:
        await reached(hall)
        task = await long_calls.start(hall, "Docs_search", words="tide")
        await works.until("tasks/get")
        await hall.tasks.cancel(task.id, LOCAL)
        await works.until("tasks/cancel")
        assert (await long_calls.ended(hall, task)).state == "cancelled"


async def test_hall_that_is_opened_again_reaches_its_upstreams_again(docs: Docs) -> None:
    with Toolhall(own) as hall:
        hall.add_upstreams([named(url=docs.url)])
        for times in (1, 2):
            async with hall.lifespan():
                await docs.until("tools/list", times)
                await reached(hall)


async def test_hall_without_upstreams_builds_none(tmp_path: Path) -> None:
    async with opened(config=Config(data=str(tmp_path))) as hall:
        assert (await manage(hall, "GET", "/api/upstreams")).body == {"upstreams": []}
        assert (await manage(hall, "GET", "/health")).body["components"].get("upstreams") is None
        assert not hall.has_upstreams


async def test_secret_of_the_hall_goes_upstream_and_its_lack_is_waited_for(docs: Docs) -> None:
    async with opened(named(url=docs.url, headers={"X-Key": "${secret:DOCS_KEY}"})) as hall:
        await reached(hall, state="waiting")
        assert "toolhall secret set DOCS_KEY" in (hall.upstreams.view("Docs").status.reason or "")
        await hall.credentials.vault.set("DOCS_KEY", Secret(TOKEN), None, "tests")
        await reached(hall)
        await call(hall, "Docs.search@1.0.0")
        assert {wire.headers.get("x-key") for wire in docs.seen} == {TOKEN}


async def test_first_sight_waits_for_a_look_in_the_profile_server(docs: Docs) -> None:
    host = docs.url.removeprefix("http://").partition("/")[0]
    config = Config(profile="server", public_url="https://tools.example.com", egress_allow=(host,))
    async with opened(named(url=docs.url, by_person=False), config=config) as hall:
        await reached(hall)
        view = hall.upstreams.view("Docs")
        assert (view.tools, view.waiting) == (0, 1)
        review = hall.upstreams.review("Docs")
        assert await hall.upstreams.accept("Docs", review.digest, LOCAL) == ("Docs.search@1.0.0",)
        assert "Docs.search@1.0.0" in listed(hall)


async def test_url_of_a_file_leads_to_loopback_for_the_person_at_this_machine_alone(docs: Docs) -> None:
    async with opened(named(url=docs.url, by_person=False)) as hall:
        await reached(hall, state="refused")
        assert "egress_allow" in (hall.upstreams.view("Docs").status.reason or "")
        assert docs.seen == []


async def test_metrics_count_upstreams_by_state(docs: Docs) -> None:
    async with opened(named(url=docs.url)) as hall:
        await reached(hall)
        text = await metrics(hall)
        assert 'toolhall_upstreams{state="ready"} 1' in text
        assert "toolhall_upstream_syncs_total 1" in text


async def metrics(hall: Toolhall) -> str:
    _ = hall.http  # which the metrics are made with
    return render(hall.telemetry).decode()


async def test_worker_beside_the_first_one_lists_what_that_has_registered(docs: Docs, tmp_path: Path) -> None:
    config = Config(data=str(tmp_path))
    halls = [Toolhall(own, config=config) for _ in range(2)]
    with halls[0] as first, halls[1] as second:
        for hall, role in ((first, "first"), (second, "sibling")):
            hall.add_upstreams([named(url=docs.url)])
            await hall.open(OpenOptions(role=role, read_only_reason="several workers"))  # type: ignore[arg-type]
        try:
            await reached(first)
            await until(lambda: "Docs.search@1.0.0" in listed(second))
            assert not isinstance(await call(second, "Docs.search@1.0.0"), ToolhallError)
            docs.tools = []
            await first.upstreams.sync("Docs")
            await until(lambda: "Docs.search@1.0.0" not in listed(second))
        finally:
            await second.settle()
            await first.settle()


async def test_check_of_an_upstream_that_wants_a_credential_and_says_nothing_names_the_way_to_set_one() -> None:
    with protected_upstream() as notes:
        notes.challenge = notes.metadata = None
        async with opened(named("Notes", url=notes.url)) as hall:
            await reached(hall, "Notes", "waiting")
            failed = (await hall.upstreams.check("Notes", LOCAL))[-1]
            reason = hall.upstreams.view("Notes").status.reason or ""
    assert (failed.name, failed.passed) == ("credentials", False)
    assert failed.fix == reason
    assert "does not say where to get one" in reason
    assert "'toolhall secret set NAME'" in reason


async def test_check_of_an_upstream_whose_metadata_is_for_another_resource_names_both() -> None:
    with protected_upstream() as notes:
        notes.metadata = {"resource": "https://other.example.com/mcp"}
        async with opened(named("Notes", url=notes.url)) as hall:
            await reached(hall, "Notes", "waiting")
            failed = (await hall.upstreams.check("Notes", LOCAL))[-1]
            reason = hall.upstreams.view("Notes").status.reason or ""
    assert (failed.name, failed.passed) == ("credentials", False)
    assert f"is for https://other.example.com/mcp, and not for {notes.url}" in reason
    assert "other.example.com" in failed.text + (failed.fix or "")


async def test_upstream_without_stated_auth_that_names_an_authorization_server_waits_for_an_account() -> None:
    with protected_upstream() as notes:
        config = Config(egress_allow=(urlsplit(notes.authority.issuer).netloc,))
        async with opened(named("Notes", url=notes.url), config=config) as hall:
            await until(lambda: hall.upstreams.view("Notes").upstream.settings.auth == "oauth")
            await reached(hall, "Notes", "waiting")
            await until(lambda: "toolhall account connect" in (hall.upstreams.view("Notes").status.reason or ""))


async def test_upstream_whose_authorization_server_is_not_allowed_names_the_setting() -> None:
    with protected_upstream() as notes:
        async with opened(named("Notes", url=notes.url)) as hall:
            await until(lambda: "egress_allow" in (hall.upstreams.view("Notes").status.reason or ""))


async def test_count_of_tools_leaves_out_resources(docs: Docs) -> None:
    async def pages(wire: Wire) -> None:
        listed = [{"uri": "docs://page", "name": "page"}]
        wire.result({"resources": listed, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"})

    docs.capabilities["resources"] = {}
    docs.on["resources/list"] = pages
    async with opened(named(url=docs.url)) as hall:
        await reached(hall)
        of_docs = [each for each in hall.registration.all_records if each.origin_detail == "Docs"]
        assert sorted(hall.registration.tool(each).kind for each in of_docs) == ["resource", "tool"]
        assert hall.upstreams.view("Docs").tools == 1
