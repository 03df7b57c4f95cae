"""A server that is killed in the middle of its work serves again when it is started, and has lost nothing but time."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness.http_client import Connection, healthy
from tests.harness.mcp_messages import MODERN, REVISIONS, encoded, tool_call
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess, environment, eventually, toolhall
from tests.harness.sync_mcp_client import SyncHttpMcpClient, call_tool, tool_value
from tests.recorded import recorded
from tests.threats.served import TOOLS, serving
from tests.unit.stores.audit.audit_logs import verified_with_store, write_records
from toolhall.stores.audit.hash_chain import segments_of

COSTLY: tuple[str, dict[str, Any]] = ("wide", {"items": ["xxxxx"] * 500})
RED = {"colour": {"action": "accept", "content": {"colour": "red"}}}


def records(folder: Path) -> list[Any]:
    """Every record in the audit, which nobody has changed."""
    assert verified_with_store(folder / "data").good
    return recorded(folder / "data")


def killed_at_work(folder: Path) -> tuple[list[Any], int]:
    """A server is killed while calls run in every revision; its records, and its port."""
    with serving(folder) as server:
        lines = [SyncHttpMcpClient(server.port, revision) for revision in REVISIONS]
        busy = [Connection(server.port) for _ in range(12)]
        for count, connection in enumerate(busy):
            line = lines[count % 3]
            connection.send(line.request(encoded(tool_call(line.revision, "sleeps", {"seconds": 5.0}))))
        for count in range(60):
            assert tool_value(call_tool(lines[count % 3], "number", value=count)) == count
        assert eventually(lambda: len(recorded(folder / "data")) > 30)
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        for connection in busy:
            connection.close()
    return records(folder), server.port


def test_server_killed_serves_again_on_the_same_port_and_data(tmp_path: Path) -> None:
    """On the same port and the same data, at once; what was recorded before is there, and new calls follow it."""
    before, port = killed_at_work(tmp_path)
    assert len(before) > 30
    with serving(tmp_path, port=port) as server:
        assert server.port == port
        assert healthy(port)
        for revision in REVISIONS:
            assert tool_value(call_tool(SyncHttpMcpClient(port, revision), "number", value=7)) == 7
        assert eventually(lambda: len(recorded(tmp_path / "data")) >= len(before) + 3)
        assert server.stop() == 0
    after = records(tmp_path)
    assert after[: len(before)] == before
    assert len({record["call"] for record in after}) == len(after), "an id was given twice"


def test_audit_record_cut_off_by_a_crash_is_set_aside_and_new_ones_follow(tmp_path: Path) -> None:
    """A record that was cut off by a crash is set aside, and new ones follow on the last whole one."""
    write_records(tmp_path / "data" / "audit", 3)
    (segment,) = segments_of(tmp_path / "data" / "audit" / "1")
    with segment.open("ab") as file:
        file.write(b'{"sha256":"00')
    with serving(tmp_path) as server:
        assert tool_value(call_tool(SyncHttpMcpClient(server.port, MODERN), "number", value=7)) == 7
        assert server.stop() == 0
    assert [record["outcome"] for record in records(tmp_path)] == ["ok"] * 4
    (torn,) = segment.parent.glob("*.torn")
    assert torn.read_bytes() == b'{"sha256":"00'


def test_elicitation_is_answered_after_a_kill_and_restart_of_the_server(tmp_path: Path) -> None:
    """MCP 2026-07-28: a person may answer after the server was killed and started again."""
    with serving(tmp_path) as server:
        asked = call_tool(SyncHttpMcpClient(server.port, MODERN), "paint", wall="north").result
        server.stop(signal.SIGKILL)
    with serving(tmp_path) as server:
        replied = tool_call(MODERN, "paint", {"wall": "north"}, requestState=asked["requestState"], inputResponses=RED)
        assert SyncHttpMcpClient(server.port, MODERN).ask(encoded(replied)).text == "north is red"


@pytest.mark.parametrize("left", [b"", b"x" * 33], ids=["nothing", "too_much"])
def test_state_key_file_of_a_wrong_size_is_replaced_or_refused(tmp_path: Path, left: bytes) -> None:
    """A key file that a crash or a full disk left unfinished is replaced, or refused in one line; never used."""
    (tmp_path / "data").mkdir()
    key = tmp_path / "data" / "state.key"
    key.write_bytes(left)
    process = subprocess.Popen(
        toolhall("serve", str(TOOLS), "--port", "0", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path, {}),
    )
    assert process.stdout is not None
    started = process.stdout.readline()
    process.terminate()
    _, said = process.communicate(timeout=patience())
    if started:
        assert len(key.read_bytes()) == 32
        assert key.stat().st_mode & 0o777 == 0o600
    else:
        assert process.returncode == 1
        assert b"state.key" in said
        assert said.count(b"\n") == 1


def worker_of(server: ServerProcess) -> int:
    """The process that checks costly arguments, started by a call that needs it."""
    line = SyncHttpMcpClient(server.port, MODERN)
    # On a loaded machine a check may be late, and is then refused together with its worker.
    assert eventually(lambda: not call_tool(line, COSTLY[0], **COSTLY[1]).is_error and workers(server) != [])
    return workers(server)[0]


def workers(server: ServerProcess) -> list[int]:
    """The processes that the server started for its own work."""
    return [pid for pid in server.children if "resource_tracker" not in " ".join(psutil.Process(pid).cmdline())]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_server_stopped_or_killed_leaves_no_child_processes(tmp_path: Path, how: signal.Signals) -> None:
    """What the server started ends with it, however it ends."""
    with serving(tmp_path) as server:
        worker_of(server)
        children = server.children
        server.stop(how)
    assert eventually(lambda: not any(psutil.pid_exists(child) for child in children)), children


def test_validation_worker_killed_is_replaced(tmp_path: Path) -> None:
    """The process that checks costly arguments may die at any time; the next call that needs one gets one."""
    with serving(tmp_path) as server:
        line = SyncHttpMcpClient(server.port, MODERN)
        for _ in range(2):
            worker = worker_of(server)
            os.kill(worker, signal.SIGKILL)
            assert eventually(lambda gone=worker: not psutil.pid_exists(gone))
            call_tool(line, COSTLY[0], **COSTLY[1])  # may be the one that finds it dead
        assert healthy(server.port)


def test_stdio_server_exits_when_its_client_is_killed(tmp_path: Path) -> None:
    """A server over stdio whose client was killed ends by itself."""
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdin.write(b'{}\\n'); child.stdin.flush(); child.stdout.readline()\n"
        "print(child.pid, flush=True); time.sleep(60)\n"
    )
    client = subprocess.Popen(
        [sys.executable, "-c", script, *toolhall("serve", str(TOOLS), "--stdio")],
        stdout=subprocess.PIPE,
        env=environment(tmp_path, {}),
        cwd=tmp_path,
    )
    assert client.stdout is not None
    server = int(client.stdout.readline())
    client.kill()
    client.communicate()
    assert eventually(lambda: not psutil.pid_exists(server) or psutil.Process(server).status() == psutil.STATUS_ZOMBIE)
