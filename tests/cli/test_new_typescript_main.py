"""What the program of a new TypeScript project says: how its tools are, or in one line why it cannot join."""

import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from tests.typescript import project

GREET = "MyTools.greet@0.1.0"
MAIN = ["node", "main.js"]


@pytest.fixture
def built(cli: CliRunner) -> Path:
    assert cli.run("new", "my_tools", "--lang", "typescript").code == 0
    made = cli.folder / "my_tools" / "src"
    return project(cli.folder / "built", made / "main.ts", made / "my-tools.ts")


def complaint(built: Path, cli: CliRunner, url: str, key: str = "") -> str:
    """The one line that it ends with."""
    environment = {**cli.environment, "HALL_URL": url, "TOOLHALL_KEY": key}
    done = subprocess.run(
        MAIN, cwd=built, env=environment, capture_output=True, text=True, timeout=patience(), check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    return done.stderr


@contextmanager
def joined(built: Path, cli: CliRunner, url: str, key: str) -> Generator["subprocess.Popen[bytes]", None, None]:
    environment = {**cli.environment, "HALL_URL": url, "TOOLHALL_KEY": key}
    out, err = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(MAIN, cwd=built, env=environment, stdout=out, stderr=err, bufsize=0) as server:
        try:
            yield server
            server.send_signal(signal.SIGTERM)
            assert server.wait(patience()) == 0
        finally:
            server.kill()


def test_typescript_server_that_may_not_join_prints_one_line(built: Path, cli: CliRunner) -> None:
    admin, caller, server = (
        cli.run("key", "create", name, "--scopes", scopes).out.strip()
        for name, scopes in (("boss", "admin"), ("ci", "tools:*"), ("tools", "serve:MyTools"))
    )
    cli.environment["TOOLHALL_EGRESS_ALLOW"] = "127.0.0.1"
    with cli.serve(KIT, "--profile", "server") as hall:
        assert "--scopes serve:MyTools" in complaint(built, cli, hall.url)
        assert "serve:MyTools" in complaint(built, cli, hall.url, caller)
        assert "is it a hall?" in complaint(built, cli, f"{hall.url}/mcp", server)
        assert "write it like" in complaint(built, cli, hall.url.removeprefix("http://"), server)
        assert "hunter2" not in complaint(built, cli, hall.url.replace("//", "//ada:hunter2@"), server)
        with joined(built, cli, hall.url, server) as process:
            assert read_line(process) == f"joined {hall.url}\n"
            next_step = f"toolhall tool activate {GREET} --url {hall.url}"
            assert read_line(process) == f"{GREET} is quarantined: '{next_step}' serves it\n"
            cli.environment["TOOLHALL_KEY"] = admin
            assert cli.run(*next_step.split()[1:], "--yes").code == 0
            assert read_line(process) == f"{GREET} is active in the hall now\n"


def test_typescript_server_joining_a_hall_with_workers_says_so(built: Path, cli: CliRunner) -> None:
    key = cli.run("key", "create", "tools", "--scopes", "serve:MyTools").out.strip()
    with cli.serve(KIT, "--profile", "server", "--workers", "2") as hall:
        assert "--workers 1" in complaint(built, cli, hall.url, key)
