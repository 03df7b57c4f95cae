"""Approvals in memory: a call looks at what may still concern it, however much is kept."""

import pytest

from tests.interfaces.approval_rows import Clock, wanted
from toolhall.stores.approvals import PENDING_SECONDS, Approval, Decision, MemoryApprovalStore, with_expiry


async def test_memory_approval_store_claim_does_not_scan_expired_approvals(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    store = MemoryApprovalStore(clock)
    for number in range(200):
        await store.claim(wanted(arguments_sha256=str(number)), f"old-{number}")
        clock.now += PENDING_SECONDS
    await store.claim(wanted(how="step_up"), "now")
    await store.decide("now", Decision("approved", "alice", "totp"))
    looked_at = list[str]()

    def counted(approval: Approval, now: float) -> Approval:
        looked_at.append(approval.id)
        return with_expiry(approval, now)

    monkeypatch.setattr("toolhall.stores.approvals.with_expiry", counted)
    for number in range(10):
        assert (await store.claim(wanted(how="step_up"), f"new-{number}")).id == "now"
    assert await store.find("old-0") is not None, "all are kept"
    assert looked_at.count("now") >= 10
    assert len(looked_at) < 20
