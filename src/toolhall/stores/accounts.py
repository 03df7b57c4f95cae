"""Linked OAuth accounts: Account and AccountLink, the AccountStore protocol and its in-memory implementation.

Tokens are encrypted by the vault before they come here; nothing in this module decrypts them. Time is the store's own.
"""

import time
from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.stores.approvals import CoolingDown
from toolhall.stores.common import Clock, MonotonicClock, Stale, check_storable

MAX_PENDING_PER_USER = 20  # links that one caller has for one user
MAX_PENDING_PER_CALLER = 1_000  # for all the users that it acts for
MAX_PENDING_TOTAL = 10_000
RETRY_SECONDS = 60.0  # to wait when there are too many in total
RETENTION_SECONDS = 86_400.0  # how a link ended can be looked up that long after its expiry
MAX_STORED_LINKS = 20_000
NEW = 0  # the serial of an account that was never saved
AccountState: TypeAlias = Literal["connected", "broken"]
LinkState: TypeAlias = Literal["pending", "claimed", "completed", "failed"]
LinkOutcome: TypeAlias = Literal["completed", "failed"]
LinkMethod: TypeAlias = Literal["browser", "device", "paste"]
# A lone surrogate has no UTF-8, and PostgreSQL stores no NUL, so no engine accepts either.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z", max_length=2_048)]
_Scopes: TypeAlias = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=500)]
_Ciphertext: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=262_144)]
_Timestamp: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A user's linked account at an OAuth provider; there is at most one per user and provider."""

    id: _Text  # random, and never used again
    user: _Text
    provider: _Text
    issuer: _Text  # or the token endpoint: tokens are sent to no other
    scopes: _Scopes  # as they were granted
    sealed: _Ciphertext  # the tokens
    expires_at: _Timestamp | None = None  # of the access token
    state: AccountState = "connected"
    created_at: _Timestamp
    refreshed_at: _Timestamp | None = None
    serial: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = NEW  # raised at each save: identifies what a writer has read


