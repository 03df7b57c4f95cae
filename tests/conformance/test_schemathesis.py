"""The REST interface as schemathesis sees it: it accepts the description, and nothing it makes up breaks the server."""

import subprocess
from pathlib import Path

import pytest

from tests.conformance.serving import served
from tests.harness.patience import patience
from tests.harness.server_process import ROOT

SCHEMATHESIS = str(ROOT / ".venv-clients/bin/schemathesis")
# A tool that is there, because it would hardly guess an id.
SETTINGS = """
[parameters]
"path.id" = "Doorbell.Ring"
"""


def test_rest_api_schemathesis_run_finds_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHALL_DATA", str(tmp_path / "data"))  # it registers and removes tools, too
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    with served() as server:
        command = [SCHEMATHESIS, "run", f"{server.origin}/openapi.json", "--max-examples", "25", "--seed", "1"]
        done = subprocess.run(
            [*command, "--workers", "1", "--no-color"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=3 * patience(),
            check=False,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "51/51" in done.stdout, "every operation was tried"
