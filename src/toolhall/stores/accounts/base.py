"""What must be remembered of connected accounts and of the links that connect them, for every engine to keep.

Time is the store's own, as it is for approvals. What is sealed here was sealed by the vault; nothing here opens it.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.stores.approvals.base import NotNow

MOST_PENDING = 20  # links that one caller has for one user
MOST_PENDING_OF_CALLER = 1_000  # for all the users that it acts for
MOST_PENDING_OF_ALL = 10_000
CROWDED_SECONDS = 60.0  # to wait when there are too many of all
KEPT_SECONDS = 86_400.0  # how a link ended can be asked for that long after it would have expired
MOST_KEPT = 20_000
NEW = 0  # the serial of an account that no store has kept yet

AccountState: TypeAlias = Literal["connected", "broken"]
LinkState: TypeAlias = Literal["pending", "claimed", "completed", "failed"]
LinkEnd: TypeAlias = Literal["completed", "failed"]
How: TypeAlias = Literal["browser", "device", "paste"]
# Half a surrogate pair has no UTF-8, and PostgreSQL keeps no NUL; so no engine does.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z", max_length=2_048)]
_Scopes: TypeAlias = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=500)]
_Sealed: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=262_144)]
_Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What a person has at a provider; a person has one at each."""

    id: _Text  # random, and never used again
    user: _Text
    provider: _Text
    issuer: _Text  # or the token endpoint: its tokens go to no other one
    scopes: _Scopes  # as they were granted
    sealed: _Sealed  # the tokens
    expires_at: _Moment | None = None  # of the access token
    state: AccountState = "connected"
    created_at: _Moment
    refreshed_at: _Moment | None = None
    serial: Annotated[int, msgspec.Meta(ge=0, lt=2**62)] = NEW  # raised at each save: what a writer has seen


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to connect an account, good once and only for who asked for it."""

    id: _Text
    caller: _Text
    user: _Text
    provider: _Text
    issuer: _Text
    scopes: _Scopes
    tool: _Text | None = None  # the one that needs it
    sealed: _Sealed  # what the answer is checked with; forgotten when the attempt ends
    browser: _Text = ""  # the digest of what the browser that agreed must bring
    how: How = "browser"
    created: _Moment
    expires: _Moment
    state: LinkState = "pending"
    reason: _Text | None = None  # why it failed


class AccountReader(Protocol):
    """What may be read, also while another process writes."""

    async def all(self, user: str | None = None) -> tuple[Account, ...]:
        """Every account of a user, or of everybody, the oldest first."""
        ...

    async def find(self, user: str, provider: str) -> Account | None:
        """The one that a user has at a provider."""
        ...

    async def get(self, account_id: str) -> Account | None:
        """The one with this id."""
        ...

    async def link_find(self, link_id: str) -> Link | None:
        """As it stands now; what nobody used in time is not there."""
        ...

    async def link_pending(self, caller: str) -> tuple[Link, ...]:
        """The links of a caller that can still be used, the oldest first: the same question need not be asked twice."""
        ...


class AccountStore(AccountReader, Protocol):
    """A change is there once its call has returned; of several at the same moment, one is made."""

    async def save(self, account: Account, serial: int) -> Account | None:
        """Keep it in place of what had this serial (NEW: there is none yet), and return it with its next serial.

        None: it is stale, because somebody else saved or removed it, or connected this user there; read it again.
        """
        ...

    async def remove(self, account_id: str) -> bool:
        """Forget it; False if there is none."""
        ...

    async def link_add(self, link: Link) -> None:
        """Keep a new one; raises Stale if its id is taken, NotNow if too many wait already."""
        ...

    async def link_bind(self, link_id: str, browser: str, sealed: bytes) -> Link | None:
        """Bind what is pending to the browser in which the person agreed, the last one counts; None if it is not."""
        ...

    async def link_claim(self, link_id: str, from_browser: str) -> Link | None:
        """Use up what is pending, once; None if it no longer is, or if it was bound to another browser.

        A link for a browser cannot be claimed before it is bound; for all others `from_browser` is empty.
        """
        ...

    async def link_end(self, link_id: str, state: LinkEnd, reason: str | None = None) -> Link | None:
        """Say how it ended: what was claimed can be completed or fail, what is pending can only fail; else None."""
        ...


def in_order(accounts: Iterable[Account]) -> tuple[Account, ...]:
    """As every store lists them."""
    return tuple(sorted(accounts, key=lambda each: (each.created_at, each.id)))


def links_in_order(links: Iterable[Link]) -> tuple[Link, ...]:
    """As every store lists them."""
    return tuple(sorted(links, key=lambda each: (each.created, each.id)))


def is_pending(link: Link, now: float) -> bool:
    """Whether it can still be used."""
    return link.state == "pending" and link.expires > now


def is_there(link: Link, now: float) -> bool:
    """Whether it can still be asked about: what nobody used is gone with its time, the rest some time later."""
    return is_pending(link, now) if link.state == "pending" else link.expires + KEPT_SECONDS > now


def bound(link: Link, browser: str, sealed: bytes, now: float) -> Link | None:
    """The link after the person agreed in this browser."""
    if not is_pending(link, now):
        return None
    return msgspec.structs.replace(link, browser=browser, sealed=sealed)


def claimed(link: Link, from_browser: str, now: float) -> Link | None:
    """The link after it was used by who came from there."""
    may = link.browser == from_browser and (link.how != "browser" or link.browser != "")
    return msgspec.structs.replace(link, state="claimed") if may and is_pending(link, now) else None


def ended(link: Link, state: LinkEnd, reason: str | None, now: float) -> Link | None:
    """The link after its end: what was claimed in time may end later."""
    may = link.state == "claimed" or (state == "failed" and is_pending(link, now))
    return msgspec.structs.replace(link, state=state, reason=reason, sealed=b"") if may else None


def refuse_crowd(same: Iterable[Link], of_caller: int, of_all: int, now: float) -> None:
    """Raise NotNow if too many links wait already: the caller's for this user, for all its users, or everybody's."""
    expiring = sorted(each.expires for each in same)
    if len(expiring) >= MOST_PENDING:
        raise NotNow("pending", expiring[0] - now)
    if of_caller >= MOST_PENDING_OF_CALLER or of_all >= MOST_PENDING_OF_ALL:
        raise NotNow("pending", CROWDED_SECONDS)
