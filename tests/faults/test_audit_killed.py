"""A process that writes the audit is killed, hundreds of times: nothing it was promised is lost, and it verifies."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.recorded import recorded
from tests.unit.stores.audit.made import verified

ROOT = Path(__file__).parents[2]


def killed(how: str, data: Path, rounds: int, seed: int) -> list[str]:
    """What the killed processes had said."""
    program = [sys.executable, "-m", "tests.faults.auditing", how, str(data), str(rounds), str(seed)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=50, check=True, cwd=ROOT)
    return done.stdout.split()


@pytest.mark.parametrize("seed", [1, 2])
def test_no_record_that_was_promised_is_lost(tmp_path: Path, seed: int) -> None:
    promised = killed("commit", tmp_path, 100, seed)
    assert len(promised) > 100
    report = verified(tmp_path / "audit")
    assert report.good, report
    assert report.logs == 1, "each process went on with the log of the one before"
    found = [record["call"] for record in recorded(tmp_path)]
    assert len(set(found)) == len(found)
    assert set(promised) <= set(found)
    for call in promised:  # and everything in front of it
        assert call.replace("call", "aside") in found
