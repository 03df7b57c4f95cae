# ruff: noqa: N802 - tests carry the names of their rows
"""What callers with keys of their own see, share and use up; and that there is one way to a tool."""

import ast
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.dialect_clients import DIALECT_CLIENTS, Call, McpDialect, OxpDialect
from tests.harness.http_client import Response
from tests.properties.callers.town import Rule, Town
from tests.unit.builders import tool_named
from toolhall import Config, Context, Toolhall, tool
from toolhall.dialects.findings import BadDocument
from toolhall.model.caller import Allow, Caller
from toolhall.model.errors import Limited
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.registration.records import read_definition

SOURCE = Path(__file__).parents[2] / "src/toolhall"
MODERN = "2026-07-28"
# Where each dialect lists its tools, and the message that asks for it.
LISTS: dict[str, tuple[str, dict[str, Any]]] = {
    "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    "hub": ("/hub", {"type": "request", "id": "1", "method": "list_tools", "params": {}}),
    "machine": ("/machine", {"payload": {"discover": {}}}),
}


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    """Ada may call everything from level 4 up, Bob one tool, the others nothing."""
    town = Town()
    with town.hall:
        await town.open([Rule("ada", "Ladder.*"), Rule("bob", "Ladder.step5")])
        yield town


async def listed(town: Town, dialect: str, caller: str) -> Response:
    """The whole list, as one caller gets it."""
    path, message = LISTS[dialect]
    meta = {"_meta": {f"io.modelcontextprotocol/{key}": value for key, value in _META.items()}}
    headers = {"accept": "application/json, text/event-stream"}
    if dialect == "mcp":
        message = message | {"params": meta}
        headers |= {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
    if dialect == "machine":
        header = {"version": "1.0", "messageId": "1", "messageType": "request", "timestamp": "2026-01-01T00:00:00Z"}
        message = {"header": {**header, "source": "test"}, **message}
    return await town.post(path, json.dumps(message).encode(), caller, headers)


_META: dict[str, Any] = {"protocolVersion": MODERN, "clientCapabilities": {}}


@pytest.mark.threat("B11")
@pytest.mark.parametrize("dialect", LISTS)
async def test_B11_tool_list_holds_only_the_tools_granted_to_its_caller(town: Town, dialect: str) -> None:
    """A tool that one caller was granted stands in no other's list, in whatever order they ask, also after a change."""
    for _ in range(2):  # the second time from what was kept
        for caller, seen in (("ada", range(1, 11)), ("bob", [1, 2, 3, 5]), ("eve", []), ("ada", range(1, 11))):
            text = (await listed(town, dialect, caller)).body.decode()
            there = [level for level in range(1, 11) if f'step{level}"' in text]
            assert there == list(seen), caller
    await town.hall.access.grants.remove(town.hall.access.grants.all[0].id)
    assert 'step9"' not in (await listed(town, dialect, "ada")).body.decode()


@pytest.mark.threat("B11")
async def test_B11_tool_list_made_for_one_caller_has_a_private_cache_scope(town: Town) -> None:
    """What was made for one caller must not be shared by whoever keeps copies."""
    result = json.loads((await listed(town, "mcp", "bob")).body)["result"]
    assert result["cacheScope"] == "private"


# Every setting that changes which tool a name stands for.
NAME_SETTINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "search": {"search": True},
    "pinned": {"pinned": ("Ladder_step9", "Ladder.step8")},
    "pinned version": {"pinned": ("Ladder.step9@^1", "Ladder.step8@1.0.0")},
    "search and pinned": {"search": True, "pinned": ("Ladder.step9",)},
}


@pytest.mark.threat("B11")
@pytest.mark.threat("K7")
@pytest.mark.parametrize("settings", NAME_SETTINGS.values(), ids=NAME_SETTINGS)
async def test_B11_K7_call_of_a_hidden_tool_is_answered_like_an_unknown_one_in_every_dialect(
    settings: dict[str, Any],
) -> None:
    """Not a byte tells a tool that was not granted from one that never was, whatever the settings do to names."""
    town = Town(Config(profile="server", public_url="http://localhost:8000", **settings))
    with town.hall:
        await town.open([Rule("ada", "Ladder.*"), Rule("bob", "Ladder.step5")])
        for way in DIALECT_CLIENTS:
            replies = [
                await way().send(town, Call("bob", "Ladder", name, {}))
                for name in ("step9", "stepx")  # of one length
            ]
            hidden, unknown = (reply.body.decode().replace("step9", "stepx") for reply in replies)
            assert replies[0].status == replies[1].status, way().dialect
            assert _without_ids(hidden) == _without_ids(unknown), way().dialect


@pytest.mark.threat("K7")
@pytest.mark.parametrize("settings", NAME_SETTINGS.values(), ids=NAME_SETTINGS)
@pytest.mark.parametrize("form", ["Ladder_{}", "Ladder.{}", "Ladder.{}@1.0.0", "Ladder.{}@^1"])
async def test_K7_call_of_a_hidden_tool_by_name_id_or_version_range_is_answered_like_an_unknown_one(
    settings: dict[str, Any], form: str
) -> None:
    """In MCP a tool is called by its published name, its id or an id with a range; a hidden one by none of them."""
    town = Town(Config(profile="server", public_url="http://localhost:8000", **settings))
    with town.hall:
        await town.open([Rule("bob", "Ladder.step5")])
        terms = {f"io.modelcontextprotocol/{key}": value for key, value in _META.items()}
        replies: list[str] = []
        for name in (form.format("step9"), form.format("stepx")):
            params = {"name": name, "arguments": {}, "_meta": terms}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
            headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN}
            headers |= {"mcp-method": "tools/call", "mcp-name": name}
            reply = await town.post("/mcp", body, "bob", headers)
            replies.append(f"{reply.status} {reply.body.decode().replace('step9', 'stepx')}")
        assert replies[0] == replies[1]
        assert "unknown tool" in replies[0]
        assert [record.verdict for record in town.take()[0]] == ["deny", None]


