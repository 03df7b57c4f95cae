"""A process that writes the audit is killed, hundreds of times: nothing it was promised is lost, and it verifies."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.patience import patience
from tests.harness.seeds import seeds
from tests.recorded import recorded
from tests.unit.stores.audit.audit_logs import verified

ROOT = Path(__file__).parents[2]


def killed(how: str, data: Path, rounds: int, seed: int) -> list[str]:
    """What the killed processes had said."""
    program = [sys.executable, "-m", "tests.faults.audit_process", how, str(data), str(rounds), str(seed)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=patience(), check=True, cwd=ROOT)
    return done.stdout.split()


@pytest.mark.parametrize("seed", seeds(2))
def test_audit_process_killed_keeps_every_promised_record(tmp_path: Path, seed: int) -> None:
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


FULL = """
import asyncio, resource, signal, sys
from pathlib import Path
from toolhall.model.errors import Unavailable
from toolhall.model.call_records import AuditRecord
from toolhall.stores.audit.journal import AuditJournal

def record(number):
    return AuditRecord(1.0, f"call-{number}", "ada", "mcp", "Kit.pick@1.0.0", "ok")

async def main(data):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    journal, number, told = AuditJournal(data), 0, 0
    await journal.commit(record(number))
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_333, resource.RLIM_INFINITY))
    while not told:
        number += 1
        try:
            await journal.commit(record(number))
        except Unavailable:
            told = number
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await journal.commit(record(number + 1))
    journal.close()
    sys.stdout.write(f"{told} {number + 1}")

asyncio.run(main(Path(sys.argv[1])))
"""


def test_audit_file_at_the_size_limit_fails_and_recovers(tmp_path: Path) -> None:
    """Threat R3, with the system's own limit: the record that did not fit is whole once there is room."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=patience(),
        check=True,
        cwd=ROOT,
    )
    told, last = map(int, done.stdout.split())
    assert 0 < told < last
    assert "the audit cannot be written" in done.stderr
    assert verified(tmp_path / "audit").good
    assert [each["call"] for each in recorded(tmp_path)] == [f"call-{number}" for number in range(last + 1)]
