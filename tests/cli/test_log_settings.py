"""The settings of the log: its level, its form, and a line for every request."""

import json
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from toolhall.config import BadConfig, load_config


def logged(cli: CliRunner, settings: str, *requests: Request) -> str:
    """What a server with these settings logs while it answers these requests."""
    (cli.folder / "toolhall.toml").write_text(settings)
    with cli.start("serve", KIT, "--port", "0", "--json") as process:
        url = json.loads(read_line(process))["url"].rstrip("/")
        for request in requests:
            request.full_url = url + request.selector
            try:
                urlopen(request, timeout=patience()).close()
            except HTTPError as refused:
                refused.close()
        process.terminate()
        _, log = process.communicate(timeout=patience())
    return log.decode()


def test_access_log_when_enabled_logs_requests_without_query(cli: CliRunner) -> None:
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
    log = logged(
        cli,
        'log_format = "json"\naccess_log = true\n',
        Request("http://hall/tools?query=secret-word"),
        Request("http://hall/nothing/here"),
        Request("http://hall/mcp", ping, {"Content-Type": "application/json"}),
    )
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    said = [line["message"].rsplit(" ", 2)[0] for line in lines if line["logger"] == "toolhall.access"]
    assert said == ["127.0.0.1 GET /tools 200", "127.0.0.1 GET /nothing/here 404", "127.0.0.1 POST /mcp 400"]
    assert "secret-word" not in log


def test_log_format_in_the_settings_is_used(cli: CliRunner) -> None:
    log = logged(cli, 'log_format = "text"\naccess_log = true\n', Request("http://hall/health/live"))
    (line,) = [line for line in log.splitlines() if "toolhall.access" in line]
    assert " INFO toolhall.access: 127.0.0.1 GET /health/live 200 " in line


def test_access_log_by_default_is_off(cli: CliRunner) -> None:
    assert "/health/live" not in logged(cli, 'log_level = "debug"\n', Request("http://hall/health/live"))


@pytest.mark.parametrize("level", ["debug", "DEBUG", "Error"])
def test_log_level_variable_in_any_case_is_read(level: str) -> None:
    assert load_config(environment={"TOOLHALL_LOG_LEVEL": level}).log_level == level.lower()


def test_log_level_that_is_unknown_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "toolhall.toml"
    file.write_text('log_level = "loud"\n')
    with pytest.raises(BadConfig, match=r"'debug' or 'info' or 'warning' or 'error' or 'critical' is wanted"):
        load_config(file, environment={})
