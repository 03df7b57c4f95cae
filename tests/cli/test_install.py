"""`toolhall install`: what it writes works in the client, and nothing else in the client's file changes."""

import json
import stat
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, get_args

import pytest

import toolhall
from tests.cli.test_serve_modes import INITIALIZE, ask
from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from tests.packaging.building import UV
from toolhall.cli.install import launch
from toolhall.cli.install.launch import absolute_target, default_name, launch_command, stdio_server
from toolhall.cli.install.mcp_clients import MCP_CLIENTS, ClientName, RemoteServer, System

FILES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": ".config/zed/settings.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
    "goose": ".config/goose/config.yaml",
}


@pytest.fixture
def home(cli: CliRunner) -> Path:
    """A home folder without any client's file."""
    folder = cli.folder / "person"
    folder.mkdir()
    cli.environment["HOME"] = str(folder)
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "APPDATA"):
        cli.environment.pop(name, None)
    return folder


def entry_in(file: Path, below: str, name: str) -> dict[str, Any]:
    """The entry as the client reads it."""
    text = file.read_text()
    if file.suffix == ".toml":
        return dict(tomllib.loads(text)[below][name])
    if file.suffix == ".json":
        return dict(json.loads(text)[below][name])
    head, entry, *lines = text.splitlines()
    assert (head, entry) == (f"{below}:", f"  {name}:")
    return {key.strip(): json.loads(value) for key, _, value in (line.partition(":") for line in lines)}


def test_install_knows_every_client() -> None:
    assert set(FILES) == set(MCP_CLIENTS) == set(get_args(ClientName))


@pytest.mark.parametrize("client", FILES)
def test_install_entry_started_from_anywhere_serves(cli: CliRunner, home: Path, client: ClientName) -> None:
    (cli.folder / "my_tools.py").write_text(Path(KIT).read_text())
    done = cli.run("install", client, "my_tools.py", "--yes", "--json", "--env", "MORE=1")
    assert done.code == 0, done
    file = home / FILES[client]
    assert done.json()["file"] == str(file)
    entry = entry_in(file, MCP_CLIENTS[client].servers_key, "my_tools")
    command, environment = entry.get("command") or entry["cmd"], entry.get("env") or entry["envs"]
    assert environment == {"MORE": "1"}
    assert Path(command).is_absolute()
    with subprocess.Popen(
        [command, *entry["args"]],
        cwd="/",
        env={"HOME": str(home), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        answer: Any = ask(process, INITIALIZE)
        assert answer["result"]["serverInfo"]["name"] == "toolhall"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(patience()) == 0
    assert (cli.data / "state.key").exists(), "TOOLHALL_DATA of here is said as --data"
    again = cli.run("install", client, "my_tools.py", "--yes", "--env", "MORE=1")
    assert "nothing was changed" in again.err
    removed = cli.run("install", client, "--remove", "--name", "my_tools", "--yes")
    assert removed.code == 0, removed
    assert "my_tools" not in file.read_text()


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("claude-code", {"type": "http", "url": "URL", "headers": {"Authorization": "Bearer ${MY_KEY}"}}),
        ("cursor", {"url": "URL", "headers": {"Authorization": "Bearer ${env:MY_KEY}"}}),
        ("vscode", {"type": "http", "url": "URL", "headers": {"Authorization": "Bearer ${env:MY_KEY}"}}),
        ("windsurf", {"serverUrl": "URL", "headers": {"Authorization": "Bearer ${env:MY_KEY}"}}),
        ("codex", {"url": "URL", "bearer_token_env_var": "MY_KEY"}),
        ("gemini-cli", {"httpUrl": "URL", "headers": {"Authorization": "Bearer ${MY_KEY}"}}),
    ],
)
def test_install_of_a_url_is_written_as_the_client_wants_it(client: ClientName, entry: dict[str, Any]) -> None:
    url = "http://127.0.0.1:8000/mcp"
    wanted = json.loads(json.dumps(entry).replace("URL", url))
    assert MCP_CLIENTS[client].entry("x", RemoteServer(url, "MY_KEY")) == wanted
    keyless = {key: value for key, value in wanted.items() if key not in ("headers", "bearer_token_env_var")}
    assert MCP_CLIENTS[client].entry("x", RemoteServer(url)) == keyless


