"""Everything that a hall remembers, one small store for each concern; with a folder, all of them share one file."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolhall.stores.accounts.base import AccountStore
from toolhall.stores.accounts.memory import MemoryAccounts
from toolhall.stores.approvals.base import ApprovalStore
from toolhall.stores.approvals.memory import MemoryApprovals
from toolhall.stores.audit.anchors import AnchorStore, MemoryAnchors
from toolhall.stores.base import ToolStore
from toolhall.stores.factors.base import FactorStore
from toolhall.stores.factors.memory import MemoryFactors
from toolhall.stores.grants.base import GrantStore
from toolhall.stores.grants.memory import MemoryGrants
from toolhall.stores.keys.base import KeyStore
from toolhall.stores.keys.memory import MemoryKeys
from toolhall.stores.memory import MemoryStore
from toolhall.stores.states import MemoryStates, StateStore
from toolhall.stores.vault.base import VaultStore
from toolhall.stores.vault.memory import MemoryVault


@dataclass(frozen=True, kw_only=True)
class Stores:
    """The stores of one hall; they are closed together."""

    tools: ToolStore
    keys: KeyStore
    grants: GrantStore
    approvals: ApprovalStore
    factors: FactorStore
    accounts: AccountStore
    vault: VaultStore
    states: StateStore
    anchors: AnchorStore
    readonly: bool = False  # another process has the folder alone; every change is refused
    guest: bool = False  # another process that serves from the folder changes its tools; all else may be changed here
    yield_tools: Callable[[], None] = lambda: None  # let another process be the one that changes tools
    version: Callable[[], Awaitable[int]] | None = None  # another number once another process changed something
    close: Callable[[], None]  # finish what is being written; nothing can be asked afterwards


def in_memory() -> Stores:
    """Everything is kept until the process ends."""
    return Stores(
        tools=MemoryStore(),
        keys=MemoryKeys(),
        grants=MemoryGrants(),
        approvals=MemoryApprovals(),
        factors=MemoryFactors(),
        accounts=MemoryAccounts(),
        vault=MemoryVault(),
        states=MemoryStates(),
        anchors=MemoryAnchors(),
        close=_nothing,
    )


def _nothing() -> None:
    """Memory needs no closing."""
