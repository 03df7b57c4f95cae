"""The pages about upstreams: their settings are read, their commands work, and what they list is all that there is."""

import json
import re
import shlex
from pathlib import Path

import msgspec
import pytest

from tests.harness.cli import CliRunner
from toolhall.cli.app import app
from toolhall.config import load_config
from toolhall.dialects.client_files.reader import read_client_file
from toolhall.model.upstream import UpstreamSettings

HOW_TO = Path(__file__).parents[2] / "docs/how-to"
PAGES = {
    name: (HOW_TO / f"{name}.md").read_text()
    for name in ("connect-an-mcp-server", "share-an-mcp-server", "review-a-change", "from-mcpservers-to-a-hall")
}
COMMANDS = [
    (page, command) for page, text in PAGES.items() for command in re.findall(r"^toolhall (.*)$", text, re.MULTILINE)
]
SETTINGS = [(page, text) for page in PAGES for text in re.findall(r"```toml\n(.*?)```", PAGES[page], re.DOTALL)]


@pytest.fixture
def cli(tmp_path: Path) -> CliRunner:
    return CliRunner(tmp_path)


def write_file(folder: Path) -> None:
    servers = {"github": {"url": "https://a.example/mcp"}, "docs": {"command": "uvx", "args": ["docs-mcp==1.0.0"]}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


@pytest.mark.parametrize(("page", "text"), SETTINGS, ids=[f"{page}-{at}" for at, (page, _) in enumerate(SETTINGS)])
def test_settings_on_the_pages_are_read(tmp_path: Path, page: str, text: str) -> None:
    write_file(tmp_path)
    (tmp_path / "toolhall.toml").write_text(text)
    assert load_config(tmp_path / "toolhall.toml", {}).upstreams, page


@pytest.mark.parametrize("command", [command for _, command in COMMANDS if command.startswith("add")])
def test_add_commands_on_the_pages_work(cli: CliRunner, command: str) -> None:
    write_file(cli.folder)
    words = shlex.split(command.replace("${DOCS_KEY}", "hunter2-hunter2"))
    place = words.index("--") if "--" in words else len(words)
    done = cli.run(*words[:place], *(() if "--dry-run" in words else ("--dry-run",)), *words[place:])
    assert done.code == 0, done
    assert "hunter2" not in done.err + done.out
    if "--header" in words:
        assert "DOCS_X_API_KEY" in done.err, "as the page says"


def test_commands_on_the_pages_exist() -> None:
    for page, command in COMMANDS:
        words = command.split()
        assert words[0] in app, page
        if words[0] == "upstream":
            assert words[1] in app["upstream"], page


def test_connecting_page_lists_every_part_of_the_settings() -> None:
    table = PAGES["connect-an-mcp-server"].partition("| part | default | is |")[2].partition("\n\n")[0]
    listed = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}
    fields = {field.encode_name for field in msgspec.structs.fields(UpstreamSettings)}
    assert listed == fields


def test_moving_page_lists_the_spellings_of_variables() -> None:
    spelled = re.findall(
        r"^\| (`.*?) \|", PAGES["from-mcpservers-to-a-hall"].partition("## Variables")[2], re.MULTILINE
    )
    written = [each for row in spelled for each in re.findall(r"`(\$\{[^`]+\})`", row)]
    known = {"VAR": "1", "userHome": "2", "workspaceFolder": "3", "input:id": "4"}
    servers = {f"s{at}": {"command": "a", "env": {"A": text}} for at, text in enumerate(written)}
    found = read_client_file(json.dumps({"mcpServers": servers}), known)
    assert found is not None
    values = [each.settings.env["A"] for each in found.servers if each.settings is not None]
    assert values == ["1", "1", "1", "2", "3", "4", "${secret:NAME}"]
