"""Stores: the bundle of all stores of one hall, in memory (in_memory) or forwarding to others (delegating_stores).

Those of `delegating_stores` forward every call to the stores that a StoreSource returns at that moment: reads go to
`source.current()` and writes to `await source.writable()`, so that a source can create the database with the first
write, or refuse all writes. A checkpoint of the audit is no reason to create the database, so the anchor is forwarded
to the current stores only.

The forwarding is written out method by method, because the type checkers then hold it to the store protocols. The SQL
stores cannot take its place: to construct one imports SQLAlchemy, which costs about as much CPU time as importing all
of Toolhall and 18 MiB of memory, and a hall whose data folder has no database yet needs neither.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolhall.stores.access import ApiKey, ApiKeyStore, Grant, GrantStore, MemoryApiKeyStore, MemoryGrantStore
from toolhall.stores.accounts import Account, AccountLink, AccountStore, LinkOutcome, MemoryAccountStore
from toolhall.stores.approvals import (
    Approval,
    ApprovalRequest,
    ApprovalStore,
    Decision,
    MemoryApprovalStore,
    MemoryUsedStateStore,
    UsedStateStore,
)
from toolhall.stores.audit.anchors import Acceptance, Anchor, AnchorStore, MemoryAnchorStore
from toolhall.stores.audit.hash_chain import Checkpoint
from toolhall.stores.factors import Factor, FactorStore, MemoryFactorStore
from toolhall.stores.tasks import MAX_LISTED, MemoryTaskStore, StoredTask, TaskCounts, TaskQuery, TaskStore
from toolhall.stores.tools import MemoryToolStore, ToolEvent, ToolRecord, ToolStore
from toolhall.stores.upstreams import MemoryUpstreamStore, StoredUpstream, UpstreamStore
from toolhall.stores.vault.store import DataKey, MemoryVaultStore, SecretRow, VaultContents, VaultStore


@dataclass(frozen=True, kw_only=True)
class Stores:
    """All stores of one hall; they are closed together."""

    tools: ToolStore
    keys: ApiKeyStore
    grants: GrantStore
    approvals: ApprovalStore
    factors: FactorStore
    accounts: AccountStore
    vault: VaultStore
    states: UsedStateStore
    anchors: AnchorStore
    tasks: TaskStore
    upstreams: UpstreamStore
    readonly: bool = False  # another process holds the folder exclusively; every write is refused
    tools_readonly: bool = False  # another process that shares the folder changes tools; all else can be changed here
    release_tools: Callable[[], None] = lambda: None  # lets another process become the one that changes tools
    version: Callable[[], Awaitable[int]] | None = None  # returns another number once another process changed something
    close: Callable[[], None]  # finishes pending writes; the stores cannot be used afterwards


def in_memory() -> Stores:
    """Make stores without persistence; their content ends with the process."""
    return Stores(
        tools=MemoryToolStore(),
        keys=MemoryApiKeyStore(),
        grants=MemoryGrantStore(),
        approvals=MemoryApprovalStore(),
        factors=MemoryFactorStore(),
        accounts=MemoryAccountStore(),
        vault=MemoryVaultStore(),
        states=MemoryUsedStateStore(),
        anchors=MemoryAnchorStore(),
        tasks=MemoryTaskStore(),
        upstreams=MemoryUpstreamStore(),
        close=_no_close,
    )


def _no_close() -> None:
    """Closing in-memory stores does nothing."""


class StoreSource(Protocol):
    """Supplies the stores that calls are forwarded to."""

    def current(self) -> Stores:
        """Return the stores to read from now."""
        ...

    async def writable(self) -> Stores:
        """Return the stores to write to; raises StoreFailed if this process may not write."""
        ...

    def close(self) -> None:
        """Close the stores."""
        ...


def delegating_stores(source: StoreSource, *, readonly: bool = False) -> Stores:
    """Make a bundle whose stores ask this source with each call."""
    return Stores(
        tools=_ToolStore(source),
        keys=_ApiKeyStore(source),
        grants=_GrantStore(source),
        approvals=_ApprovalStore(source),
        factors=_FactorStore(source),
        accounts=_AccountStore(source),
        vault=_VaultStore(source),
        states=_UsedStateStore(source),
        anchors=_AnchorStore(source),
        tasks=_TaskStore(source),
        upstreams=_UpstreamStore(source),
        readonly=readonly,
        close=source.close,
    )


class _Delegate:
    __slots__ = ("_source",)

    def __init__(self, source: StoreSource) -> None:
        self._source = source


class _ToolStore(_Delegate):
    async def all(self) -> tuple[ToolRecord, ...]:
        return await self._source.current().tools.all()

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[ToolEvent, ...]:
        return await self._source.current().tools.history(tool, limit)

    async def save(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> tuple[ToolRecord, ...]:
        return await (await self._source.writable()).tools.save(records, events)

    async def remove(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        await (await self._source.writable()).tools.remove(records, events)


class _ApiKeyStore(_Delegate):
    async def all(self) -> tuple[ApiKey, ...]:
        return await self._source.current().keys.all()

    async def add(self, key: ApiKey) -> None:
        await (await self._source.writable()).keys.add(key)

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        return await (await self._source.writable()).keys.revoke(key_id, at)

    async def record_uses(self, times: Mapping[str, float]) -> None:
        await (await self._source.writable()).keys.record_uses(times)


class _GrantStore(_Delegate):
    async def all(self) -> tuple[Grant, ...]:
        return await self._source.current().grants.all()

    async def add(self, grant: Grant) -> None:
        await (await self._source.writable()).grants.add(grant)

    async def remove(self, grant_id: str) -> Grant | None:
        return await (await self._source.writable()).grants.remove(grant_id)


class _ApprovalStore(_Delegate):
    async def find(self, approval_id: str) -> Approval | None:
        return await self._source.current().approvals.find(approval_id)

    async def pending(self) -> tuple[Approval, ...]:
        return await self._source.current().approvals.pending()

    async def last_approved(self, approval: Approval) -> Approval | None:
        return await self._source.current().approvals.last_approved(approval)

    async def decided(self, since: float) -> tuple[Approval, ...]:
        return await self._source.current().approvals.decided(since)

    async def preview(self, request: ApprovalRequest) -> bool:
        return await self._source.current().approvals.preview(request)

    async def claim(self, request: ApprovalRequest, new_id: str) -> Approval:
        return await (await self._source.writable()).approvals.claim(request, new_id)

    async def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        return await (await self._source.writable()).approvals.decide(approval_id, decision)


class _FactorStore(_Delegate):
    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        return await self._source.current().factors.all(person)

    async def find(self, factor_id: str) -> Factor | None:
        return await self._source.current().factors.find(factor_id)

    async def add(self, factor: Factor, invitation_id: str | None = None) -> bool:
        return await (await self._source.writable()).factors.add(factor, invitation_id)

    async def remove(self, factor_id: str) -> bool:
        return await (await self._source.writable()).factors.remove(factor_id)

    async def advance(self, factor_id: str, counter: int) -> bool:
        return await (await self._source.writable()).factors.advance(factor_id, counter)

    async def record_attempt(self, person: str) -> float:
        return await (await self._source.writable()).factors.record_attempt(person)

    async def reset_attempts(self, person: str) -> None:
        await (await self._source.writable()).factors.reset_attempts(person)


class _AccountStore(_Delegate):
    async def all(self, user: str | None = None) -> tuple[Account, ...]:
        return await self._source.current().accounts.all(user)

    async def find(self, user: str, provider: str) -> Account | None:
        return await self._source.current().accounts.find(user, provider)

    async def get(self, account_id: str) -> Account | None:
        return await self._source.current().accounts.get(account_id)

    async def save(self, account: Account, serial: int) -> Account | None:
        return await (await self._source.writable()).accounts.save(account, serial)

    async def remove(self, account_id: str) -> bool:
        return await (await self._source.writable()).accounts.remove(account_id)

    async def find_link(self, link_id: str) -> AccountLink | None:
        return await self._source.current().accounts.find_link(link_id)

    async def pending_links(self, caller: str) -> tuple[AccountLink, ...]:
        return await self._source.current().accounts.pending_links(caller)

    async def add_link(self, link: AccountLink) -> None:
        await (await self._source.writable()).accounts.add_link(link)

    async def bind_link(self, link_id: str, browser: str, sealed: bytes) -> AccountLink | None:
        return await (await self._source.writable()).accounts.bind_link(link_id, browser, sealed)

    async def claim_link(self, link_id: str, from_browser: str) -> AccountLink | None:
        return await (await self._source.writable()).accounts.claim_link(link_id, from_browser)

    async def end_link(self, link_id: str, state: LinkOutcome, reason: str | None = None) -> AccountLink | None:
        return await (await self._source.writable()).accounts.end_link(link_id, state, reason)


class _VaultStore(_Delegate):
    async def all(self) -> VaultContents:
        return await self._source.current().vault.all()

    async def put(self, row: SecretRow, key: DataKey | None = None) -> None:
        await (await self._source.writable()).vault.put(row, key)

    async def remove(self, name: str, user: str | None) -> bool:
        return await (await self._source.writable()).vault.remove(name, user)

    async def add_data_key(self, key: DataKey) -> None:
        await (await self._source.writable()).vault.add_data_key(key)

    async def replace_data_keys(self, before: VaultContents, after: VaultContents) -> None:
        await (await self._source.writable()).vault.replace_data_keys(before, after)

    async def shred(self, tenant: str) -> bool:
        return await (await self._source.writable()).vault.shred(tenant)


class _UsedStateStore(_Delegate):
    async def consume(self, state_id: str, caller: str, expires: float, now: float) -> bool:
        return await (await self._source.writable()).states.consume(state_id, caller, expires, now)

    async def release(self, state_id: str) -> None:
        await (await self._source.writable()).states.release(state_id)

    async def unexpired(self, prefix: str, now: float) -> dict[str, float]:
        return await self._source.current().states.unexpired(prefix, now)


class _TaskStore(_Delegate):
    async def find(self, task_id: str) -> StoredTask | None:
        return await self._source.current().tasks.find(task_id)

    async def page(self, owner: str | None = None, after: str = "", limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        return await self._source.current().tasks.page(owner, after, limit)

    async def search(self, query: TaskQuery, limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        return await self._source.current().tasks.search(query, limit)

    async def counts(self, now: float) -> TaskCounts:
        return await self._source.current().tasks.counts(now)

    async def claimable(self, holder: str, limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        return await self._source.current().tasks.claimable(holder, limit)

    async def add(self, task: StoredTask) -> StoredTask:
        return await (await self._source.writable()).tasks.add(task)

    async def swap(self, before: StoredTask, after: StoredTask) -> StoredTask | None:
        return await (await self._source.writable()).tasks.swap(before, after)

    async def claim(self, before: StoredTask, holder: str) -> StoredTask | None:
        return await (await self._source.writable()).tasks.claim(before, holder)

    # Without a database there is nothing to renew or sweep, so these two create none.
    async def renew(self, holder: str) -> dict[str, int]:
        return await self._source.current().tasks.renew(holder)

    async def sweep(self, now: float) -> tuple[str, ...]:
        return await self._source.current().tasks.sweep(now)


class _UpstreamStore(_Delegate):
    async def all(self) -> tuple[StoredUpstream, ...]:
        return await self._source.current().upstreams.all()

    async def find(self, name: str) -> StoredUpstream | None:
        return await self._source.current().upstreams.find(name)

    async def save(self, upstream: StoredUpstream) -> StoredUpstream:
        return await (await self._source.writable()).upstreams.save(upstream)

    async def remove(self, name: str) -> bool:
        return await (await self._source.writable()).upstreams.remove(name)


class _AnchorStore(_Delegate):
    @property
    def durable(self) -> bool:
        return self._source.current().anchors.durable

    def read(self) -> Anchor:
        return self._source.current().anchors.read()

    def advance(self, public: str, checkpoints: Collection[Checkpoint]) -> None:
        self._source.current().anchors.advance(public, checkpoints)

    def accept(self, public: str, checkpoints: Collection[Checkpoint], acceptance: Acceptance) -> None:
        self._source.current().anchors.accept(public, checkpoints, acceptance)
