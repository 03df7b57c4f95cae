"""The REST interface as schemathesis sees it: it accepts the description, and nothing it makes up breaks the server."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.conformance.serving import served
from tests.harness.patience import patience
from tests.harness.seeds import count
from tests.harness.server_process import ROOT

SCHEMATHESIS = str(ROOT / ".venv-clients/bin/schemathesis")
# A tool that is there, because it would hardly guess an id.
SETTINGS = """
[parameters]
"path.id" = "Doorbell.Ring"

# Each prompt, and each question of a task, has a schema of its own, which the description of all cannot state.
[[operations]]
include-path-regex = "^/(prompts|tasks)/"
checks.positive_data_acceptance.enabled = false

# Some settings go with others only; and a number in a credential of a browser may be too long, as in every request.
[[operations]]
include-path-regex = "^/api/(upstreams|approvals)"
checks.positive_data_acceptance.enabled = false

# The made-up upstreams cannot be reached, which is 503.
[[operations]]
include-path-regex = "^/api/upstreams/.*/(sync|check)"
checks.not_a_server_error.enabled = false

# One route holds a task and its input: what the one does not take is not found, and `Allow` names the methods of both.
[[operations]]
include-path-regex = "^/tasks/"
checks.unsupported_method.enabled = false
checks.allow_header_conformance.enabled = false
"""


def test_rest_api_schemathesis_run_finds_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHALL_DATA", str(tmp_path / "data"))  # it registers and removes tools, too
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    with served() as server:
        command = [SCHEMATHESIS, "run", f"{server.origin}/openapi.json", "--seed", "1"]
        command += ["--max-examples", f"{count(10, 25)}"]
        command += ["--exclude-path", "/api/events"]  # it never ends
        command += ["--exclude-path", "/"]  # it takes forms of people, too, which are no operation
        done = subprocess.run(
            [*command, "--workers", "1", "--no-color"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=3 * patience(),
            check=False,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    counted = re.search(r"Selected: (\d+)/(\d+)\s+Tested: (\d+)", done.stdout)
    assert counted, done.stdout[-2000:]
    selected, described, tested = map(int, counted.groups())
    assert selected == tested == described - 2, "every operation was tried, but for these two"
