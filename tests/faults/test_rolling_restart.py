"""All tool servers are restarted, one after the other, while everybody calls: nobody notices."""

from pathlib import Path

import pytest

from tests.faults.tool_servers.load import BESIDE
from tests.faults.tool_servers.oracle import failed, undisturbed
from tests.faults.tool_servers.processes import HERE, KITS, site
from tests.faults.tool_servers.trial import SEATS, trial
from tests.typescript import project


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool server in TypeScript, ready to run."""
    return project(tmp_path_factory.mktemp("typescript") / "ledger", HERE / "ledger.ts") / "ledger.js"


async def test_no_call_fails(tmp_path: Path, script: Path) -> None:
    """Each leaves in order, and the next does so once another has taken its place."""
    async with site(tmp_path, script) as hall, trial(hall) as on_trial:
        for seat in SEATS:
            assert await hall.stopped(on_trial.replicas[seat]) == [0]
            await on_trial.start(seat)
        await on_trial.healed()
    assert not failed(on_trial.load.answers)
    for toolkit in (BESIDE, *KITS):
        undisturbed(on_trial.load.answers, toolkit, on_trial.machine.late)
