"""Files of clients are recognised by their content, and the same servers give the same settings in every form."""

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhall.dialects.client_files.commented_json import BadClientText
from toolhall.dialects.client_files.reader import client_kind, read_client_file
from toolhall.dialects.client_files.server import ClientFile, ClientServer
from toolhall.model.upstream import UpstreamSettings, upstream_name_problem

VECTORS = Path(__file__).parent / "vectors"
TOKEN = "ghp_aVerySecretToken0123456789"
VARIABLES = {
    "GITHUB_TOKEN": TOKEN,
    "input:github": TOKEN,
    "DOCS_KEY": "docs-key-1234",
    "workspaceFolder": "/srv",
    "userHome": "/home/ada",
}
FORMS = {
    "claude.json": "mcpServers",
    "windsurf.json": "mcpServers",
    "gemini.json": "mcpServers",
    "vscode.json": "VS Code",
    "vscode_settings.json": "VS Code settings",
    "zed.json": "Zed",
    "codex.toml": "Codex",
    "opencode.json": "opencode",
}
EXPECTED = {
    "files": UpstreamSettings(command="npx", args=("-y", "@scope/server-files@2026.1.14", "./data")),
    "github": UpstreamSettings(
        command="docker",
        args=("run", "-i", "--rm", "-e", "GITHUB_TOKEN", "ghcr.io/github/server:1.2.3"),
        env={"GITHUB_TOKEN": TOKEN},
    ),
    "docs": UpstreamSettings(url="https://mcp.example.com/mcp", headers={"X-Api-Key": "docs-key-1234"}),
    "old-events": UpstreamSettings(url="https://events.example.com/sse", transport="sse"),
    "notes": UpstreamSettings(command="uvx", args=("notes-mcp==0.4.1",), cwd="/srv/notes", off=True),
}
WITHOUT_SSE = ("codex.toml", "opencode.json")  # these clients have no servers of the old transport


def read(text: str, **variables: str) -> ClientFile:
    found = read_client_file(text, variables)
    assert found is not None
    return found


def only_server(entry: object, **variables: str) -> ClientServer:
    (server,) = read(json.dumps({"mcpServers": {"one": entry}}), **variables).servers
    return server


@pytest.mark.parametrize("form", FORMS)
def test_same_servers_in_any_form_give_the_same_settings(form: str) -> None:
    found = read_client_file((VECTORS / form).read_text(), VARIABLES)
    assert found is not None
    assert found.kind == FORMS[form]
    settings = {each.name: each.settings for each in found.servers}
    expected = {name: each for name, each in EXPECTED.items() if name != "old-events" or form not in WITHOUT_SSE}
    assert settings == expected
    assert not [each for each in found.servers if each.is_waiting or each.problem or each.line is None]
    assert TOKEN not in repr(found)


@pytest.mark.parametrize("form", FORMS)
def test_variables_that_are_not_set_make_their_server_wait_and_no_other(form: str) -> None:
    found = read_client_file((VECTORS / form).read_text(), {"workspaceFolder": "/srv"})
    assert found is not None
    waiting = {each.name: each.missing_secrets for each in found.servers if each.is_waiting}
    if form == "gemini.json":  # a bare $NAME is text where no such variable is set
        assert not waiting
    else:
        asked = "input:github" if form == "vscode.json" else "GITHUB_TOKEN"
        assert waiting == {"github": (asked,), "docs": ("DOCS_KEY",)}
        docs = next(each.settings for each in found.servers if each.name == "docs")
        assert docs is not None
        assert docs.headers == {"X-Api-Key": "${secret:DOCS_KEY}"}


def test_registry_remote_comes_first_with_secrets_for_what_is_not_given() -> None:
    (server,) = read((VECTORS / "server_remote.json").read_text()).servers
    assert server.name == "docs"
    assert server.settings == UpstreamSettings(
        url="https://mcp.example.com/mcp",
        headers={"X-Api-Key": "${secret:X-Api-Key}", "Authorization": "Bearer ${secret:docs_token}"},
    )
    assert [each.path for each in server.losses] == ["/packages/0", "/remotes/1"]


