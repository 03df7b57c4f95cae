"""All tool servers are restarted, one after the other, while everybody calls: nobody notices."""

from pathlib import Path

import pytest

from tests.faults.tool_servers.load import BESIDE
from tests.faults.tool_servers.oracle import assert_undisturbed, failed
from tests.faults.tool_servers.processes import HERE, KITS, site
from tests.faults.tool_servers.replicas_under_load import SLOTS, load_test
from tests.typescript import project


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tool server in TypeScript, ready to run."""
    return project(tmp_path_factory.mktemp("typescript") / "ledger", HERE / "ledger.ts") / "ledger.js"


async def test_tool_servers_rolling_restart_fails_no_call(tmp_path: Path, script: Path) -> None:
    """Each leaves in order, and the next does so once another has taken its place."""
    async with site(tmp_path, script) as hall, load_test(hall) as running:
        for slot in SLOTS:
            assert await hall.stopped(running.replicas[slot]) == [0]
            await running.start(slot)
        await running.healed()
    assert not failed(running.load.answers)
    for toolkit in (BESIDE, *KITS):
        assert_undisturbed(running.load.answers, toolkit, running.machine.late)
