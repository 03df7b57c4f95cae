"""`/api/upstreams`: which upstreams there are and how they are; add, check, review and remove one, and who may."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.servers.http_mcp import serving
from tests.unit.app.test_upstreams import Docs, call, named, opened, reached, until
from tests.unit.http.api.management_client import Reply, manage
from tests.unit.http.api.test_calls import Listening
from tests.unit.http.api.test_described import check, described
from toolhall import Toolhall
from toolhall.config import Config
from toolhall.model.caller import ADMIN, OBSERVE
from toolhall.registration.access import NewKey

CHANGED = "sha256-" + "0" * 64


@pytest.fixture
async def docs() -> AsyncIterator[Docs]:
    async with serving(Docs()) as server:
        assert isinstance(server, Docs)
        yield server


@pytest.fixture
async def hall(docs: Docs) -> AsyncIterator[Toolhall]:
    """A hall with the upstream Docs, which a file names and nobody at this machine."""
    config = Config(egress_allow=(docs.url.removeprefix("http://").partition("/")[0],))
    async with opened(named(url=docs.url, by_person=False), config=config) as hall:
        await reached(hall)
        yield hall


async def key(hall: Toolhall, scope: str) -> dict[str, str]:
    """The header of a caller with this scope alone."""
    _, secret = await hall.access.keys.create(NewKey(scope.partition(":")[0], scopes=(scope,)), "tests")
    return {"authorization": f"Bearer {secret}"}


async def upstream(hall: Toolhall, action: str, body: Any = None, name: str = "Docs") -> Reply:
    """Ask for something of an upstream."""
    return await manage(hall, "POST", f"/api/upstreams/{name}/{action}", {} if body is None else body)


async def test_every_answer_is_as_described(hall: Toolhall, docs: Docs) -> None:
    document = await described(hall)

    def is_described(path: str, method: str, reply: Reply) -> Any:
        assert reply.status < 300, reply
        check(document, path, method, reply)
        return reply.body

    listed = is_described("/api/upstreams", "get", await manage(hall, "GET", "/api/upstreams"))
    (row,) = listed["upstreams"]
    assert (row["name"], row["state"], row["source"], row["where"]) == ("Docs", "ready", "file", "mcp.json")
    assert (row["tools"], row["waiting"], row["server"]) == (0, 1, {"name": "scripted", "version": "1"})
    one = "/api/upstreams/{name}"
    assert is_described(one, "get", await manage(hall, "GET", "/api/upstreams/Docs")) == row
    checked = is_described(f"{one}/check", "post", await upstream(hall, "check"))
    assert checked["ok"]
    assert [each["name"] for each in checked["steps"]][-1] == "findings"
    review = is_described(f"{one}/review", "get", await manage(hall, "GET", "/api/upstreams/Docs/review"))
    assert [(each["id"], each["was"]) for each in review["tools"]] == [("Docs.search@1.0.0", None)]
    taken = is_described(f"{one}/review", "post", await upstream(hall, "review", {"digest": review["digest"]}))
    assert taken == {"accepted": ["Docs.search@1.0.0"]}
    docs.tools = [{**docs.tools[0], "description": "Search all documents."}]
    is_described(f"{one}/sync", "post", await upstream(hall, "sync"))
    review = is_described(f"{one}/review", "get", await manage(hall, "GET", "/api/upstreams/Docs/review"))
    assert [(each["id"], each["was"], each["refused"]) for each in review["tools"]] == [
        ("Docs.search@1.0.1", "Docs.search@1.0.0", False)
    ]
    assert review["tools"][0]["changes"]
    assert is_described(f"{one}/off", "post", await upstream(hall, "off"))["state"] == "off"
    assert is_described(f"{one}/on", "post", await upstream(hall, "on"))["state"] in ("new", "connecting")


async def test_added_upstream_is_reached_and_removed_with_its_tools(hall: Toolhall, docs: Docs) -> None:
    added = await manage(hall, "POST", "/api/upstreams", {"name": "Two", "settings": {"url": docs.url, "level": 3}})
    check(await described(hall), "/api/upstreams", "post", added)
    assert (added.status, added.body["source"], added.body["where"]) == (201, "store", "local")
    await reached(hall, "Two")
    assert (await manage(hall, "GET", "/api/upstreams/Two")).body["tools"] == 1, "the person at this machine added it"
    removed = await manage(hall, "DELETE", "/api/upstreams/Two")
    check(await described(hall), "/api/upstreams/{name}", "delete", removed)
    assert (await manage(hall, "GET", "/api/upstreams/Two")).status == 404
    assert not [each for each in hall.registration.all_records if each.toolkit == "Two"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "http://10.1.2.3/mcp"}, "egress_allow"),
        ({"url": "https://mcp.example.com/mcp", "leve": 2}, "leve"),
        ({"url": "https://me:hunter2@mcp.example.com/mcp"}, "user or password"),
        ({"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer hunter2"}}, "vault"),
        ({}, "url or command"),
    ],
)
async def test_upstream_that_cannot_be_is_refused_with_the_fix(
    hall: Toolhall, settings: dict[str, Any], said: str
) -> None:
    reply = await manage(hall, "POST", "/api/upstreams", {"name": "Bad", "settings": settings})
    assert reply.status in (400, 409), reply
    assert said in reply.body["error"]["message"]
    assert "hunter2" not in str(reply.body)
    assert (await manage(hall, "GET", "/api/upstreams/Bad")).status == 404


@pytest.mark.parametrize("name", ["Docs", "docs", "", "a b", "x" * 41])
async def test_name_that_is_taken_or_is_none_is_refused(hall: Toolhall, docs: Docs, name: str) -> None:
    before = (await manage(hall, "GET", "/api/upstreams")).body
    reply = await manage(hall, "POST", "/api/upstreams", {"name": name, "settings": {"url": docs.url}})
    assert reply.status in (400, 409), reply
    assert (await manage(hall, "GET", "/api/upstreams")).body == before


async def test_upstream_takes_no_toolkit_of_the_halls_own_code(hall: Toolhall, docs: Docs) -> None:
    toolkit = next(each.toolkit for each in hall.registration.all_records if each.origin == "code")
    reply = await manage(hall, "POST", "/api/upstreams", {"name": toolkit.upper(), "settings": {"url": docs.url}})
    assert (reply.status, "use another name" in reply.body["error"]["message"]) == (409, True)


async def test_yes_to_another_set_changes_nothing(hall: Toolhall) -> None:
    reply = await upstream(hall, "review", {"digest": CHANGED})
    assert reply.status == 409
    assert "look again" in reply.body["error"]["message"]
    assert (await manage(hall, "GET", "/api/upstreams/Docs")).body["waiting"] == 1


async def test_upstream_of_a_file_is_not_removed(hall: Toolhall) -> None:
    reply = await manage(hall, "DELETE", "/api/upstreams/Docs")
    assert reply.status == 409
    assert "mcp.json" in reply.body["error"]["message"]


@pytest.mark.parametrize("action", ["check", "sync", "off", "on"])
async def test_upstream_that_is_not_there_is_not_found(hall: Toolhall, action: str) -> None:
    assert (await upstream(hall, action, name="Nothing")).status == 404
    assert (await upstream(hall, "nothing")).status == 404


@pytest.mark.threat("B23")
async def test_observers_see_upstreams_without_the_reasons_and_change_nothing(hall: Toolhall, docs: Docs) -> None:
    hall.add_upstreams([named("Gone", url="http://127.0.0.1:1/mcp")])
    await reached(hall, "Gone", "away")
    observer, admin = await key(hall, OBSERVE), await key(hall, ADMIN)
    seen = (await manage(hall, "GET", "/api/upstreams/Gone", headers=observer)).body
    assert (seen["state"], seen["reason"]) == ("away", None)
    assert (await manage(hall, "GET", "/api/upstreams/Gone", headers=admin)).body["reason"]
    health = (await manage(hall, "GET", "/health", headers=observer)).body["components"]["upstreams"]
    assert health == {"Docs": {"state": "ready"}, "Gone": {"state": "away"}}
    assert (await manage(hall, "GET", "/api/upstreams/Docs/review", headers=observer)).status == 403
    assert (await manage(hall, "GET", "/api/needs", headers=observer)).body["upstreams"] == []
    before, asked = (await manage(hall, "GET", "/api/upstreams")).body, len(docs.seen)
    review = (await manage(hall, "GET", "/api/upstreams/Docs/review")).body
    for method, path, body in [
        ("POST", "", {"name": "Two", "settings": {"url": docs.url}}),
        ("DELETE", "/Docs", None),
        *(("POST", f"/Docs/{action}", {}) for action in ("check", "sync", "off", "on")),
        ("POST", "/Docs/review", {"digest": review["digest"]}),
    ]:
        assert (await manage(hall, method, f"/api/upstreams{path}", body, observer)).status == 403, path
    assert (await manage(hall, "GET", "/api/upstreams")).body == before
    assert len(docs.seen) == asked


async def test_callers_of_tools_see_no_upstream(hall: Toolhall) -> None:
    caller = await key(hall, "tools:*")
    assert (await manage(hall, "GET", "/api/upstreams", headers=caller)).status == 403
    assert "components" not in (await manage(hall, "GET", "/health", headers=caller)).body


async def test_what_waits_is_in_the_needs_of_administrators(hall: Toolhall) -> None:
    assert (await manage(hall, "GET", "/api/needs")).body["upstreams"] == [
        {"name": "Docs", "waiting": 1, "link": False}
    ]


async def test_changes_are_in_the_audit_without_what_settings_hold(hall: Toolhall, docs: Docs) -> None:
    settings = {"url": f"{docs.url}?key=hunter2-hunter2", "headers": {"X-Note": "hunter2-hunter2"}}
    assert (await manage(hall, "POST", "/api/upstreams", {"name": "Two", "settings": settings})).status == 201
    refused = await manage(hall, "POST", "/api/upstreams", {"name": "Three", "settings": {"command": "sh"}})
    assert refused.status == 403
    records = (await manage(hall, "GET", "/api/audit?limit=10")).body["records"]
    said = {each["tool"]: each["outcome"] for each in records if each["outcome"] != "intent"}
    assert (said["add upstream Two"], said["add upstream Three"]) == ("ok", "Denied")
    assert "hunter2" not in str(records)


async def test_call_of_an_upstream_is_recorded_with_where_it_went(hall: Toolhall) -> None:
    review = (await manage(hall, "GET", "/api/upstreams/Docs/review")).body
    await upstream(hall, "review", {"digest": review["digest"]})
    await call(hall, "Docs.search@1.0.0", words="tide")
    records = (await manage(hall, "GET", "/api/audit?limit=10")).body["records"]
    assert next(each["server"] for each in records if each["tool"] == "Docs.search@1.0.0" and "server" in each)


async def test_events_tell_of_states_and_of_tools_that_change(hall: Toolhall, docs: Docs) -> None:
    listening = await Listening(hall, "topics=upstreams,tools").started()
    review = (await manage(hall, "GET", "/api/upstreams/Docs/review")).body
    await upstream(hall, "review", {"digest": review["digest"]})
    ((topic, _, _),) = await listening.until(1)
    assert topic == "tools", "what a model may see has changed"
    await upstream(hall, "off")
    await listening.until(2)
    assert {"topic": "upstreams", "name": "Docs", "state": "off"} in [data for _, _, data in listening.events()]
    await manage(hall, "POST", "/api/upstreams", {"name": "Two", "settings": {"url": docs.url}})
    await reached(hall, "Two")
    ready = {"topic": "upstreams", "name": "Two", "state": "ready"}
    await until(lambda: ready in [data for _, _, data in listening.events()])
    await listening.request.disconnect()


async def test_upstream_that_wants_accounts_is_in_the_needs_of_whoever_has_linked_none(docs: Docs) -> None:
    async with opened(named(url=docs.url, auth="oauth")) as hall:
        _, secret = await hall.access.keys.create(NewKey("admin", owner="ada", scopes=(ADMIN,)), "tests")
        owner, nobody = {"authorization": f"Bearer {secret}"}, await key(hall, "tools:*")
        needs = (await manage(hall, "GET", "/api/needs", headers=owner)).body["upstreams"]
        assert needs == [{"name": "Docs", "waiting": 0, "link": True}]
        assert (await manage(hall, "GET", "/api/needs", headers=nobody)).body["upstreams"] == [], "it has no tool yet"