def test_install_url_is_normalised_or_refused(cli: CliRunner, home: Path) -> None:
    done = cli.run("install", "goose", "http://127.0.0.1:8000", "--yes")
    assert done.code == 0, done
    assert entry_in(home / FILES["goose"], "extensions", "toolhall")["uri"] == "http://127.0.0.1:8000/mcp"
    for stated in ("https://tools.example/base", "https://tools.example/base/", "https://tools.example/base/mcp"):
        printed = cli.run("install", "zed", stated, "--print", "--name", "x", "--json").json()
        assert printed["entry"] == {"url": "https://tools.example/base/mcp"}
    for words, said in (
        (("claude-desktop", "http://127.0.0.1:8000"), "only takes programs to start"),
        (("zed", "http://127.0.0.1:8000", "--key-env", "K"), "cannot name an environment variable"),
        (("cursor", "http://u:p@127.0.0.1"), "no user name or password"),
        (("cursor", "http://"), "is not a URL"),
        (("cursor", "http://127.0.0.1", "--key-env", "th_1-2"), "the name of a variable"),
        (("cursor", "http://127.0.0.1", "--data", "x"), "leave them out"),
        (("cursor", "missing.py"), "there is no file missing.py"),
        (("cursor", KIT, "--name", "a b"), "--name may hold"),
        (("cursor", KIT, "--key-env", "A"), "--key-env goes with a URL"),
        (("cursor", KIT, "--env", "NOT_SET_ANYWHERE"), "there is no such variable"),
        (("windsurf", KIT, "--project"), "no file for one project"),
        (("cursor", "--remove"), "has no server 'toolhall'"),
        (("cursor", KIT), "say yes with --yes"),
    ):
        refused = cli.run("install", *words)
        assert refused.code in (1, 2)
        assert said in refused.err, refused
    assert not (home / ".cursor").exists()


def test_install_at_terminal_shows_the_change_asks_and_keeps_a_backup(cli: CliRunner, home: Path) -> None:
    before = '{\n  // mine\n  "theme": "x",\n  "context_servers": {"other": {"command": "y"}},\n}\n'
    real = home / "dotfiles.json"
    real.write_text(before)
    real.chmod(0o640)
    file = home / FILES["zed"]
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    for answer, after in (("n", before), ("y", None)):
        with cli.terminal("install", "zed", KIT) as terminal:
            shown = terminal.expect("[y/N] ")
            assert '"kit": {' in shown
            assert "// mine" in shown
            terminal.type(answer)
            code, _ = terminal.end()
        assert code == (0 if answer == "y" else 1)
        assert after is None or real.read_text() == after
    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert real.read_text().startswith('{\n  // mine\n  "theme": "x",\n')
    backup = file.with_name(f"{file.name}.toolhall.bak")
    assert (backup.read_text(), stat.S_IMODE(backup.stat().st_mode)) == (before, 0o640)


def test_install_over_an_entry_with_additions_keeps_them(cli: CliRunner, home: Path) -> None:
    file = home / FILES["windsurf"]
    file.parent.mkdir(parents=True)
    file.write_text('{"mcpServers": {"kit": {"serverUrl": "http://old", "disabled": true, "env": {"OLD": "1"}}}}')
    assert cli.run("install", "windsurf", KIT, "--yes").code == 0
    entry = entry_in(file, "mcpServers", "kit")
    assert (entry["disabled"], entry["env"]) == (True, {"OLD": "1"})
    assert set(entry) == {"command", "args", "env", "disabled"}


@pytest.mark.parametrize("client", ["cursor", "codex"])
def test_install_repeated_keeps_added_variables(cli: CliRunner, home: Path, client: ClientName) -> None:
    assert cli.run("install", client, KIT, "--yes", "--env", "MINE=1").code == 0
    file, below = home / FILES[client], MCP_CLIENTS[client].servers_key
    text = file.read_text()
    added = text.replace('"MINE": "1"', '"MINE": "1", "TOKEN": "t"').replace('MINE = "1"', 'MINE = "1", TOKEN = "t"')
    assert added != text
    file.write_text(added)
    assert cli.run("install", client, KIT, "--yes", "--env", "MINE=2").code == 0
    assert entry_in(file, below, "kit")["env"] == {"MINE": "2", "TOKEN": "t"}
    assert cli.run("install", client, "http://127.0.0.1:8000", "--name", "kit", "--yes").code == 0
    assert "env" not in entry_in(file, below, "kit"), "a server that runs gets none from its client"


