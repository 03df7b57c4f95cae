"""Power fails at any moment: no acknowledged record is lost, and the audit verifies when it is opened again."""

from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from tests.faults.power_loss import PowerLossDisk, PowerLost
from tests.harness.seeds import seeds
from tests.unit.builders import Clock
from tests.unit.stores.audit.audit_logs import DAY, NOON, calls, open_writer, record
from toolhall.stores.audit.anchors import AnchorStore, AnchorSync, MemoryAnchorStore
from toolhall.stores.audit.hash_chain import AuditPublicKey, Checkpoint
from toolhall.stores.audit.verify import ExternalEvidence, verify_audit
from toolhall.stores.audit.writer import AuditWriter, Retention
from toolhall.stores.file_lock import FileLock

SEEDS = seeds(200)
SHARES = 4
ROUNDS = 3


def work(made: AuditWriter, chance: Random, clock: Clock, start: int, acknowledged: list[str]) -> int:
    """Write until the power is gone; what was promised is noted. The number that comes next."""
    number, given = start, list[str]()
    try:
        for _ in range(40):
            batch = [record(number + more) for more in range(chance.randrange(1, 9))]
            number += len(batch)
            given += [each.call for each in batch]
            safe, sign = chance.random() < 0.5, chance.random() < 0.1
            made.write(batch, sync=safe, sign=sign)
            if safe or sign:
                acknowledged += given
                given.clear()
            clock.now += chance.choice((0.0, 1.0, DAY / 3))
        made.close()
        acknowledged += given
    except PowerLost:
        pass
    return number


class EagerAnchorSync(AnchorSync):
    """Writes each checkpoint to the anchor store at once."""

    def on_checkpoints(self, public: AuditPublicKey, checkpoints: Iterable[Checkpoint]) -> None:
        super().on_checkpoints(public, checkpoints)
        self.flush()


class DurableAnchorStore(MemoryAnchorStore):
    """An anchor store whose writes are durable at once, as in a database."""

    durable = True


def open_anchors(folder: Path, store: AnchorStore, clock: Clock, seed: int) -> AnchorSync:
    """A log is synced before the store hears of its checkpoint, so that no power loss puts it behind the store.

    Nor does a checkpoint say that the store knew of the audit before the store does.
    """
    anchoring = EagerAnchorSync(folder, clock)
    anchoring.open(store, writes=True)
    assert anchoring.behind == (), seed
    return anchoring


def crash(folder: Path, seed: int) -> None:
    chance, clock = Random(seed), Clock(NOON)
    acknowledged: list[str] = []
    number, store = 0, DurableAnchorStore()
    for _ in range(ROUNDS):
        anchoring = open_anchors(folder, store, clock, seed)
        disk = PowerLossDisk(chance, chance.randrange(1, 160))
        made = open_writer(
            folder, Retention(sign_records=11, segment_bytes=6_000), clock=clock, disk=disk, listener=anchoring
        )
        number = work(made, chance, clock, number, acknowledged)
        lock: FileLock | None = vars(made)["_lock"]
        if lock is not None:
            lock.release()  # as the system does for a process that is gone
        disk.lose_power()
    again = open_writer(folder, clock=clock, disk=PowerLossDisk(chance, 1_000_000))
    again.write([record(number)], sync=True)
    again.close()
    open_anchors(folder, store, clock, seed)
    report = verify_audit(folder, ExternalEvidence(anchor=store.read()), lambda _: None)
    assert report.good, (seed, report)
    found = calls(folder)
    kept = iter(found)
    assert all(call in kept for call in acknowledged), (seed, "lost", set(acknowledged) - set(found))
    assert len(set(found)) == len(found), (seed, "twice")


@pytest.mark.parametrize("share", range(min(SHARES, len(SEEDS))))
def test_audit_power_loss_keeps_every_acknowledged_record(tmp_path: Path, share: int) -> None:
    for seed in SEEDS[share::SHARES]:
        crash(tmp_path / str(seed), seed)
