"""Accounts and links in memory: for halls without a data folder, and the oracle that every other engine must equal."""

import time

import msgspec

from toolhall.stores.accounts.base import (
    MOST_KEPT,
    NEW,
    Account,
    Link,
    LinkEnd,
    bound,
    claimed,
    ended,
    in_order,
    is_pending,
    is_there,
    links_in_order,
    refuse_crowd,
)
from toolhall.stores.approvals.base import Clock
from toolhall.stores.approvals.onward import Onward
from toolhall.stores.base import Stale
from toolhall.stores.storable import refuse_unstorable_row


class MemoryAccounts:
    """Keeps them until the process ends; nothing here waits, so nothing comes in between."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = Onward(clock)
        self._accounts: dict[str, Account] = {}
        self._links: dict[str, Link] = {}

    async def all(self, user: str | None = None) -> tuple[Account, ...]:
        """Every account of a user, or of everybody, the oldest first."""
        return in_order(each for each in self._accounts.values() if user in (None, each.user))

    async def find(self, user: str, provider: str) -> Account | None:
        """The one that a user has at a provider."""
        return next((each for each in self._accounts.values() if (each.user, each.provider) == (user, provider)), None)

    async def get(self, account_id: str) -> Account | None:
        """The one with this id."""
        return self._accounts.get(account_id)

    async def save(self, account: Account, serial: int) -> Account | None:
        """Keep it in place of what had this serial, and return it with its next serial; None if that is stale."""
        kept = msgspec.structs.replace(account, serial=serial + 1)
        refuse_unstorable_row(kept)
        before = self._accounts.get(account.id)
        same = await self.find(account.user, account.provider)
        if (before.serial if before else NEW) != serial or (same is not None and same.id != account.id):
            return None
        self._accounts[account.id] = kept
        return kept

    async def remove(self, account_id: str) -> bool:
        """Forget it; False if there is none."""
        return self._accounts.pop(account_id, None) is not None

    async def link_find(self, link_id: str) -> Link | None:
        """As it stands now; what nobody used in time is not there."""
        found = self._links.get(link_id)
        return found if found is not None and is_there(found, self._clock()) else None

    async def link_pending(self, caller: str) -> tuple[Link, ...]:
        """The links of a caller that can still be used, the oldest first."""
        return links_in_order(each for each in self._waiting() if each.caller == caller)

    async def link_add(self, link: Link) -> None:
        """Keep a new one; raises Stale if its id is taken, NotNow if too many wait already."""
        refuse_unstorable_row(link)
        now = self._clock()
        self._forget(now)
        if link.id in self._links:
            raise Stale([link.id])
        waiting = self._waiting()
        of_caller = [each for each in waiting if each.caller == link.caller]
        same = [each for each in of_caller if each.user == link.user]
        refuse_crowd(same, len(of_caller), len(waiting), now)
        self._links[link.id] = link

    async def link_bind(self, link_id: str, browser: str, sealed: bytes) -> Link | None:
        """Bind what is pending to the browser in which the person agreed; None if it is not pending."""
        found = self._links.get(link_id)
        return None if found is None else self._put(bound(found, browser, sealed, self._clock()))

    async def link_claim(self, link_id: str, from_browser: str) -> Link | None:
        """Use up what is pending, once; None if it no longer is, or if it was bound to another browser."""
        found = self._links.get(link_id)
        return None if found is None else self._put(claimed(found, from_browser, self._clock()))

    async def link_end(self, link_id: str, state: LinkEnd, reason: str | None = None) -> Link | None:
        """Say how it ended; None if it cannot end like this any more."""
        found = self._links.get(link_id)
        return None if found is None else self._put(ended(found, state, reason, self._clock()))

    def _waiting(self) -> list[Link]:
        now = self._clock()
        return [each for each in self._links.values() if is_pending(each, now)]

    def _put(self, link: Link | None) -> Link | None:
        if link is not None:
            refuse_unstorable_row(link)
            self._links[link.id] = link
        return link

    def _forget(self, now: float) -> None:
        """What is gone goes, and of too many those that ended first."""
        kept = {each.id: each for each in self._links.values() if is_there(each, now)}
        surplus = max(len(kept) + 1 - MOST_KEPT, 0)
        over = sorted((each.expires, each.id) for each in kept.values() if each.state in ("completed", "failed"))
        for _, link_id in over[:surplus]:
            del kept[link_id]
        self._links = kept