@pytest.mark.parametrize("client", ["cursor", "codex", "goose"])
def test_install_over_an_entry_of_another_project_names_it(cli: CliRunner, home: Path, client: ClientName) -> None:
    for project in ("a", "b"):
        (cli.folder / project).mkdir()
        (cli.folder / project / "tools.py").write_text(Path(KIT).read_text())
    first = cli.run("install", client, "a/tools.py", "--yes")
    assert "replaces" not in first.err
    again = cli.run("install", client, "a/tools.py", "--yes", "--env", "A=1")
    assert "replaces" not in again.err
    with cli.terminal("install", client, "b/tools.py") as terminal:
        shown = terminal.expect("[y/N] ")
        terminal.type("n")
        terminal.end()
    assert f"replaces the entry 'tools', which started {cli.folder}/a/tools.py" in shown
    replaced = cli.run("install", client, "http://127.0.0.1:8000", "--name", "tools", "--yes", "--json").json()
    assert replaced["replaced"] == f"started {cli.folder}/a/tools.py"
    again = cli.run("install", client, "b/tools.py", "--yes")
    assert "which connected to http://127.0.0.1:8000/mcp" in again.err


def test_install_repeated_overwrites_no_backup(cli: CliRunner, home: Path) -> None:
    file = home / FILES["cursor"]
    file.parent.mkdir(parents=True)
    texts = [file.write_text('{"mine": 1}\n') and file.read_text()]
    for name in ("x", "y"):
        assert cli.run("install", "cursor", KIT, "--name", name, "--yes").code == 0
        texts.append(file.read_text())
    backups = [file.with_name(f"{file.name}.toolhall.bak{ending}") for ending in ("", ".2")]
    assert [each.read_text() for each in backups] == texts[:2]
    assert cli.run("install", "cursor", "--remove", "--name", "y", "--yes").code == 0
    assert cli.run("install", "cursor", KIT, "--name", "y", "--yes", "--json").json()["backup"] == str(backups[1])


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("zed", '// mine\n{\n  "theme": "x"\n}\n'),
        ("zed", '{"theme": "x"}'),
        ("zed", '{"theme": "x", "context_servers": {}}'),
        ("goose", "GOOSE_MODEL: x"),
        ("goose", "extensions: {}\n"),
        ("codex", 'model = "x"\n'),
    ],
)
def test_install_remove_restores_the_file(cli: CliRunner, home: Path, client: ClientName, text: str) -> None:
    file = home / FILES[client]
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert cli.run("install", client, KIT, "--yes").code == 0
    assert cli.run("install", client, KIT, "--remove", "--yes").code == 0
    had_servers = MCP_CLIENTS[client].servers_key in text
    assert "".join(file.read_text().split()) == "".join(text.split()) if had_servers else file.read_text() == text


def test_install_remove_of_a_file_it_made_leaves_it_empty(cli: CliRunner, home: Path) -> None:
    for client, left in (("cursor", "{\n}\n"), ("goose", "")):
        assert cli.run("install", client, KIT, "--yes").code == 0
        assert cli.run("install", client, KIT, "--remove", "--yes").code == 0
        assert (home / FILES[client]).read_text() == left


def test_install_of_a_target_that_cannot_be_served_refuses(cli: CliRunner, home: Path) -> None:
    files = {
        "openapi.json": '{"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {}}',
        "plain.py": "x = 1\n",
        "broken.py": "import not_there_at_all\n",
        "needs.py": f"import os\nos.environ['NEEDED']\n{Path(KIT).read_text()}",
        "empty.json": "[]",
    }
    for name, text in files.items():
        (cli.folder / name).write_text(text)
    for target, said in (
        ("openapi.json", "describes an HTTP API in OpenAPI"),
        ("plain.py", "defines no tools"),
        ("broken.py", "cannot be imported"),
        ("needs.py", "KeyError"),
        ("empty.json", "defines no tools"),
        ("nowhere.at.all", "there is no module"),
        ("http:/foo", "is not a URL"),
        ("ftp://foo", "is not a URL"),
        ("missing.ndjson", "there is no file"),
    ):
        refused = cli.run("install", "cursor", target, "--yes")
        assert refused.code in (1, 2), refused
        assert said in refused.err, refused
    assert cli.run("install", "cursor", "plain.py", "--print").code == 1
    assert not (home / ".cursor").exists()
    assert cli.run("install", "cursor", "needs.py", "--yes", "--env", "NEEDED=1").code == 0
    misspelt = cli.run_process("serve", "http:/foo")
    assert (misspelt.code, "is not a URL" in misspelt.err) == (2, True)


