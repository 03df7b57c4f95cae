"""`toolhall serve` in other ways: standard input and output, reload, several workers."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_serve import PLAIN, names
from tests.harness.cli import KIT, CliRunner
from tests.harness.patience import patience
from tests.harness.processes import read_line

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


def children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def eventually(cli: CliRunner, url: str, wanted: list[str]) -> None:
    """Wait until the server lists exactly these tools."""
    deadline = time.monotonic() + patience()
    while (found := names(cli, "--url", url)) != wanted:
        assert time.monotonic() < deadline, found


def ask(process: "subprocess.Popen[bytes]", message: object) -> dict[str, object]:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()
    answer: dict[str, object] = json.loads(read_line(process))
    return answer


def test_serve_over_stdio_round_trip_prints_nothing_else(cli: CliRunner) -> None:
    with cli.start("serve", KIT, "--stdio") as process:
        assert ask(process, INITIALIZE)["id"] == 1
        call = {"name": "chatter", "arguments": {}}
        answer = ask(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
        while answer.get("id") != 2:
            answer = json.loads(read_line(process))
        assert answer["result"] == {"content": [{"type": "text", "text": "done"}]}
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(patience()) == 0
        assert process.stderr is not None
        assert b"printed while the tool runs" in process.stderr.read()


_MACHINE = {
    "header": {"version": "1.0", "messageId": "m1", "messageType": "request"},
    "payload": {"tool": {"id": "Calculator", "capability": "Add", "parameters": {"a": 1, "b": 2}}},
}
_HUB = {"type": "tool_request", "id": "h1", "tool": "Calculator", "method": "Add", "params": {"a": 1, "b": 2}}


@pytest.mark.parametrize(("dialect", "message"), [("machine", _MACHINE), ("hub", _HUB)], ids=["machine", "hub"])
def test_serve_over_stdio_in_other_dialects_answers(cli: CliRunner, dialect: str, message: dict[str, Any]) -> None:
    done = cli.run_process("serve", "--stdio", "--dialect", dialect, text=json.dumps(message) + "\nnot json\n")
    assert done.code == 0, done
    good, bad = sorted(done.out.splitlines(), key=lambda line: "not valid JSON" in line)
    assert '"result":{"result":3' in good
    assert ("m1" if dialect == "machine" else "h1") in good
    assert "not valid JSON" in bad


def test_serve_over_stdio_on_a_signal_ends_in_order(cli: CliRunner) -> None:
    with cli.start("serve", "--stdio") as process:
        ask(process, INITIALIZE)
        process.send_signal(signal.SIGTERM)
        assert process.wait(patience()) == 0


def test_serve_with_reload_serves_changed_code_on_the_same_port(cli: CliRunner) -> None:
    file = cli.folder / "tools.py"
    file.write_text(PLAIN.format(name="first"))
    with cli.serve("tools.py", "--reload") as server:
        eventually(cli, server.url, ["first"])
        file.write_text("def")
        assert server.process.stderr is not None
        errors = read_until(server.process.stderr.fileno(), b"waiting for a change")
        assert b"tools.py, line 1: SyntaxError" in errors
        file.write_text(PLAIN.format(name="second_one"))
        read_until(server.process.stderr.fileno(), b"serving it again")
        eventually(cli, server.url, ["second_one"])


def read_until(descriptor: int, text: bytes) -> bytes:
    seen, deadline = b"", time.monotonic() + patience()
    while text not in seen:
        assert select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0], seen
        seen += os.read(descriptor, 65_536)
    return seen


def test_serve_with_workers_shares_the_port_and_replaces_a_dead_one(cli: CliRunner) -> None:
    with cli.serve(KIT, "--workers", "2") as server:
        before = children(server.process.pid)
        assert len(before) == 2
        # A question in one process may be answered in the other: the state is sealed with the key that they share.
        for _ in range(4):
            done = cli.run("call", "invite", "--url", server.url, "--json")
            assert done.json()["content"] == [{"type": "text", "text": "decline"}]
        os.kill(min(before), signal.SIGKILL)
        deadline = time.monotonic() + patience()
        while len(now := children(server.process.pid)) < 2 or now == before:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert names(cli, "--url", server.url)
    assert not any(Path(f"/proc/{pid}").exists() for pid in before | now)


def test_serve_with_workers_at_terminal_says_what_sessions_need(cli: CliRunner) -> None:
    with cli.terminal("serve", "--workers", "2", "--port", "0") as terminal:
        assert "need --workers 1" in terminal.expect("Ctrl+C stops the server.")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.end()[0] == 0


def test_serve_with_workers_that_cannot_start_ends_with_the_reason(cli: CliRunner) -> None:
    (cli.folder / "tools.py").write_text("x = 1")
    done = cli.run_process("serve", "tools.py", "--workers", "2", "--port", "0")
    assert (done.code, done.out) == (1, "")
    assert "defines no tools" in done.error_line()


def test_serve_with_workers_after_killing_the_parent_leaves_none(cli: CliRunner) -> None:
    with cli.start("serve", "--workers", "2", "--port", "0", "--json") as process:
        read_line(process)
        orphans = children(process.pid)
        process.kill()
        process.wait(patience())
        deadline = time.monotonic() + patience()
        while any(alive(pid) for pid in orphans):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
