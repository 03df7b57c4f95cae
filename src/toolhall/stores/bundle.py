"""Stores: the bundle of all stores of one hall, and in_memory, which makes one without persistence."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolhall.stores.accounts import AccountStore, MemoryAccountStore
from toolhall.stores.api_keys import ApiKeyStore, MemoryApiKeyStore
from toolhall.stores.approvals import ApprovalStore, MemoryApprovalStore
from toolhall.stores.audit.anchors import AnchorStore, MemoryAnchorStore
from toolhall.stores.factors import FactorStore, MemoryFactorStore
from toolhall.stores.grants import GrantStore, MemoryGrantStore
from toolhall.stores.tools import MemoryToolStore, ToolStore
from toolhall.stores.used_states import MemoryUsedStateStore, UsedStateStore
from toolhall.stores.vault.store import MemoryVaultStore, VaultStore


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The stores of one hall; they are closed together."""

    tools: ToolStore
    keys: ApiKeyStore
    grants: GrantStore
    approvals: ApprovalStore
    factors: FactorStore
    accounts: AccountStore
    vault: VaultStore
    states: UsedStateStore
    anchors: AnchorStore
    readonly: bool = False  # another process has the folder alone; every change is refused
    tools_readonly: bool = (
        False  # another process that serves from the folder changes its tools; all else may be changed here
    )
    release_tools: Callable[[], None] = lambda: None  # let another process be the one that changes tools
    version: Callable[[], Awaitable[int]] | None = None  # another number once another process changed something
    close: Callable[[], None]  # finish what is being written; nothing can be asked afterwards


def in_memory() -> Stores:
    """Everything is kept until the process ends."""
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
    """Memory needs no closing."""
