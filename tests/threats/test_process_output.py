# ruff: noqa: N802 - tests carry the names of their rows
"""K8: no secret in use comes into the output of a server, whoever in its process or below it writes there."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.harness.cli import CliRunner
from tests.harness.mcp_messages import MODERN, encoded, tool_call
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess, environment, eventually, toolhall
from tests.harness.sync_mcp_client import SyncHttpMcpClient
from tests.threats.noisy_tools import NAME, WAYS
from tests.threats.served import serving
from tests.threats.test_secrets import set_secret

TOOLS = Path(__file__).with_name("noisy_tools.py")
SECRET = "sk+Canary/ctT2NLLzPkkGoa"


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TOOLS.parents[2]))
        with serving(tmp_path_factory.mktemp("noisy"), TOOLS) as served:
            set_secret(served.port, NAME, SECRET)
            yield served


@pytest.mark.threat("K8")
@pytest.mark.parametrize("way", WAYS)
def test_K8_secret_written_by_a_tool_to_the_server_output_by_any_way_is_redacted(
    noisy: ServerProcess, way: str
) -> None:
    """Prints, warnings, threads, tasks, finalizers, children and bare descriptors: all redacted, nothing lost."""
    said = SyncHttpMcpClient(noisy.port, MODERN).ask(encoded(tool_call(MODERN, "writes", {"way": way})))
    assert said.message["result"]["content"][0]["text"] == way
    for words in WAYS[way][1]:
        assert eventually(lambda words=words: f"{words} [redacted]" in noisy.log, patience()), noisy.log
    assert SECRET not in noisy.log
    assert SECRET[10:] not in noisy.log


@pytest.mark.threat("K8")
def test_K8_output_printed_just_before_the_process_exits_is_redacted_and_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Python printed is out before the next statement runs, even if that ends the process; stdout stays ours."""
    monkeypatch.setenv("PYTHONPATH", str(TOOLS.parents[2]))
    with serving(tmp_path, TOOLS) as served:
        set_secret(served.port, NAME, SECRET)
        with contextlib.suppress(OSError, HTTPException):
            SyncHttpMcpClient(served.port, MODERN).ask(encoded(tool_call(MODERN, "dies", {})))
        assert served.process.wait(patience()) == 3
        assert "last words [redacted]\n" in served.log
        assert served.process.stdout is not None
        assert served.process.stdout.read() == b"", "with --json there is one line, and nothing else"


@pytest.mark.threat("K8")
def test_K8_stdio_output_holds_only_protocol_messages_and_tool_prints_go_redacted_to_stderr(tmp_path: Path) -> None:
    """Whatever a tool writes goes to the error output, redacted; also what is written just before the end."""
    around = environment(tmp_path, {}) | {"PYTHONPATH": str(TOOLS.parents[2])}
    assert CliRunner(tmp_path).run("secret", "set", NAME, text=SECRET).code == 0
    calls = [tool_call(MODERN, "writes", {"way": way}) | {"id": way} for way in WAYS if way != "in task"]
    done = subprocess.run(
        toolhall("serve", str(TOOLS), "--stdio"),
        input=b"".join(encoded(each) + b"\n" for each in calls),
        env=around,
        capture_output=True,
        check=True,
        timeout=patience(),
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert {each["id"] for each in answers} == {each["id"] for each in calls}
    assert SECRET.encode() not in done.stdout + done.stderr
    for each in calls:
        for words in WAYS[each["id"]][1]:
            assert f"{words} [redacted]".encode() in done.stderr, words


SHOWS = f"""
import subprocess, sys
from toolhall import Context, tool

@tool(secrets=["{NAME}"])
def shows(ctx: Context) -> str:
    print("python", sys.stderr.isatty(), ctx.secret("{NAME}"))
    subprocess.run([sys.executable, "-c", "import sys; print('child', sys.stderr.isatty(), file=sys.stderr)"])
    return "shown"
"""


@pytest.mark.threat("K8")
def test_K8_terminal_output_of_python_is_redacted_and_children_keep_the_terminal(tmp_path: Path) -> None:
    """Children keep the terminal, with its colours and its width; what they write themselves is not redacted there."""
    cli = CliRunner(tmp_path)
    (tmp_path / "tools.py").write_text(SHOWS)
    assert cli.run("secret", "set", NAME, text=SECRET).code == 0
    with cli.terminal("serve", "tools.py", "--port", "0", "--json", json=True) as terminal:
        assert terminal.process.stdout is not None
        url = json.loads(terminal.process.stdout.readline())["url"]
        assert CliRunner(tmp_path).run("call", "shows", "--url", url, "--yes").code == 0
        shown = terminal.expect("python True [redacted]") + terminal.expect("child True")
        assert SECRET not in shown


HOLDS_THE_LOCK = """
import ctypes
from toolhall.server.redacted_output import redacted_output
with redacted_output():
    written = ctypes.PyDLL(None).write(2, b"y" * 3_000_000, 3_000_000)
print(written)
"""


@pytest.mark.threat("K8")
@pytest.mark.skipif(sys.platform == "win32", reason="its descriptor 2 stays what it is")
def test_K8_native_code_that_writes_while_it_holds_the_gil_does_not_deadlock() -> None:
    """What does not fit into the pipe is lost, and the writer is told how much was taken."""
    done = subprocess.run([sys.executable, "-c", HOLDS_THE_LOCK], capture_output=True, check=True, timeout=patience())
    written = int(done.stdout)
    assert 0 < written <= 3_000_000
    assert done.stderr.count(b"y") == written
