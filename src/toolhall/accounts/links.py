"""The links by which people connect accounts: who may use one, where it leads, and that it is used once."""

import hashlib
import secrets
from collections.abc import Callable

import msgspec

from toolhall.accounts.connecting import Connecting
from toolhall.accounts.failures import LinkFailed, TooManyLinks
from toolhall.accounts.flow import CALLBACK, MIXED_UP, Attempt, callback_of, is_same_state, link_of, state_of
from toolhall.accounts.providers import Endpoints, Provider, is_safe, is_scope
from toolhall.accounts.sealing import Sealing
from toolhall.model.caller import Caller
from toolhall.model.secret import Secret
from toolhall.stores.accounts.base import AccountStore, How, Link
from toolhall.stores.approvals.base import NotNow

PATH = "/connect/"
LINK_SECONDS = 600.0
_SOON = 60.0  # a link that ends sooner is not handed out again
_MOST_SCOPES = 100
_NOBODY = "an account belongs to a person: call with a credential of your own"
_ELSEWHERE = "only the person it is for connects an account, in a browser: a program that acts for others cannot"
_UNSAFE = "accounts are connected over https or on this machine only; the operator sets public_url to an https address"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a link is asked for."""

    provider: Provider
    scopes: tuple[str, ...]
    tool: str | None = None
    how: How = "browser"


class Links:
    """`address` is where the hall is served now."""

    def __init__(
        self, connecting: Connecting, sealing: Sealing, clock: Callable[[], float], address: Callable[[], str]
    ) -> None:
        self._connecting = connecting
        self._sealing = sealing
        self._clock = clock
        self._address = address

    @property
    def store(self) -> AccountStore:
        """Where the links are kept."""
        return self._connecting.store

    def url(self, link: Link) -> str:
        """Where the person goes; it carries no authority, so whoever else gets it can do nothing with it."""
        return f"{self._address()}{PATH}{link.id}"

    def came_to(self, path: str) -> str:
        """The whole address of a path of this hall; LinkFailed if nobody's browser should come back there."""
        uri = f"{self._address()}{path}"
        if not is_safe(uri):
            raise LinkFailed(_UNSAFE)
        return uri

    def redirect_uri(self, provider: Provider, endpoints: Endpoints) -> str:
        """Where a provider sends the browser back to: registered there, and sent, as exactly this text."""
        return self.came_to(callback_of(provider, endpoints))

    async def begin(self, caller: Caller, wanted: Wanted) -> Link:
        """A new link, or the one that this caller was given for the same before; LinkFailed, TooManyLinks."""
        user = caller.user
        if user is None:
            raise LinkFailed(_NOBODY)
        if wanted.how != "browser" and caller.acting_for is not None:
            raise LinkFailed(_ELSEWHERE)
        if len(wanted.scopes) > _MOST_SCOPES or not all(map(is_scope, wanted.scopes)):
            raise LinkFailed("these are not scopes; list each one by itself, as the provider spells it")
        if wanted.how != "device":
            self.came_to(CALLBACK)
        now = self._clock()
        link = Link(
            id=secrets.token_urlsafe(16),
            caller=caller.id,
            user=user,
            provider=wanted.provider.name,
            issuer=wanted.provider.identity,
            scopes=wanted.scopes,
            tool=wanted.tool,
            sealed=b"",
            how=wanted.how,
            created=now,
            expires=now + LINK_SECONDS,
        )
        if wanted.how == "browser":
            for each in await self.store.link_pending(caller.id):
                if _is_same(each, link) and each.expires > now + _SOON:
                    return each
        try:
            await self.store.link_add(link)
        except NotNow as refused:
            raise TooManyLinks(refused) from None
        return link

    async def pending(self, link_id: str, visitor: Caller) -> Link:
        """A link that this visitor may use now; to anybody else it is not there."""
        link = await self.store.link_find(link_id)
        if link is None or link.state != "pending" or not may_connect(link, visitor):
            raise LinkFailed
        return link

    async def attempted(self, link: Link, provider: Provider, endpoints: Endpoints, browser: str) -> Attempt:
        """The attempt that begins now, bound to the browser in which the person agreed; an earlier one ends."""
        attempt = Attempt(
            state=state_of(link.id, secrets.token_urlsafe(32)),
            verifier=Secret(secrets.token_urlsafe(48)),
            redirect_uri=self.redirect_uri(provider, endpoints),
            issuer=provider.identity,
            scopes=await self._connecting.asked(link, provider),
            resource=provider.resource,
        )
        sealed = await self._sealing.attempt_sealed(link, attempt)
        if await self.store.link_bind(link.id, browser, sealed) is None:
            raise LinkFailed
        return attempt

    async def attempt(self, link: Link) -> Attempt:
        """The attempt that is under way; LinkFailed if there is none."""
        attempt = await self._sealing.attempt(link)
        if attempt is None:
            raise LinkFailed
        return attempt

    async def claimed(self, state: str | None, how: How, came_to: str, browser: str = "") -> tuple[Link, Attempt]:
        """The link that an answer belongs to, used up; whoever guesses or repeats one changes nothing."""
        link_id = link_of(state)
        link = None if link_id is None else await self.store.link_find(link_id)
        if link is None or link.state != "pending" or link.how != how:
            raise LinkFailed
        attempt = await self.attempt(link)
        if not is_same_state(attempt, state):
            raise LinkFailed
        if attempt.redirect_uri != came_to:
            raise LinkFailed(MIXED_UP)
        if await self.store.link_claim(link.id, browser) is None:
            raise LinkFailed
        return link, attempt


def may_connect(link: Link, visitor: Caller) -> bool:
    """Whether this is the person who asked, or for whom a program asked; nobody does it for another."""
    return visitor.acting_for is None and visitor.user is not None and visitor.user == link.user


def digest_of(nonce: str) -> str:
    """What is kept of the text that the browser must bring."""
    return hashlib.sha256(nonce.encode(errors="surrogatepass")).hexdigest()


def _is_same(link: Link, other: Link) -> bool:
    names = ("user", "provider", "issuer", "scopes", "tool", "how")
    return all(getattr(link, name) == getattr(other, name) for name in names)
