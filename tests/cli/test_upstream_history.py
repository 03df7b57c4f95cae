"""Commands on versions and recordings, on tools of an upstream: lock, verify, diff, replay, history and rollback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_remote import Stub, stub
from tests.harness.cli import CliRunner
from tests.harness.server_process import ServerProcess, eventually

FIND = "Docs.find"
AT_FIRST = {"word": {"type": "string"}}


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


@pytest.fixture
def upstream(cli: CliRunner) -> Iterator[list[Any]]:
    """The definitions of an upstream, which a test may change."""
    tools = [definition("Find notes.", AT_FIRST)]

    def answers(http: Stub, message: dict[str, Any]) -> None:
        match message:
            case {"method": "initialize"}:
                server = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}}
                http.result(message, server)
            case {"method": "tools/list"}:
                http.result(message, {"tools": tools})
            case {"method": "tools/call", "params": {"arguments": arguments}}:
                http.result(message, {"content": [{"type": "text", "text": json.dumps(arguments)}]})
            case {"method": "ping"}:
                http.result(message, {})
            case {"id": _}:
                http.reply(400, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no"}}')
            case _:
                http.reply(202)

    with stub(answers) as url:
        (cli.folder / "mcp.json").write_text(json.dumps({"mcpServers": {"Docs": {"url": f"{url}/mcp"}}}))
        yield tools


def definition(description: str, properties: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"name": "find", "description": description, "inputSchema": schema, "annotations": {"readOnlyHint": True}}


def synced(cli: CliRunner, hall: ServerProcess) -> None:
    done = cli.run("upstream", "sync", "Docs", "--url", hall.url)
    assert done.code == 0, done


def test_lock_history_and_rollback_know_the_versions_of_an_upstream(cli: CliRunner, upstream: list[Any]) -> None:
    with cli.serve("mcp.json") as hall:
        at = ("--url", hall.url)
        assert eventually(lambda: cli.run("tool", "show", FIND, *at).code == 0)
        assert cli.run("lock", "--out", "toolhall.lock", *at).code == 0
        assert cli.run("verify", "toolhall.lock", *at).code == 0
        upstream[:] = [definition("Find all notes.", AT_FIRST)]
        synced(cli, hall)
        assert cli.run("verify", "toolhall.lock", *at).code == 0, "what waits is not shown"
        accepted = cli.run("upstream", "review", "Docs", "--yes", *at)
        assert f"{FIND}@1.0.1 is active" in accepted.out, accepted
        changed = cli.run("verify", "toolhall.lock", *at)
        assert (changed.code, f"{FIND}@1.0.1: added" in changed.out) == (1, True), changed
        events = cli.run("tool", "history", FIND, "--json", *at).json()
        assert {(each["id"], each["what"]) for each in events} >= {
            (f"{FIND}@1.0.0", "registered"),
            (f"{FIND}@1.0.1", "activated"),
            (f"{FIND}@1.0.0", "deactivated"),
        }
        done = cli.run("tool", "rollback", FIND, "--yes", *at)
        assert done.code == 0, done
        assert cli.run("verify", "toolhall.lock", *at).code == 0, "the old text is shown again"
        called = cli.run("call", "Docs_find", "word=a", "--json", *at)
        assert called.code == 0, called


def test_recorded_calls_of_an_upstream_are_replayed_against_the_file(cli: CliRunner, upstream: list[Any]) -> None:
    cli.environment["TOOLHALL_RECORD"] = f"{FIND}@*"
    with cli.serve("mcp.json") as hall:
        assert eventually(lambda: cli.run("call", "Docs_find", "word=a", "--url", hall.url).code == 0)
    del cli.environment["TOOLHALL_RECORD"]
    done = cli.run("replay", str(cli.data), "mcp.json")
    assert (done.code, f"{FIND}: 1 same" in done.out) == (0, True), done


def test_diff_compares_versions_of_an_upstreams_definition(cli: CliRunner, upstream: list[Any]) -> None:
    with cli.serve("mcp.json") as hall:
        at = ("--url", hall.url)
        assert eventually(lambda: cli.run("tool", "show", FIND, *at).code == 0)
        upstream[:] = [definition("Find notes.", {**AT_FIRST, "more": {"type": "string"}})]
        synced(cli, hall)
        shown = {}
        for version in ("1.0.0", "2.0.0"):
            done = cli.run("tool", "show", f"{FIND}@{version}", "--json", *at)
            assert done.code == 0, done
            shown[version] = done.json()
            (cli.folder / f"{version}.json").write_text(json.dumps(shown[version]["document"]))
        done = cli.run("diff", "1.0.0.json", "2.0.0.json")
        assert (done.code, "more" in done.out) == (0, True), done