def test_install_into_a_file_that_cannot_be_parsed_leaves_it_alone(cli: CliRunner, home: Path) -> None:
    for client, text in (("cursor", '{"mcpServers": {'), ("codex", "x = "), ("goose", "- a\n"), ("zed", "\xff")):
        file = home / FILES[client]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("latin-1"))
        refused = cli.run("install", client, KIT, "--yes")
        assert (refused.code, "is left as it is" in refused.err) == (1, True), refused
        assert file.read_bytes() == text.encode("latin-1")


def test_install_into_a_project_writes_the_project_file(cli: CliRunner, home: Path) -> None:
    assert cli.run("install", "claude-code", KIT, "--project", "--yes").code == 0
    assert entry_in(cli.folder / ".mcp.json", "mcpServers", "kit")["type"] == "stdio"
    assert not (home / ".claude.json").exists()


def test_install_with_secrets_in_the_environment_does_not_write_them(cli: CliRunner, home: Path) -> None:
    cli.environment |= {"TOOLHALL_KEY": "th_secret", "TOOLHALL_NAME": "mine", "TOOLHALL_VAULT_KEY": "v_secret"}
    named = cli.run("install", "cursor", KIT, "--print", "--env", "TOOLHALL_KEY", "--env", "TOOLHALL_OXP_SECRET=x")
    assert "TOOLHALL_VAULT_KEY is set here and not written" in named.err
    assert "TOOLHALL_KEY" not in named.err, "who names a secret with --env has it written"
    assert "TOOLHALL_OXP_SECRET" not in named.err
    done = cli.run("install", "cursor", KIT, "--yes")
    assert "TOOLHALL_KEY, TOOLHALL_VAULT_KEY is set here and not written" in done.err
    assert entry_in(home / FILES["cursor"], "mcpServers", "mine")["env"] == {"TOOLHALL_NAME": "mine"}


@pytest.mark.parametrize(
    ("client", "system", "place"),
    [
        ("claude-desktop", "darwin", "/h/Library/Application Support/Claude/claude_desktop_config.json"),
        ("claude-desktop", "win32", "/roam/Claude/claude_desktop_config.json"),
        ("claude-code", "win32", "/h/.claude.json"),
        ("vscode", "darwin", "/h/Library/Application Support/Code/User/mcp.json"),
        ("vscode", "win32", "/roam/Code/User/mcp.json"),
        ("vscode", "linux", "/xdg/Code/User/mcp.json"),
        ("zed", "darwin", "/h/.config/zed/settings.json"),
        ("zed", "win32", "/roam/Zed/settings.json"),
        ("zed", "linux", "/xdg/zed/settings.json"),
        ("goose", "darwin", "/h/.config/goose/config.yaml"),
        ("goose", "win32", "/roam/Block/goose/config/config.yaml"),
        ("codex", "linux", "/codex/config.toml"),
        ("windsurf", "win32", "/h/.codeium/windsurf/mcp_config.json"),
    ],
)
def test_install_file_of_each_system_is_known(client: ClientName, system: System, place: str) -> None:
    environment: Mapping[str, str] = {"XDG_CONFIG_HOME": "/xdg", "APPDATA": "/roam", "CODEX_HOME": "/codex"}
    assert PurePosixPath(MCP_CLIENTS[client].user_file(system, Path("/h"), environment)) == PurePosixPath(place)


def test_install_target_is_written_as_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    (tmp_path / "pack").mkdir()
    for file in ("one.py", "pack/__init__.py", "pack/two.py", "toolhall.toml"):
        (tmp_path / file).write_text("")
    here = str(tmp_path)
    for target, absolute in (
        ("one.py", f"{here}/one.py"),
        ("./one.py:thing", f"{here}/one.py:thing"),
        ("one:thing", f"{here}/one.py:thing"),
        ("pack.two", f"{here}/pack/two.py"),
        ("pack", f"{here}/pack"),
        ("pack:thing", f"{here}/pack/__init__.py:thing"),
        (".", here),
        ("toolhall.examples", "toolhall.examples"),
    ):
        assert absolute_target(target) == absolute
    assert [default_name([each]) for each in ("one.py:x", "pack.two", "a b.py", "pack/")] == [
        "one",
        "two",
        "a-b",
        "pack",
    ]
    names = [default_name([each]) for each in ("x/defs.json", "defs.ndjson", "my.tools.py", "_own.py", "pack:thing")]
    assert names == ["defs", "defs", "my-tools", "own", "pack"]
    assert default_name([]) == "toolhall"
    assert default_name(["one.py"], "My tools!") == "My-tools", "the setting `name`"
    named = stdio_server(["one.py"], None, None, {"TOOLHALL_DATA": "d", "TOOLHALL_OXP_SECRET_FILE": "x"})
    assert named.args[-4:] == ["--data", f"{here}/d", "--config", f"{here}/toolhall.toml"]
    assert named.env == {}
    unnamed = stdio_server([], None, None, {})
    assert unnamed.args[unnamed.args.index("--data") + 1].startswith(f"{here}/xdg/toolhall/projects/")


