"""Stores in front of a file that is not made yet, or that another process writes to."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from toolhall.stores.accounts.base import AccountReader
from toolhall.stores.approvals.base import ApprovalReader
from toolhall.stores.audit.anchors import Acceptance, Anchor
from toolhall.stores.audit.lines import Mark
from toolhall.stores.base import ToolReader
from toolhall.stores.bundle import Stores
from toolhall.stores.factors.base import FactorReader
from toolhall.stores.grants.base import GrantReader
from toolhall.stores.keys.base import KeyReader
from toolhall.stores.vault.base import VaultReader

# Of each store, what only reads it; everything else is a change.
_READERS: dict[str, type] = {
    "tools": ToolReader,
    "keys": KeyReader,
    "grants": GrantReader,
    "approvals": ApprovalReader,
    "factors": FactorReader,
    "accounts": AccountReader,
    "vault": VaultReader,
    "states": object,  # every method changes it
}


class _Front:
    """One of the stores: reads what there is now, and asks for a writer with each change."""

    def __init__(self, name: str, now: Callable[[], Stores], writer: Callable[[], Awaitable[Stores]]) -> None:
        self._name = name
        self._now = now
        self._writer = writer

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        reads = hasattr(_READERS[self._name], method)

        async def ask(*given: object, **named: object) -> Any:
            stores = self._now() if reads else await self._writer()
            return await getattr(getattr(stores, self._name), method)(*given, **named)

        return ask


class _FrontAnchors:
    """The anchor where it is now: a checkpoint is no reason to make the file."""

    def __init__(self, now: Callable[[], Stores]) -> None:
        self._now = now

    @property
    def durable(self) -> bool:
        return self._now().anchors.durable

    def read(self) -> Anchor:
        return self._now().anchors.read()

    def advance(self, public: str, marks: Collection[Mark]) -> None:
        self._now().anchors.advance(public, marks)

    def accept(self, public: str, marks: Collection[Mark], acceptance: Acceptance) -> None:
        self._now().anchors.accept(public, marks, acceptance)


def fronted(
    now: Callable[[], Stores], writer: Callable[[], Awaitable[Stores]], close: Callable[[], None], *, readonly: bool
) -> Stores:
    """Stores that read from `now` and write to `writer`, asked each time."""
    fronts: dict[str, Any] = {name: _Front(name, now, writer) for name in _READERS}
    return Stores(**fronts, anchors=_FrontAnchors(now), readonly=readonly, close=close)