def _without_ids(text: str) -> Any:
    """Without the ids and times of a message of Machine Context."""
    message = json.loads(text)
    message.get("header", {}).clear()
    return message


@tool(effect="reads")
async def whoami(ctx: Context) -> str:
    """Say who calls."""
    return ctx.caller.id


@pytest.mark.threat("G12")
@pytest.mark.parametrize("call_id", [None, "same-id"])
async def test_G12_same_call_id_of_two_callers_gives_each_its_own_answer(call_id: str | None) -> None:
    """The same call, also under the same id to repeat it by, gives each caller its own answer."""
    town = Town()
    with town.hall:
        town.hall.add(whoami)
        await town.open([])
        known = {} if call_id is None else {"call_id": call_id}
        body = json.dumps({"request": {"tool_id": "test_verdicts.whoami", "input": {}, **known}}).encode()
        for caller in ("ada", "crew", "ada"):
            reply = await town.post("/oxp/tools/call", body, caller, {})
            assert json.loads(reply.body)["result"]["value"] == caller


async def answers(hall: Toolhall, name: str, caller: str, count: int) -> list[str]:
    ask, who = CallTool(name, {}, "test"), Caller(caller, proof="key")
    return [type(await hall.dispatcher.answer(ask, who)).__name__ for _ in range(count)]


@pytest.mark.threat("I4")
@pytest.mark.parametrize("make", [lambda: McpDialect(MODERN), OxpDialect], ids=["mcp", "oxp"])
async def test_I4_calls_beyond_the_burst_are_refused_with_429_and_unknown_names_count(make: Any) -> None:
    """Beyond the burst every dialect refuses and says when to come back; unknown names count as well."""
    config = Config(profile="server", public_url="http://localhost:8000", calls_per_second=0.001, call_burst=3)
    town = Town(config)
    with town.hall:
        await town.open([])
        way = make()
        replies = [await way.send(town, Call("ada", "Ladder", "stepx", {})) for _ in range(2)]
        replies += [await way.send(town, Call("ada", "Ladder", "step1", {})) for _ in range(3)]
        assert [reply.status == 429 for reply in replies] == [False, False, False, True, True]
        assert int(replies[-1].headers["retry-after"]) > 0
        assert (await make().send(town, Call("bob", "Ladder", "step1", {}))).status == 200


@pytest.mark.threat("I5")
async def test_I5_tool_with_a_higher_cost_uses_up_more_of_the_rate_limit() -> None:
    """A call that costs ten leaves room for two where others would leave room for twenty."""
    config = Config(calls_per_second=0.001, call_burst=20, costs={"*.whoami": 10})
    with Toolhall(whoami, config=config) as hall:
        ended = await answers(hall, "whoami", "ada", 3)
        assert ended == [CompletedCall.__name__, CompletedCall.__name__, Limited.__name__]


@pytest.mark.threat("B9")
@pytest.mark.parametrize(("caller", "may"), [("ada", True), ("crew", False)])
async def test_B9_tool_that_requires_a_user_is_denied_to_a_shared_key(caller: str, may: bool) -> None:
    """What needs to know its user is not called with a key that stands for nobody in particular."""
    town = Town()
    with town.hall:
        await town.open([])
        proof: Any = "shared" if caller == "crew" else "key"
        who = Caller(caller, proof=proof, expires_at=4e9, scopes=frozenset({"tools:*"}))
        needy = tool_named("inbox", level=1, requirements={"user_id": True})
        assert isinstance(town.hall.dispatcher.policy.authorize(who, needy), Allow) is may


@pytest.mark.threat("S1")
def test_S1_only_the_run_stage_of_the_pipeline_runs_a_tool() -> None:
    """Only one stage of the pipeline runs anything: no preview, health or management path can."""
    callers = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("entry.runner.run")
    ]
    assert callers == ["pipeline/run.py"]


@pytest.mark.threat("H3")
@pytest.mark.parametrize("name", ["test&calc", "a;b", "a|b", "$(id)", "`id`", "a b", "a\nb", "../x", "%PATH%"])
def test_H3_tool_name_with_shell_characters_is_refused_or_published_without_them(name: str) -> None:
    """A name that a shell would read differently is refused, or published under another."""
    try:
        (found,) = read_definition({"name": name, "inputSchema": {"type": "object"}}, "mcp")
    except BadDocument:
        return
    assert set(found.name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


@pytest.mark.threat("H9")
def test_H9_source_imports_no_pickle_marshal_or_yaml() -> None:
    """No module reads pickles, marshalled code or YAML; what processes tell each other is JSON.

    The front matter of skills is YAML by its standard; it is read from parser events, without tags and aliases.
    """
    banned = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "yaml", "jsonpickle"}
    for path in SOURCE.rglob("*.py"):
        allowed = {"yaml"} if path.name == "front_matter.py" else set[str]()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not (banned - allowed) & {name.partition(".")[0] for name in names}, path
