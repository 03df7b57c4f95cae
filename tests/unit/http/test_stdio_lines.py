"""stdio also works from a file to a file, which no event loop can wait for."""

import json
import subprocess
import sys
from pathlib import Path

from tests.harness.patience import patience

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}


def test_stdio_server_with_files_as_streams_answers(tmp_path: Path) -> None:
    asked, answered = tmp_path / "in", tmp_path / "out"
    asked.write_text(json.dumps(CALL) + "\n")
    with asked.open() as source, answered.open("w") as target:
        words = [sys.executable, "-m", "toolhall.cli", "serve", "--stdio", "--data", str(tmp_path / "data")]
        done = subprocess.run(
            words, stdin=source, stdout=target, stderr=subprocess.PIPE, timeout=patience(), check=False
        )
    assert done.returncode == 0, done.stderr
    assert "2026-07-28" in json.loads(answered.read_text())["result"]["supportedVersions"]
