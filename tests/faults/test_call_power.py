"""Power fails while calls run: whatever a tool of level 4 did has its intent in the audit that is left."""

import asyncio
import hashlib
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.faults.power_loss import PowerLossDisk, PowerLost
from tests.harness.seeds import seeds
from tests.recorded import recorded
from tests.unit.stores.audit.audit_logs import open_writer, record, verified
from toolhall import Config, Toolhall, tool
from toolhall.model.caller import LOCAL
from toolhall.model.messages import CallTool
from toolhall.stores.audit import journal
from toolhall.stores.audit.journal import AuditJournal
from toolhall.stores.audit.writer import Retention

SEEDS = seeds(60)
SMALL = Retention(sign_records=5, segment_bytes=3_000)


class NotifyingDisk(PowerLossDisk):
    """Notifies the test when the power is lost, as whoever waits for the disk then waits forever."""

    def __init__(self, chance: Random, notify: Callable[[], object]) -> None:
        super().__init__(chance, chance.randrange(12, 150))
        self._notify = notify

    def _use(self) -> None:
        try:
            super()._use()
        except PowerLost:
            self._notify()
            raise


async def calls_until(hall: Toolhall, power_lost: asyncio.Event) -> None:
    """One call after the other, until the power is gone."""
    gone = asyncio.create_task(power_lost.wait())
    for number in count():
        call = asyncio.create_task(hall.dispatcher.answer(CallTool("touch", {"number": number}, "test", 0), LOCAL))
        await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            return


async def effects_of(data: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What calls did before the power was gone, and on the disk what that leaves."""
    done: list[int] = []

    @tool(level=4, effect="writes")
    async def touch(number: int) -> None:
        done.append(number)

    loop, power_lost = asyncio.get_running_loop(), asyncio.Event()
    disk = NotifyingDisk(Random(seed), partial(loop.call_soon_threadsafe, power_lost.set))

    def losing(folder: Path, _: Retention) -> AuditJournal:
        return AuditJournal(folder, SMALL, disk=disk)

    monkeypatch.setattr(journal, "AuditJournal", losing)
    with Toolhall(touch, config=Config(data=str(data))) as hall:
        await calls_until(hall, power_lost)
    lock = vars(vars(hall.journal)["_writer"])["_lock"]
    if lock is not None:
        lock.release()  # as the system does for a process that is gone
    disk.lose_power()
    return done


@pytest.mark.threat("J3")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the thread that lost its disk
async def test_J3_power_loss_keeps_the_intent_of_every_tool_effect(  # noqa: N802 - the name of its row
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The intent was promised, the tool ran, the power failed in the midst of anything: the intent is there."""
    total = 0
    for seed in SEEDS:
        data = tmp_path / str(seed)
        effects = await effects_of(data, seed, monkeypatch)
        again = open_writer(data / "audit")
        again.write([record(1)], sync=True)
        again.close()
        assert verified(data / "audit").good, seed
        intents = {each["arguments_sha256"] for each in recorded(data) if each.get("phase") == "intent"}
        for number in effects:
            assert hashlib.sha256(b'{"number":%d}' % number).hexdigest() in intents, (seed, number)
        total += len(effects)
    assert total > len(SEEDS)
