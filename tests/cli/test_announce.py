"""What a server says of itself when it starts: an address that can be used, and what goes with it."""

import json
import signal
from typing import Any

import pytest

from tests.harness.cli import KIT, CliRunner
from toolhall import Config
from toolhall.cli.listen import print_banner, print_banner_json

BOUND = "http://127.0.0.1:8760"


def told(capsys: pytest.CaptureFixture[str], url: str = BOUND, **settings: Any) -> tuple[str, Any]:
    """What is printed, and the snippet in it."""
    print_banner(url, Config(data=None, **settings))
    shown = capsys.readouterr().out
    return shown, json.loads(shown[shown.index("{") : shown.rindex("}") + 1])["mcpServers"]["toolhall"]


def test_snippet_for_local_client_needs_the_url_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys)[1] == {"type": "http", "url": f"{BOUND}/mcp"}


def test_snippet_where_credentials_are_needed_has_a_place_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    shown, snippet = told(capsys, profile="server")
    assert snippet["headers"] == {"Authorization": "Bearer ${TOOLHALL_KEY}"}
    assert "toolhall key create" in shown


def test_snippet_with_public_url_uses_the_public_url(capsys: pytest.CaptureFixture[str]) -> None:
    shown, snippet = told(capsys, profile="server", public_url="https://tools.example.com/")
    assert snippet["url"] == "https://tools.example.com/mcp"
    assert BOUND in shown, "where it listens is said too"


@pytest.mark.parametrize(
    ("bound", "said"),
    [("http://0.0.0.0:8760", "http://127.0.0.1:8760"), ("http://[::]:8760", "http://[::1]:8760")],
)
def test_snippet_for_wildcard_address_uses_loopback(capsys: pytest.CaptureFixture[str], bound: str, said: str) -> None:
    shown, snippet = told(capsys, bound, profile="server")
    assert snippet["url"] == f"{said}/mcp"
    assert bound not in shown
    print_banner_json(bound, Config(profile="server"))
    assert json.loads(capsys.readouterr().out)["url"] == said


def test_announcement_when_others_can_connect_names_the_missing_settings(cli: CliRunner) -> None:
    cli.run("key", "create", "ci")
    said = {}
    for words in ((), ("--config", "hosts.toml"), ("--config", "public.toml")):
        (cli.folder / "hosts.toml").write_text('allowed_hosts = ["hall.internal"]\n')
        (cli.folder / "public.toml").write_text('public_url = "https://tools.example.com"\n')
        serve = ["serve", KIT, "--port", "0", "--profile", "server", "--host", "0.0.0.0", *words]
        with cli.terminal(*serve) as terminal:
            said[words[-1:]] = terminal.expect("Ctrl+C stops the server.")
            terminal.process.send_signal(signal.SIGINT)
            terminal.end()
    nothing, hosts, public = said.values()
    assert "public_url is not set" in nothing
    assert "allowed_hosts" in nothing
    assert "public_url is not set" in hosts
    assert "are refused" not in hosts
    assert "is not set" not in public