def test_registry_package_becomes_the_command_of_its_exact_version() -> None:
    (server,) = read((VECTORS / "server_packages.json").read_text(), FILES_TOKEN="abcdef").servers
    assert server.settings == UpstreamSettings(
        command="npx",
        args=("-y", "@scope/server-files@2026.1.14", "./data"),
        env={"FILES_TOKEN": "abcdef", "FILES_MODE": "read"},
    )
    assert server.notes == ()


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        ("npm", "npx -y thing@1.2.3"),
        ("pypi", "uvx thing@1.2.3"),
        ("oci", "docker run -i --rm thing:1.2.3"),
        ("nuget", "dnx thing@1.2.3 --yes --"),
    ],
)
def test_registry_package_of_each_registry(registry: str, expected: str) -> None:
    package = {"registryType": registry, "identifier": "thing", "version": "1.2.3"}
    (server,) = read(json.dumps({"name": "a/b", "packages": [package]})).servers
    assert server.settings is not None
    assert server.settings.target == expected


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("text", "it is no table"),
        ({}, "it has neither command nor url"),
        ({"command": "a", "url": "https://a.example"}, "it has command and url"),
        ({"command": 7, "args": {}}, "args is a table; write a list"),
        ({"command": "a", "args": [{}]}, "args[0] is a table; write a text"),
        ({"command": []}, "command is an empty list"),
        ({"command": "a", "env": ["A=1"]}, "env is a list; write a table"),
        ({"type": "ws", "url": "wss://a.example"}, "type is none of stdio, http and sse"),
        ({"url": "not an address"}, "url is not the address of a server"),
        ({"command": "a", "timeout": "x"}, "timeout is no number above 0"),
    ],
)
def test_server_that_cannot_be_read_says_why_and_harms_no_other(entry: object, said: str) -> None:
    text = json.dumps({"mcpServers": {"bad": entry, "good": {"command": "true"}}})
    bad, good = read(text).servers
    assert bad.settings is None
    assert said in str(bad.problem)
    assert good.settings == UpstreamSettings(command="true")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('command = "a"\nheaders = {}', "write http_headers"),
        ('url = "https://a.example"\nbearer_token = "x"', "write bearer_token_env_var"),
        ("enabled = true", "neither command nor url"),
    ],
)
def test_codex_member_of_the_wrong_name_is_refused_with_the_right_one(table: str, said: str) -> None:
    (server,) = read(f"[mcp_servers.one]\n{table}\n").servers
    assert said in str(server.problem)
    assert server.line == 1


def test_codex_bearer_token_comes_from_its_variable() -> None:
    text = '[mcp_servers.one]\nurl = "https://a.example/mcp"\nbearer_token_env_var = "TOKEN"\ntool_timeout_sec = 5\n'
    (server,) = read(text, TOKEN=TOKEN).servers
    assert server.settings == UpstreamSettings(
        url="https://a.example/mcp", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=5
    )
    assert [each.name for each in server.credentials] == ["Authorization"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {"a": {"command": "x" "args": []}}}', "line 1, column 38: a comma"),
        ('{\n  "mcpServers": {,}\n}', "line 2, column 18: the name of a member"),
        ('{"mcpServers": {"a": {}, "a": {}}}', "line 1, column 26: 'a' is there twice"),
        ("[mcp_servers.x\ncommand=1", "at line 1, column 15"),
        ("{" + '"a":{' * 300, "nested too deeply"),
        ('{"mcpServers": ' + "9" * 5_000 + "}", "this is not JSON"),
        (" " * 2_000_000, "a client's file is much smaller"),
    ],
)
def test_text_that_cannot_be_parsed_names_line_and_column(text: str, said: str) -> None:
    with pytest.raises(BadClientText) as wrong:
        read_client_file(text, {})
    assert said in str(wrong.value)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"tools": []},
        {"openapi": "3.1.0", "servers": [{"url": "https://a.example"}]},
        {"name": "get_weather", "inputSchema": {}},
        {"servers": {}},
        {"mcp": {}},
        {"mcpServers": []},
        [1],
    ],
)
def test_document_that_is_no_clients_file_is_none(document: object) -> None:
    assert client_kind(document) is None


def test_members_without_meaning_are_losses() -> None:
    server = only_server({"command": "a", "trust": True, "colour": 1, "description": "x", "url": "https://a.example",
                          "type": "stdio"})  # fmt: skip
    assert {each.path for each in server.losses} == {
        "/mcpServers/one/trust", "/mcpServers/one/colour", "/mcpServers/one/url",
    }  # fmt: skip
    assert read('{"mcpServers": {}, "globalShortcut": "x"}').losses[0].path == "/globalShortcut"


