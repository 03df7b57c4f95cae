"""What the program of a new TypeScript project says: how its tools are, or in one line why it cannot join."""

import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.shell import KIT, PATIENCE, Shell, read_line
from tests.typescript import project

GREET = "MyTools.greet@0.1.0"
MAIN = ["node", "main.js"]


@pytest.fixture
def built(shell: Shell) -> Path:
    assert shell.run("new", "my_tools", "--lang", "typescript").code == 0
    made = shell.folder / "my_tools" / "src"
    return project(shell.folder / "built", made / "main.ts", made / "my-tools.ts")


def complaint(built: Path, shell: Shell, url: str, key: str = "") -> str:
    """The one line that it ends with."""
    environment = {**shell.environment, "HALL_URL": url, "TOOLHALL_KEY": key}
    done = subprocess.run(
        MAIN, cwd=built, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    return done.stderr


@contextmanager
def joined(built: Path, shell: Shell, url: str, key: str) -> Generator["subprocess.Popen[bytes]", None, None]:
    environment = {**shell.environment, "HALL_URL": url, "TOOLHALL_KEY": key}
    out, err = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(MAIN, cwd=built, env=environment, stdout=out, stderr=err, bufsize=0) as server:
        try:
            yield server
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()


@pytest.mark.timeout(180)  # a compiler, and a dozen processes
def test_who_may_not_join_reads_one_line_and_who_may_how_the_tools_are(built: Path, shell: Shell) -> None:
    admin, caller, server = (
        shell.run("key", "create", name, "--scopes", scopes).out.strip()
        for name, scopes in (("boss", "admin"), ("ci", "tools:*"), ("tools", "serve:MyTools"))
    )
    shell.environment["TOOLHALL_EGRESS_ALLOW"] = "127.0.0.1"
    with shell.serving(KIT, "--profile", "server") as hall:
        assert "--scopes serve:MyTools" in complaint(built, shell, hall.url)
        assert "serve:MyTools" in complaint(built, shell, hall.url, caller)
        assert "is it a hall?" in complaint(built, shell, f"{hall.url}/mcp", server)
        assert "write it like" in complaint(built, shell, hall.url.removeprefix("http://"), server)
        assert "hunter2" not in complaint(built, shell, hall.url.replace("//", "//ada:hunter2@"), server)
        with joined(built, shell, hall.url, server) as process:
            assert read_line(process) == f"joined {hall.url}\n"
            next_step = f"toolhall tool activate {GREET} --url {hall.url}"
            assert read_line(process) == f"{GREET} is quarantined: '{next_step}' serves it\n"
            shell.environment["TOOLHALL_KEY"] = admin
            assert shell.run(*next_step.split()[1:], "--yes").code == 0
            assert read_line(process) == f"{GREET} is active in the hall now\n"


@pytest.mark.timeout(120)
def test_a_hall_with_workers_says_so(built: Path, shell: Shell) -> None:
    key = shell.run("key", "create", "tools", "--scopes", "serve:MyTools").out.strip()
    with shell.serving(KIT, "--profile", "server", "--workers", "2") as hall:
        assert "--workers 1" in complaint(built, shell, hall.url, key)
