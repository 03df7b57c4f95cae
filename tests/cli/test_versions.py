"""Every version of a tool at a URL, and what is said of a tool that is there and not served."""

import json
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.cli.test_remote import Stub, legacy, old_server, stub
from tests.cli.test_tool import definition
from tests.recorded import recorded
from toolhall.cli.clients.base import find_tool
from toolhall.cli.clients.http import parse_endpoint
from toolhall.cli.clients.mcp import StatelessMcpClient, fetch_tool_documents
from toolhall.cli.clients.remote import RemoteToolClient

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


def write_shops(shell: Shell) -> list[str]:
    for number, version in enumerate(VERSIONS):
        (shell.folder / f"shop{number}.py").write_text(SHOP.format(version=version))
    return [f"shop{number}.py" for number in range(len(VERSIONS))]


@pytest.fixture(params=["", "search", "search and pin"])
def url(shell: Shell, request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """A hall with several versions of one tool, whose clients see them all, or few and search."""
    if request.param:
        shell.environment["TOOLHALL_SEARCH"] = "true"
    if "pin" in request.param:
        (shell.folder / "toolhall.toml").write_text('pinned = ["Shop.price"]\n')
    with shell.serving(*write_shops(shell)) as server:
        yield server.url


def test_every_version_is_listed_inspected_and_called(shell: Shell, url: str) -> None:
    listed = shell.run("list", "--url", url, "--json").json()
    assert {each["version"]: each["name"] for each in listed if "Shop" in each["id"]} == NAMES
    for word, version in [*((f"Shop.price@{each}", each) for each in VERSIONS), ("Shop.price", "1.1.0")]:
        seen = shell.run("inspect", word, "--url", url, "--json").json()
        assert (seen["version"], seen["versions"]) == (version, ["1.1.0", "1.0.0", "2.0.0-beta"])
        assert len(seen["views"]) == 10
        assert all(f"costs in {version}." in json.dumps(view) for view in seen["views"].values())
        assert shell.run("call", word, "--url", url, "--json").json()["content"][0]["text"] == version
    assert "other versions  1.0.0, 2.0.0-beta" in shell.run("inspect", "Shop_price", "--url", url).out


@pytest.mark.parametrize("search", ["true", "false"])
def test_the_published_name_means_what_the_hall_says_it_means(shell: Shell, search: str) -> None:
    (shell.folder / "toolhall.toml").write_text(f'pinned = ["Shop.price@1.0.0"]\nsearch = {search}\n')
    with shell.serving(*write_shops(shell)) as server:
        for word, version in (("Shop_price", "1.0.0"), ("Shop.price", "1.0.0"), ("Shop.price@1.1.0", "1.1.0")):
            called = shell.run("call", word, "--url", server.url, "--json").json()
            assert called["content"][0]["text"] == version


@pytest.mark.parametrize("url", [""], indirect=True)
def test_in_both_eras_only_who_asks_is_shown_older_versions(shell: Shell, url: str) -> None:
    for client in (StatelessMcpClient(parse_endpoint(url)), legacy(url, "2025-11-25")):
        assert [each["name"] for each in fetch_tool_documents(client)] == ["Shop_price"]
        assert {each["name"] for each in fetch_tool_documents(client, versions=True)} == set(NAMES.values())
        client.close()
    for dialect in ("mcp", "mcp@2025-06-18"):
        (only,) = shell.run("list", "--dialect", dialect, "--url", url).json()
        assert (only["name"], only["description"]) == ("Shop_price", "What it costs in 1.1.0.")
    assert list(shell.run("lock", "--url", url, "--json").json()["tools"]) == ["Shop.price@1.1.0"]
    assert shell.run("verify", "tools.lock", "--url", url).code == 0


def test_a_version_of_a_target_is_called_by_its_id(shell: Shell) -> None:
    (shell.folder / "shops").mkdir()
    for file in write_shops(shell):
        (shell.folder / file).rename(shell.folder / "shops" / file)
    for word, version in (("Shop.price@1.0.0", "1.0.0"), ("Shop_price", "1.1.0"), ("Shop.price", "1.1.0")):
        called = shell.run("call", word, "-t", "shops", "--json").json()
        assert called["content"][0]["text"] == version


def test_a_server_that_knows_no_versions_is_listed_as_before() -> None:
    with stub(old_server({"content": []})) as url:
        (only,) = RemoteToolClient(url).tools()
    assert (only.name, only.versions) == ("only", ())


def test_ids_of_a_server_are_read_as_they_are() -> None:
    """Whatever they say: without a version, without a toolkit, twice."""
    ids = ["@", "a", "a@b@1", "a@b@2", "Kit.a@1.0.0", "Kit.a@1.0.0", ""]
    tools = [definition(f"t{n}", _meta={"dev.toolhall/id": each}) for n, each in enumerate(ids)]

    def answers(http: Stub, message: dict[str, Any]) -> None:
        http.result(message, {"supportedVersions": ["2026-07-28"], "tools": tools})

    with stub(answers) as url:
        offers = RemoteToolClient(url).tools()
    assert [each.versions for each in offers[2:6]] == [("2", "1"), ("2", "1"), ("1.0.0", "1.0.0"), ("1.0.0", "1.0.0")]
    found = find_tool(offers, "a@b")
    assert found is not None
    assert found.version == "2"


def test_what_is_held_back_is_said_to_be_so_and_what_to_do(shell: Shell) -> None:
    (shell.folder / "tools.json").write_text(json.dumps([definition(each) for each in ("new", "off", "over", "rest")]))
    assert shell.run("tool", "add", "tools.json").code == 0
    for name in ("off", "over"):
        assert shell.run("tool", "activate", f"Kit.{name}", "--yes").code == 0
    assert shell.run("tool", "deactivate", "Kit.off").code == 0
    today = datetime.now(UTC).date().isoformat()
    ended = shell.run("tool", "deprecate", "Kit.over", "--sunset", today, "--successor", "Kit.rest@1.0.0")
    assert ended.code == 0
    with shell.serving() as server:

        def said(*words: str) -> str:
            done = shell.run(*words, "--yes", "--url", server.url)
            assert (done.code, done.out) == (1, "")
            return done.complaint()

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
        assert retired in shell.run("inspect", "Kit.over", "--url", server.url).complaint()
        assert "there is no tool 'Kit.nwe'" in said("call", "Kit.nwe")
    made = {record["dialect"] for record in recorded(shell.data)}
    assert made == {"api/management"}, "nothing was called to find out"
    assert not (shell.data / "calls.jsonl").exists()


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
def test_a_server_that_cannot_tell_leaves_it_at_no_such_tool(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    telling(monkeypatch, status, body)
    with stub(old_server({"content": []})) as url:
        said = shell.run("call", "onyl", "--yes", "--url", url).complaint()
    assert said == "toolhall: there is no tool 'onyl'; did you mean 'only'?"


def test_what_a_server_tells_of_a_tool_is_one_word_of_a_command(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    told = json.dumps({"id": "a; rm -r \u202e\x1b[2J x", "state": "inactive"}).encode()
    telling(monkeypatch, 200, told)
    with stub(old_server({"content": []})) as url:
        said = shell.run("call", "gone", "--yes", "--url", url).complaint()
    assert f"tool activate 'a; rm -r <U+202E><U+001B>[2J x' --url {url}'" in said