@pytest.mark.parametrize(
    ("value", "seconds"), [({"timeout": 30}, 30), ({"timeout": 30_000}, 30), ({"timeout": 500, "trust": True}, 0.5)]
)
def test_timeout_is_seconds_or_milliseconds_as_its_client_writes_it(value: dict[str, object], seconds: float) -> None:
    server = only_server({"command": "a", **value})
    assert server.settings is not None
    assert server.settings.timeout == seconds


def test_lists_of_tools_become_only_and_except() -> None:
    server = only_server({"command": "a", "includeTools": ["x", "y"], "disabledTools": ["z"]})
    assert server.settings is not None
    assert (server.settings.only, server.settings.except_) == (("x", "y"), ("z",))
    every = only_server({"command": "a", "tools": ["*"]}).settings
    assert every is not None
    assert every.only == ()


def test_variable_missing_outside_headers_and_env_is_named_and_its_server_waits() -> None:
    server = only_server({"url": "https://${HOST}/mcp", "headers": {"A": "${KEY}"}})
    assert server.missing == ("HOST",)
    assert server.missing_secrets == ("KEY",)
    assert server.is_waiting


def test_env_file_gives_variables_that_env_overrides() -> None:
    text = json.dumps({"mcpServers": {"one": {"command": "a", "env": {"A": "stated"}, "envFile": "${userHome}/.env"}}})
    files = {"/home/ada/.env": "# comment\nexport A=file\nB='quoted # text'\nC=plain # comment\n"}
    found = read_client_file(text, VARIABLES, files.get)
    assert found is not None
    assert found.servers[0].settings == UpstreamSettings(
        command="a", env={"A": "stated", "B": "quoted # text", "C": "plain"}
    )
    assert "write its variables into env" in read(text, userHome="/x").servers[0].losses[0].reason


def test_inputs_of_a_server_are_named_with_what_the_person_is_asked() -> None:
    found = read((VECTORS / "vscode.json").read_text(), DOCS_KEY="abcd", workspaceFolder="/srv")
    github = next(each for each in found.servers if each.name == "github")
    assert [(each.id, each.description, each.password) for each in github.inputs] == [("github", "GitHub token", True)]


KEYS = st.text(min_size=1, max_size=60)


@given(st.lists(KEYS, unique=True, max_size=12))
def test_names_of_upstreams_are_valid_and_distinct_whatever_the_keys(keys: list[str]) -> None:
    found = read(json.dumps({"mcpServers": {key: {"command": "true"} for key in keys}}))
    names = [each.name for each in found.servers]
    assert [upstream_name_problem(name) for name in names] == [None] * len(keys)
    assert len({name.casefold() for name in names}) == len(keys)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8) | st.sampled_from(["${A}", "$A", "${env:B}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.sampled_from(
    ["command", "args", "env", "url", "serverUrl", "httpUrl", "headers", "type", "transport", "timeout", "tools",
     "disabled", "envFile", "cwd", "name", "remotes", "packages", "env_vars", "http_headers"]
)  # fmt: skip
ENTRIES = st.dictionaries(MEMBERS, JSON_VALUES, max_size=5)
HOLDERS = st.sampled_from(["mcpServers", "servers", "context_servers", "mcp_servers", "mcp", "server"])


@given(HOLDERS, st.dictionaries(st.text(max_size=5), ENTRIES | JSON_VALUES, max_size=3) | ENTRIES)
def test_any_document_is_read_or_refused_without_a_crash(holder: str, entries: object) -> None:
    secret = "s3cr3t-value-of-a-variable"
    found = read_client_file(json.dumps({holder: entries}), {"A": secret, "B": secret})
    for server in found.servers if found is not None else ():
        assert (server.settings is None) == (server.problem is not None)
        assert secret not in f"{server.problem}{server.losses}{server.notes}"


@given(st.text(alphabet='{}[]",:/*\\ \n\ta1-.e', max_size=40))
def test_any_text_is_read_or_refused_without_a_crash(text: str) -> None:
    with contextlib.suppress(BadClientText):
        found = read_client_file(text, {})
        assert found is None or found.kind
