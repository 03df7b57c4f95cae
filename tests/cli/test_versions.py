"""Every version of a tool at a URL, and what is said of a tool that is there and not served."""

import json
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.test_remote import Stub, legacy, old_server, stub, tools_at
from tests.cli.test_tool import definition
from tests.harness.cli import CliRunner
from tests.recorded import recorded
from toolhall.cli.clients.base import find_tool
from toolhall.cli.clients.http import parse_endpoint
from toolhall.cli.clients.mcp import McpConnection, fetch_tool_documents

SHOP = '''
from toolhall import Toolkit, tool

class Shop(Toolkit, version="{version}"):
    @tool(effect="reads")
    def price(self) -> str:
        """What it costs in {version}."""
        return "{version}"
'''
VERSIONS = ("1.0.0", "1.1.0", "2.0.0-beta")
NAMES = {"1.0.0": "Shop.price@1.0.0", "1.1.0": "Shop_price", "2.0.0-beta": "Shop.price@2.0.0-beta"}


def write_shops(cli: CliRunner) -> list[str]:
    for number, version in enumerate(VERSIONS):
        (cli.folder / f"shop{number}.py").write_text(SHOP.format(version=version))
    return [f"shop{number}.py" for number in range(len(VERSIONS))]


@pytest.fixture(params=["", "search", "search and pin"])
def url(cli: CliRunner, request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """A hall with several versions of one tool, whose clients see them all, or few and search."""
    if request.param:
        cli.environment["TOOLHALL_SEARCH"] = "true"
    if "pin" in request.param:
        (cli.folder / "toolhall.toml").write_text('pinned = ["Shop.price"]\n')
    with cli.serve(*write_shops(cli)) as server:
        yield server.url


def test_versions_of_a_tool_are_listed_inspected_and_called(cli: CliRunner, url: str) -> None:
    listed = cli.run("list", "--url", url, "--json").json()
    assert {each["version"]: each["name"] for each in listed if "Shop" in each["id"]} == NAMES
    for word, version in [*((f"Shop.price@{each}", each) for each in VERSIONS), ("Shop.price", "1.1.0")]:
        seen = cli.run("inspect", word, "--url", url, "--json").json()
        assert (seen["version"], seen["versions"]) == (version, ["1.1.0", "1.0.0", "2.0.0-beta"])
        assert len(seen["views"]) == 10
        assert all(f"costs in {version}." in json.dumps(view) for view in seen["views"].values())
        assert cli.run("call", word, "--url", url, "--json").json()["content"][0]["text"] == version
    assert "other versions  1.0.0, 2.0.0-beta" in cli.run("inspect", "Shop_price", "--url", url).out


@pytest.mark.parametrize("search", ["true", "false"])
def test_published_name_of_several_versions_means_the_active_one(cli: CliRunner, search: str) -> None:
    (cli.folder / "toolhall.toml").write_text(f'pinned = ["Shop.price@1.0.0"]\nsearch = {search}\n')
    with cli.serve(*write_shops(cli)) as server:
        for word, version in (("Shop_price", "1.0.0"), ("Shop.price", "1.0.0"), ("Shop.price@1.1.0", "1.1.0")):
            called = cli.run("call", word, "--url", server.url, "--json").json()
            assert called["content"][0]["text"] == version


@pytest.mark.parametrize("url", [""], indirect=True)
def test_older_versions_in_both_protocol_eras_are_shown_on_request_only(cli: CliRunner, url: str) -> None:
    for client in (McpConnection(parse_endpoint(url)), legacy(url, "2025-11-25")):
        assert [each["name"] for each in fetch_tool_documents(client)] == ["Shop_price"]
        assert {each["name"] for each in fetch_tool_documents(client, versions=True)} == set(NAMES.values())
        client.close()
    for dialect in ("mcp", "mcp@2025-06-18"):
        (only,) = cli.run("list", "--dialect", dialect, "--url", url).json()
        assert (only["name"], only["description"]) == ("Shop_price", "What it costs in 1.1.0.")
    assert list(cli.run("lock", "--url", url, "--json").json()["tools"]) == ["Shop.price@1.1.0"]
    assert cli.run("verify", "tools.lock", "--url", url).code == 0


def test_version_of_a_target_is_called_by_its_id(cli: CliRunner) -> None:
    (cli.folder / "shops").mkdir()
    for file in write_shops(cli):
        (cli.folder / file).rename(cli.folder / "shops" / file)
    for word, version in (("Shop.price@1.0.0", "1.0.0"), ("Shop_price", "1.1.0"), ("Shop.price", "1.1.0")):
        called = cli.run("call", word, "-t", "shops", "--json").json()
        assert called["content"][0]["text"] == version


def test_versions_at_a_server_without_them_are_listed_plainly() -> None:
    with stub(old_server({"content": []})) as url:
        (only,) = tools_at(url)
    assert (only.name, only.versions) == ("only", ())


def test_tool_ids_of_a_server_are_read_as_they_are() -> None:
    """Whatever they say: without a version, without a toolkit, twice."""
    ids = ["@", "a", "a@b@1", "a@b@2", "Kit.a@1.0.0", "Kit.a@1.0.0", ""]
    tools = [definition(f"t{n}", _meta={"dev.toolhall/id": each}) for n, each in enumerate(ids)]

    def answers(http: Stub, message: dict[str, Any]) -> None:
        http.result(message, {"supportedVersions": ["2026-07-28"], "tools": tools})

    with stub(answers) as url:
        offers = tools_at(url)
    assert [each.versions for each in offers[2:6]] == [("2", "1"), ("2", "1"), ("1.0.0", "1.0.0"), ("1.0.0", "1.0.0")]
    found = find_tool(offers, "a@b")
    assert found is not None
    assert found.version == "2"


def test_tool_held_back_is_reported_with_the_next_step(cli: CliRunner) -> None:
    (cli.folder / "tools.json").write_text(json.dumps([definition(each) for each in ("new", "off", "over", "rest")]))
    assert cli.run("tool", "add", "tools.json").code == 0
    for name in ("off", "over"):
        assert cli.run("tool", "activate", f"Kit.{name}", "--yes").code == 0
    assert cli.run("tool", "deactivate", "Kit.off").code == 0
    today = datetime.now(UTC).date().isoformat()
    ended = cli.run("tool", "deprecate", "Kit.over", "--sunset", today, "--successor", "Kit.rest@1.0.0")
    assert ended.code == 0
    with cli.serve() as server:

        def said(*words: str) -> str:
            done = cli.run(*words, "--yes", "--url", server.url)
            assert (done.code, done.out) == (1, "")
            return done.error_line()

        at = f"--url {server.url}"
        for name in ("Kit_new", "Kit.new", "Kit.new@1.0.0"):
            assert said("call", name) == (
                f"toolhall: Kit.new@1.0.0 is quarantined; look at it with 'toolhall tool show Kit.new@1.0.0 {at}',"
                f" then serve it with 'toolhall tool activate Kit.new@1.0.0 {at}'"
            )
        again = f"'toolhall tool activate Kit.off@1.0.0 {at}' serves it again"
        assert said("call", "Kit_off") == f"toolhall: Kit.off@1.0.0 is inactive; {again}"
        retired = f"Kit.over@1.0.0 was retired on {today}; call Kit.rest@1.0.0 instead"
        assert said("call", "Kit_over") == f"toolhall: {retired}"
        assert retired in cli.run("inspect", "Kit.over", "--url", server.url).error_line()
        assert "there is no tool 'Kit.nwe'" in said("call", "Kit.nwe")
    made = {record["dialect"] for record in recorded(cli.data)}
    assert made == {"api/management"}, "nothing was called to find out"
    assert not (cli.data / "calls.jsonl").exists()


def telling(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes) -> None:
    """From now on stubs answer so to whoever asks about tools."""

    def told(http: Stub) -> None:
        http.reply(status, body)

    monkeypatch.setattr(Stub, "do_GET", told, raising=False)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"{}"),
        (200, b"<html>"),
        (200, b"[1]"),
        (200, b'{"id": 1, "state": "inactive"}'),
        (200, b'{"id": "a", "state": "active"}'),
        (403, b'{"id": "a", "state": "inactive"}'),
        (302, b'{"id": "a", "state": "inactive"}'),
    ],
)
def test_tool_unknown_to_a_server_that_cannot_tell_is_no_such_tool(
    cli: CliRunner, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    telling(monkeypatch, status, body)
    with stub(old_server({"content": []})) as url:
        said = cli.run("call", "onyl", "--yes", "--url", url).error_line()
    assert said == "toolhall: there is no tool 'onyl'; did you mean 'only'?"


def test_tool_id_from_a_server_is_quoted_in_commands(cli: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.dumps({"id": "a; rm -r \u202e\x1b[2J x", "state": "inactive"}).encode()
    telling(monkeypatch, 200, told)
    with stub(old_server({"content": []})) as url:
        said = cli.run("call", "gone", "--yes", "--url", url).error_line()
    assert f"tool activate 'a; rm -r <U+202E><U+001B>[2J x' --url {url}'" in said