class AccountLink(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to link an account; it can be used once, by the user it was made for."""

    id: _Text
    caller: _Text
    user: _Text
    provider: _Text
    issuer: _Text
    scopes: _Scopes
    tool: _Text | None = None  # the tool that needs the account
    sealed: _Ciphertext  # state to check the provider's response with; deleted when the attempt ends
    browser: _Text = ""  # the digest of the cookie of the browser in which the user agreed
    how: LinkMethod = "browser"
    created: _Timestamp
    expires: _Timestamp
    state: LinkState = "pending"
    reason: _Text | None = None  # why it failed


class AccountReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def all(self, user: str | None = None) -> tuple[Account, ...]:
        """Return the accounts of a user, or all accounts, oldest first."""
        ...

    async def find(self, user: str, provider: str) -> Account | None:
        """Return the user's account at a provider."""
        ...

    async def get(self, account_id: str) -> Account | None:
        """Return the account with this id."""
        ...

    async def find_link(self, link_id: str) -> AccountLink | None:
        """Return the link; None if it expired unused."""
        ...

    async def pending_links(self, caller: str) -> tuple[AccountLink, ...]:
        """Return a caller's links that can still be used, oldest first, so that one of them can be offered again."""
        ...


class AccountStore(AccountReader, Protocol):
    """A change is durable once its call has returned; of concurrent conflicting changes, exactly one succeeds."""

    async def save(self, account: Account, serial: int) -> Account | None:
        """Replace the account with this serial (NEW: insert it), and return it with the next serial.

        None if the serial is stale: another writer saved or removed the account, or linked this user at the same
        provider; read it again.
        """
        ...

    async def remove(self, account_id: str) -> bool:
        """Remove it; False if there is none."""
        ...

    async def add_link(self, link: AccountLink) -> None:
        """Insert a link; raises Stale if its id is taken, CoolingDown if too many are pending."""
        ...

    async def bind_link(self, link_id: str, browser: str, sealed: bytes) -> AccountLink | None:
        """Bind a pending link to the browser in which the user agreed, replacing another one; None if not pending."""
        ...

    async def claim_link(self, link_id: str, from_browser: str) -> AccountLink | None:
        """Use up what is pending, once; None if it no longer is, or if it was bound to another browser.

        A link for a browser cannot be claimed before it is bound; for all others `from_browser` is empty.
        """
        ...

    async def end_link(self, link_id: str, state: LinkOutcome, reason: str | None = None) -> AccountLink | None:
        """End a link: a claimed one can be completed or fail, a pending one can only fail; None otherwise."""
        ...


def sort_accounts(accounts: Iterable[Account]) -> tuple[Account, ...]:
    """Sort as every store lists them."""
    return tuple(sorted(accounts, key=lambda each: (each.created_at, each.id)))


def sort_links(links: Iterable[AccountLink]) -> tuple[AccountLink, ...]:
    """Sort as every store lists them."""
    return tuple(sorted(links, key=lambda each: (each.created, each.id)))


def is_pending(link: AccountLink, now: float) -> bool:
    """True if the link can still be used."""
    return link.state == "pending" and link.expires > now


def is_retained(link: AccountLink, now: float) -> bool:
    """True if the link can be looked up: an unused one until it expires, an ended one RETENTION_SECONDS more."""
    return is_pending(link, now) if link.state == "pending" else link.expires + RETENTION_SECONDS > now


def bound_to_browser(link: AccountLink, browser: str, sealed: bytes, now: float) -> AccountLink | None:
    """Return the link bound to the browser in which the user agreed."""
    if not is_pending(link, now):
        return None
    return msgspec.structs.replace(link, browser=browser, sealed=sealed)


def as_claimed(link: AccountLink, from_browser: str, now: float) -> AccountLink | None:
    """Return the claimed link; None if this browser may not claim it."""
    allowed = link.browser == from_browser and (link.how != "browser" or link.browser != "")
    return msgspec.structs.replace(link, state="claimed") if allowed and is_pending(link, now) else None


def as_ended(link: AccountLink, state: LinkOutcome, reason: str | None, now: float) -> AccountLink | None:
    """Return the ended link; one that was claimed in time may end after it would have expired."""
    allowed = link.state == "claimed" or (state == "failed" and is_pending(link, now))
    return msgspec.structs.replace(link, state=state, reason=reason, sealed=b"") if allowed else None


def check_link_limits(same_user: Iterable[AccountLink], caller_count: int, total_count: int, now: float) -> None:
    """Raise CoolingDown if too many links are pending: of the caller for this user, of the caller, or in total."""
    expiring = sorted(each.expires for each in same_user)
    if len(expiring) >= MAX_PENDING_PER_USER:
        raise CoolingDown("pending", expiring[0] - now)
    if caller_count >= MAX_PENDING_PER_CALLER or total_count >= MAX_PENDING_TOTAL:
        raise CoolingDown("pending", RETRY_SECONDS)


class MemoryAccountStore:
    """In-memory implementation; no method awaits anything, so each one is atomic."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = MonotonicClock(clock)
        self._accounts: dict[str, Account] = {}
        self._links: dict[str, AccountLink] = {}

    async def all(self, user: str | None = None) -> tuple[Account, ...]:
        """Return the accounts of a user, or all accounts, oldest first."""
        return sort_accounts(each for each in self._accounts.values() if user in (None, each.user))

    async def find(self, user: str, provider: str) -> Account | None:
        """Return the user's account at a provider."""
        return next((each for each in self._accounts.values() if (each.user, each.provider) == (user, provider)), None)

    async def get(self, account_id: str) -> Account | None:
        """Return the account with this id."""
        return self._accounts.get(account_id)

    async def save(self, account: Account, serial: int) -> Account | None:
        """Replace the account with this serial and return it with the next serial; None if the serial is stale."""
        saved = msgspec.structs.replace(account, serial=serial + 1)
        check_storable(saved)
        before = self._accounts.get(account.id)
        same = await self.find(account.user, account.provider)
        if (before.serial if before else NEW) != serial or (same is not None and same.id != account.id):
            return None
        self._accounts[account.id] = saved
        return saved

    async def remove(self, account_id: str) -> bool:
        """Remove it; False if there is none."""
        return self._accounts.pop(account_id, None) is not None

    async def find_link(self, link_id: str) -> AccountLink | None:
        """Return the link; None if it expired unused."""
        found = self._links.get(link_id)
        return found if found is not None and is_retained(found, self._clock()) else None

    async def pending_links(self, caller: str) -> tuple[AccountLink, ...]:
        """Return a caller's links that can still be used, oldest first."""
        return sort_links(each for each in self._pending() if each.caller == caller)

    async def add_link(self, link: AccountLink) -> None:
        """Insert a link; raises Stale if its id is taken, CoolingDown if too many are pending."""
        check_storable(link)
        now = self._clock()
        self._prune_links(now)
        if link.id in self._links:
            raise Stale([link.id])
        waiting = self._pending()
        of_caller = [each for each in waiting if each.caller == link.caller]
        same = [each for each in of_caller if each.user == link.user]
        check_link_limits(same, len(of_caller), len(waiting), now)
        self._links[link.id] = link

    async def bind_link(self, link_id: str, browser: str, sealed: bytes) -> AccountLink | None:
        """Bind a pending link to the browser in which the user agreed; None if it is not pending."""
        found = self._links.get(link_id)
        return None if found is None else self._put_link(bound_to_browser(found, browser, sealed, self._clock()))

    async def claim_link(self, link_id: str, from_browser: str) -> AccountLink | None:
        """Claim a pending link, once; None if it is not pending or is bound to another browser."""
        found = self._links.get(link_id)
        return None if found is None else self._put_link(as_claimed(found, from_browser, self._clock()))

    async def end_link(self, link_id: str, state: LinkOutcome, reason: str | None = None) -> AccountLink | None:
        """End a link; None if it cannot end like this any more."""
        found = self._links.get(link_id)
        return None if found is None else self._put_link(as_ended(found, state, reason, self._clock()))

    def _pending(self) -> list[AccountLink]:
        now = self._clock()
        return [each for each in self._links.values() if is_pending(each, now)]

    def _put_link(self, link: AccountLink | None) -> AccountLink | None:
        if link is not None:
            check_storable(link)
            self._links[link.id] = link
        return link

    def _prune_links(self, now: float) -> None:
        """Delete links past their retention, and above the limit those that ended first."""
        retained = {each.id: each for each in self._links.values() if is_retained(each, now)}
        surplus = max(len(retained) + 1 - MAX_STORED_LINKS, 0)
        over = sorted((each.expires, each.id) for each in retained.values() if each.state in ("completed", "failed"))
        for _, link_id in over[:surplus]:
            del retained[link_id]
        self._links = retained
