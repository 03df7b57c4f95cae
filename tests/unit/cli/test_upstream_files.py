"""Files that list servers: what they give to a hall, what is said of servers with a problem, and reading them again."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.server_process import eventually
from toolhall.app import Toolhall
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.targets import load_targets
from toolhall.cli.upstream_files import SettingsFile, UpstreamFile, client_variables, follow_files, give_upstreams
from toolhall.config import Config
from toolhall.model.upstream import UpstreamSettings

CODEX = '[mcp_servers.notes]\ncommand = "uvx"\nargs = ["notes-mcp==0.4.1"]\n'


def write(file: Path, **servers: object) -> UpstreamFile:
    file.write_text(json.dumps({"mcpServers": servers}))
    return UpstreamFile(str(file))


def names(hall: Toolhall) -> list[str]:
    return sorted(each.name for each in hall.given_upstreams)


async def until(holds: Callable[[], bool]) -> None:
    assert await asyncio.to_thread(eventually, holds)


MCP_SERVERS = '{"mcpServers": {"notes": {"command": "uvx", "args": ["notes-mcp==0.4.1"]}}}'


@pytest.mark.parametrize(("name", "text"), [("mcp.json", MCP_SERVERS), ("config.toml", CODEX)])
def test_file_of_servers_as_a_target_is_recognised_by_its_content(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    (target,) = load_targets([str(tmp_path / name)])
    assert isinstance(target, UpstreamFile)
    (upstream,), problems = target.read(local=True)
    assert (upstream.name, upstream.source, upstream.where) == ("notes", "command line", str(tmp_path / name))
    assert upstream.settings == UpstreamSettings(command="uvx", args=("notes-mcp==0.4.1",))
    assert upstream.named_by_person
    assert problems == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("other.toml", "a = 1\n", "lists no servers"),
        ("mcp.json", '{"mcpServers": {"a": {"command": }}}', "line 1, column 34: this is not JSON"),
        ("config.toml", "[mcp_servers.a\n", "neither JSON nor TOML"),
    ],
)
def test_file_that_lists_no_servers_says_so(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(CommandError) as wrong:
        load_targets([str(tmp_path / name)])
    assert said in wrong.value.message


def test_problem_names_file_line_server_and_variable_but_no_value(tmp_path: Path) -> None:
    file = write(
        tmp_path / "mcp.json",
        good={"command": "a", "env": {"TOKEN": "hunter2-hunter2"}},
        waits={"url": "https://a.example/mcp", "headers": {"X-Key": "${NOT_SET_HERE}"}},
        lost={"url": "https://${NO_HOST_HERE}/mcp"},
        bad={"env": {"TOKEN": "hunter2-hunter2"}},
    )
    upstreams, problems = file.read(local=False)
    assert {each.name: each.missing for each in upstreams} == {"good": (), "waits": (), "lost": ("NO_HOST_HERE",)}
    where = f"{tmp_path}/mcp.json, line 1"
    fix = "set it, or keep its value with 'toolhall secret set NOT_SET_HERE'"
    assert problems == [
        f"{where}: waits waits: the variable NOT_SET_HERE is not set; {fix}",
        f"{where}: lost waits: the variable NO_HOST_HERE is not set",
        f"{where}: bad is left out: it has neither command nor url; write one of them",
    ]
    assert "hunter2" not in f"{problems}{upstreams}"


def test_variables_of_a_file_are_the_environment_without_the_halls_own(tmp_path: Path) -> None:
    found = client_variables(tmp_path / ".vscode/mcp.json", {"A": "1", "TOOLHALL_VAULT_KEY": "secret"})
    assert found["A"] == "1"
    assert found["workspaceFolder"] == str(tmp_path)
    assert "secret" not in found.values()


def test_two_files_with_a_server_of_one_name_are_refused(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.json", Docs={"command": "a"}), write(tmp_path / "2.json", docs={"command": "b"})
    with Toolhall() as hall, pytest.raises(UsageError, match=r"two upstreams are called 'docs', in .*1\.json and in"):
        give_upstreams(hall, [one, two])


async def test_changed_file_is_read_again_and_one_that_breaks_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "mcp.json", a={"command": "a"}, b={"command": "b"})
    other = write(tmp_path / "other.json", z={"command": "z"})
    hall = Toolhall()
    assert give_upstreams(hall, [file, other]) == []
    follow_files(hall, [file, other])
    async with hall:
        before = {each.name: each for each in hall.given_upstreams}
        write(tmp_path / "mcp.json", b={"command": "b"}, c={"command": "c"})
        await until(lambda: names(hall) == ["b", "c", "z"])
        after = {each.name: each for each in hall.given_upstreams}
        assert (after["b"], after["z"]) == (before["b"], before["z"])
        (tmp_path / "mcp.json").write_text('{"mcpServers": {')
        await until(lambda: "mcp.json stay as they were" in caplog.text)
        assert names(hall) == ["b", "c", "z"]
        write(tmp_path / "mcp.json", d={"command": "d"})
        await until(lambda: names(hall) == ["d", "z"])


def test_settings_file_gives_its_upstreams(tmp_path: Path) -> None:
    file = tmp_path / "toolhall.toml"
    file.write_text('[upstreams.Docs]\nurl = "https://a.example/mcp"\n')
    (upstream,), _ = SettingsFile(str(file)).read(local=True)
    assert (upstream.name, upstream.source, upstream.where) == ("Docs", "file", str(file))
    file.write_text("port = 'x'\n")
    with pytest.raises(CommandError, match="port: a whole number"):
        SettingsFile(str(file)).read(local=True)


def test_name_that_the_settings_have_already_is_refused(tmp_path: Path) -> None:
    config = Config(upstreams={"Docs": UpstreamSettings(url="https://a.example")})
    with Toolhall(config=config) as hall, pytest.raises(UsageError, match="in the settings and in"):
        give_upstreams(hall, [write(tmp_path / "1.json", Docs={"command": "a"})])
