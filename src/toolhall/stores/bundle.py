"""Stores: the bundle of all stores of one hall, and in_memory, which makes one without persistence."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolhall.stores.access import ApiKeyStore, GrantStore, MemoryApiKeyStore, MemoryGrantStore
from toolhall.stores.accounts import AccountStore, MemoryAccountStore
from toolhall.stores.approvals import ApprovalStore, MemoryApprovalStore, MemoryUsedStateStore, UsedStateStore
from toolhall.stores.audit.anchors import AnchorStore, MemoryAnchorStore
from toolhall.stores.factors import FactorStore, MemoryFactorStore
from toolhall.stores.tools import MemoryToolStore, ToolStore
from toolhall.stores.vault.store import MemoryVaultStore, VaultStore


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
        close=_no_close,
    )


def _no_close() -> None:
    """Closing in-memory stores does nothing."""
