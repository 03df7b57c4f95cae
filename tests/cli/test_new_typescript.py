"""`toolhall new --lang typescript`: the project is installed, tested and started by npm itself."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line
from toolhall.cli.commands import new as module
from toolhall.cli.errors import CommandError

MINUTES = 240.0  # npm may have to fetch the compiler


def npm(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["npm", *words], cwd=folder, capture_output=True, text=True, timeout=MINUTES, check=False)


@pytest.mark.timeout(2 * MINUTES)
def test_new_typescript_project_installs_passes_its_test_and_joins(cli: CliRunner) -> None:
    done = cli.run("new", "my_tools", "--lang", "typescript", "--json").json()
    folder = cli.folder / "my_tools"
    assert done["next"][1] == "npm install && npm test"
    installed = npm(folder, "install", "--prefer-offline", "--no-audit", "--no-fund")
    assert installed.returncode == 0, installed.stderr
    tested = npm(folder, "test")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "pass 1" in tested.stdout
    with cli.serve(KIT) as hall:
        environment = {**cli.environment, "HALL_URL": hall.url}
        words = ["node", "dist/main.js"]  # what `npm start` runs, without npm between us and the signal
        with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, bufsize=0) as server:
            try:
                assert "joined" in read_line(server)
                called = cli.run("call", "MyTools_greet", "name=Ada", "--url", hall.url)
                assert (called.code, json.loads(called.out)) == (0, {"greeting": "Hello, Ada!"}), called
                server.send_signal(signal.SIGTERM)
                assert server.wait(patience()) == 0
            finally:
                server.kill()


def test_new_typescript_project_has_the_expected_files(cli: CliRunner) -> None:
    done = cli.run("new", "my_tools", "--lang", "typescript", "--json").json()
    folder = cli.folder / "my_tools"
    assert done["files"] == [
        ".gitignore",
        "README.md",
        "package.json",
        "src/main.ts",
        "src/my-tools.test.ts",
        "src/my-tools.ts",
        "tsconfig.json",
        "vendor/toolhall-sdk.tgz",
    ]
    assert all((folder / file).is_file() for file in done["files"])
    package = json.loads((folder / "package.json").read_text())
    assert (package["name"], package["dependencies"]["@toolhall/sdk"]) == ("my-tools", "file:vendor/toolhall-sdk.tgz")
    assert 'name: "MyTools"' in (folder / "src/my-tools.ts").read_text()


@pytest.mark.parametrize("name", ["main", "node_modules"])
def test_new_typescript_with_a_name_that_would_not_build_is_refused(cli: CliRunner, name: str) -> None:
    done = cli.run("new", name, "--lang", "typescript")
    assert (done.code, done.out) == (2, "")
    assert f"such as {name}_tools" in done.error_line()
    assert not any(cli.folder.iterdir())


def test_new_typescript_with_a_python_keyword_is_accepted(cli: CliRunner) -> None:
    assert cli.run("new", "json", "--lang", "typescript").code == 0


def test_new_typescript_without_the_sdk_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_SDK", tmp_path / "toolhall-sdk.tgz")
    with pytest.raises(CommandError, match="make sdk"):
        module.new("a", options=module.NewOptions(lang="typescript"))
    assert not (tmp_path / "a").exists()