def wheel(folder: Path, name: str, metadata: Sequence[str], files: Mapping[str, str]) -> Path:
    """A package that uv can install without building anything."""
    info = f"{name}-7.7.dist-info"
    made = folder / f"{name}-7.7-py3-none-any.whl"
    contents = {
        **files,
        f"{info}/METADATA": "\n".join(["Metadata-Version: 2.1", f"Name: {name}", "Version: 7.7", *metadata, ""]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = toolhall.cli:main\n",
    }
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"]))
    return made


@pytest.mark.parametrize("source", ["file", "index"])
def test_install_through_uvx_keeps_extras_version_and_packages(cli: CliRunner, home: Path, source: str) -> None:
    """The real uvx installs a package `toolhall` whose code is the tree under test."""
    wheels = cli.folder / "wheels"
    wheels.mkdir()
    here = "\n".join([str(Path(toolhall.__file__).parents[1]), sysconfig.get_path("purelib")])
    extras = ["pydantic", "otel"]
    stated = [f"Provides-Extra: {each}\nRequires-Dist: {each}-part ; extra == '{each}'" for each in extras]
    built = wheel(wheels, "toolhall", ["Requires-Dist: base[fast]>=1", *stated], {"code.pth": here})
    wheel(wheels, "base", ["Provides-Extra: fast", 'Requires-Dist: faster; extra == "fast"'], {})
    wheel(wheels, "faster", [], {})
    wheel(wheels, "added", ["Requires-Dist: below-added"], {"added.py": ""})
    wheel(wheels, "below_added", [], {})
    wheel(wheels, "pydantic_part", [], {"only_in_the_extra.py": ""})
    (cli.folder / "orders.py").write_text(f"import added, only_in_the_extra\n{Path(KIT).read_text()}")
    cli.environment |= {
        "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_CACHE_DIR": str(cli.folder / "cache"),
        "UV_PYTHON": sys.executable,
        "UV_NO_CONFIG": "1",
        "PATH": "/usr/bin:/bin",
    }
    wanted = f"toolhall[pydantic] @ {built.as_uri()}" if source == "file" else "toolhall[pydantic]"
    done = subprocess.run(
        [UV.with_name("uvx"), "--from", wanted, "--with", "added", "toolhall", "install", "cursor", "orders.py", "-y"],
        cwd=cli.folder,
        env=cli.environment,
        capture_output=True,
        text=True,
        timeout=patience(),
        check=False,
    )
    assert done.returncode == 0, done
    entry = entry_in(home / FILES["cursor"], "mcpServers", "orders")
    assert Path(entry["command"]) == UV.with_name("uvx")
    exact = wanted if source == "file" else "toolhall[pydantic]==7.7"
    assert entry["args"][:5] == ["--from", exact, "--with", "added==7.7", "toolhall"]
    with subprocess.Popen(
        [entry["command"], *entry["args"]],
        cwd="/",
        env=cli.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        answer: Any = ask(process, INITIALIZE)
        assert "result" in answer, "the written server starts"
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(patience()) == 0


def test_install_program_is_written_as_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "toolhall"
    script.write_text("")
    script.chmod(0o755)
    monkeypatch.setattr("sys.argv", [str(script)])
    assert launch_command() == [str(script)]
    monkeypatch.setattr("sys.prefix", "/cache/uv/archive-v0/abc")
    uv = tmp_path / "uv"
    uv.write_text("")
    monkeypatch.setenv("UV", str(uv))
    monkeypatch.setattr(launch, "uvx_arguments", list[str])
    assert launch_command()[:3] == [str(uv), "tool", "run"], "there is no uvx beside it"
    (tmp_path / "uvx").write_text("")
    assert launch_command()[0] == str(tmp_path / "uvx")


def test_serve_at_terminal_shows_the_entry_for_stdio_clients(cli: CliRunner) -> None:
    with cli.terminal("serve", KIT, "--port", "0") as terminal:
        shown = terminal.expect("Ctrl+C stops the server.")
    _, _, after = shown.replace("\r", "").partition("takes this instead")
    entry = json.loads(after[after.index("{") : after.rindex("}") + 1])["mcpServers"]["kit"]
    assert entry["args"][-4:] == [KIT, "--stdio", "--data", str(cli.data)]
