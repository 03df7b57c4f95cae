"""Linking accounts: LinkRequests by browser or pasted URL, DeviceFlow by code, AccountLinker to save the account.

A link is for one person, expires, and is used once; its URL carries no authority.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError, Unavailable
from toolhall.model.secret import Secret
from toolhall.oauth.authorization_code import (
    CALLBACK_PATH,
    ISSUER_MISMATCH,
    PendingAuthorization,
    callback_path,
    link_id_from_state,
    make_state,
    state_matches,
)
from toolhall.oauth.client import (
    DeviceCode,
    OAuthClient,
    TokenResponse,
    code_form,
    device_form,
    device_poll_form,
    parse_device_response,
    parse_token_response,
)
from toolhall.oauth.discovery import ProviderDiscovery
from toolhall.oauth.providers import (
    Endpoints,
    LinkFailed,
    Provider,
    ProviderRefused,
    ProviderUnreachable,
    TooManyLinks,
    is_safe_url,
    is_scope,
)
from toolhall.oauth.refresh import AccountTokenCache
from toolhall.oauth.token_encryption import StoredTokens, TokenEncryption
from toolhall.stores.accounts import NEW, Account, AccountLink, AccountStore, LinkMethod
from toolhall.stores.approvals import CoolingDown
from toolhall.stores.common import StoreFailed

LINK_PATH = "/connect/"
LINK_TTL_SECONDS = 600.0
_MIN_REMAINING_SECONDS = 60.0  # a link that expires sooner is not reused
_MAX_SCOPES = 100
_NO_USER = "an account belongs to a person: call with a credential of your own"
_NOT_DELEGABLE = "only the person it is for connects an account, in a browser: a program that acts for others cannot"
_INSECURE_URL = (
    "accounts are connected over https or on this machine only; the operator sets public_url to an https address"
)
SLOW_DOWN_SECONDS = 5.0  # longer each time that the provider answers slow_down
_MAX_POLL_INTERVAL = 60.0
_LOG = logging.getLogger("toolhall.accounts.device")
_MAX_SAVE_ATTEMPTS = 10


class LinkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a link is requested for."""

    provider: Provider
    scopes: tuple[str, ...]
    tool: str | None = None
    how: LinkMethod = "browser"


class AccountLinker:
    """Saves linked accounts: a user has one per provider, and linking again replaces it."""

    def __init__(
        self,
        encryption: TokenEncryption,
        client: OAuthClient,
        discovery: ProviderDiscovery,
        tokens: AccountTokenCache,
        clock: Callable[[], float],
    ) -> None:
        self._encryption = encryption
        self._client = client
        self._discovery = discovery
        self._tokens = tokens
        self._clock = clock
        self.on_linked: Callable[[Account], None] | None = None  # called with each account that was linked

    @property
    def store(self) -> AccountStore:
        """The store of the accounts."""
        return self._tokens.store

    async def requested_scopes(self, link: AccountLink, provider: Provider) -> tuple[str, ...]:
        """Return the scopes to request: those of this tool, and those that the user has granted before.

        Without the latter, two tools with different scopes would take the account from each other.
        """
        before = await self.store.find(link.user, provider.name)
        is_current = before is not None and before.state == "connected" and before.issuer == provider.identity
        return provider.requested_scopes((*link.scopes, *(before.scopes if before is not None and is_current else ())))

    async def exchange_code(self, provider: Provider, attempt: PendingAuthorization, code: Secret) -> TokenResponse:
        """Exchange a code for tokens; raises ProviderRefused or ProviderUnreachable."""
        endpoints = await self._discovery.endpoints(provider)
        reply = await self._client.post_form(provider, endpoints, endpoints.token_url, code_form(attempt, code))
        return parse_token_response(reply, provider, attempt.scopes, self._clock())

    async def save_account(self, link: AccountLink, provider: Provider, granted: TokenResponse) -> Account:
        """Save the account; raises LinkFailed if the granted scopes do not suffice for the link's tool."""
        tokens = StoredTokens(access=granted.access, refresh=granted.refresh)
        missing = provider.missing_scopes(granted.scopes, link.scopes)
        if missing:
            if await self.store.find(link.user, provider.name) is None:  # some providers revoke all grants at once
                await self._tokens.refresher.revoke(provider, tokens)
            raise LinkFailed(f"{provider.name} granted less than is needed; missing: {' '.join(missing)}")
        for _ in range(_MAX_SAVE_ATTEMPTS):
            before = await self.store.find(link.user, provider.name)
            account = self._account(link, provider, granted, before)
            saved = await self.store.save(
                await self._encryption.with_tokens(account, tokens), NEW if before is None else before.serial
            )
            if saved is not None:
                self._tokens.forget(link.user, provider.name)
                if self.on_linked is not None:
                    self.on_linked(saved)
                return saved
        raise Unavailable("the account changes all the time; try again later")

    def _account(
        self, link: AccountLink, provider: Provider, granted: TokenResponse, before: Account | None
    ) -> Account:
        now = self._clock()
        blank = Account(
            id=secrets.token_hex(12),  # hexadecimal: people type it, and no dash can begin it
            user=link.user,
            provider=provider.name,
            issuer=provider.identity,
            scopes=granted.scopes,
            sealed=b"",
            expires_at=granted.expires_at,
            created_at=now,
            refreshed_at=now,
        )
        return blank if before is None else msgspec.structs.replace(blank, id=before.id, serial=before.serial)


class LinkRequests:
    """Creates links and checks their use; `base_url` returns where the hall is served now."""

    def __init__(
        self,
        linker: AccountLinker,
        encryption: TokenEncryption,
        clock: Callable[[], float],
        base_url: Callable[[], str],
    ) -> None:
        self._linker = linker
        self._encryption = encryption
        self._clock = clock
        self._base_url = base_url

    @property
    def store(self) -> AccountStore:
        """The store of the links."""
        return self._linker.store

    def url(self, link: AccountLink) -> str:
        """Return the link's page; the URL carries no authority, so it may be shown to anybody."""
        return f"{self._base_url()}{LINK_PATH}{link.id}"

    def absolute_url(self, path: str) -> str:
        """Return the absolute URL of a path; raises LinkFailed if browsers must not be redirected to it."""
        uri = f"{self._base_url()}{path}"
        if not is_safe_url(uri):
            raise LinkFailed(_INSECURE_URL)
        return uri

    def redirect_uri(self, provider: Provider, endpoints: Endpoints) -> str:
        """Return the redirect URI, exactly as it is registered at the provider."""
        return self.absolute_url(callback_path(provider, endpoints))

    async def create(self, caller: Caller, request: LinkRequest) -> AccountLink:
        """Return a new link, or a pending one for the same request; raises LinkFailed or TooManyLinks."""
        user = caller.user
        if user is None:
            raise LinkFailed(_NO_USER)
        if request.how != "browser" and caller.acting_for is not None:
            raise LinkFailed(_NOT_DELEGABLE)
        if len(request.scopes) > _MAX_SCOPES or not all(map(is_scope, request.scopes)):
            raise LinkFailed("these are not scopes; list each one by itself, as the provider spells it")
        if request.how != "device":
            self.absolute_url(CALLBACK_PATH)
        now = self._clock()
        link = AccountLink(
            id=secrets.token_urlsafe(16),
            caller=caller.id,
            user=user,
            provider=request.provider.name,
            issuer=request.provider.identity,
            scopes=request.scopes,
            tool=request.tool,
            sealed=b"",
            how=request.how,
            created=now,
            expires=now + LINK_TTL_SECONDS,
        )
        if request.how == "browser":
            for each in await self.store.pending_links(caller.id):
                if _is_same_request(each, link) and each.expires > now + _MIN_REMAINING_SECONDS:
                    return each
        try:
            await self.store.add_link(link)
        except CoolingDown as refused:
            raise TooManyLinks(refused) from None
        return link

    async def pending(self, link_id: str, visitor: Caller) -> AccountLink:
        """Return a pending link of this visitor; raises LinkFailed, for other visitors as for unknown links."""
        link = await self.store.find_link(link_id)
        if link is None or link.state != "pending" or not can_use_link(link, visitor):
            raise LinkFailed
        return link

    async def start_authorization(
        self, link: AccountLink, provider: Provider, endpoints: Endpoints, browser: str
    ) -> PendingAuthorization:
        """Start an authorization, bound to the browser that gave consent; it replaces an earlier one."""
        attempt = PendingAuthorization(
            state=make_state(link.id, secrets.token_urlsafe(32)),
            verifier=Secret(secrets.token_urlsafe(48)),
            redirect_uri=self.redirect_uri(provider, endpoints),
            issuer=provider.identity,
            scopes=await self._linker.requested_scopes(link, provider),
            resource=provider.resource,
        )
        sealed = await self._encryption.encrypt_authorization(link, attempt)
        if await self.store.bind_link(link.id, browser, sealed) is None:
            raise LinkFailed
        return attempt

    async def current_authorization(self, link: AccountLink) -> PendingAuthorization:
        """Return the pending authorization of a link; raises LinkFailed."""
        attempt = await self._encryption.decrypt_authorization(link)
        if attempt is None:
            raise LinkFailed
        return attempt

    async def claim(
        self, state: str | None, how: LinkMethod, redirect_uri: str, browser: str = ""
    ) -> tuple[AccountLink, PendingAuthorization]:
        """Use up the link of a callback; raises LinkFailed. A guessed or repeated callback has no effect."""
        link_id = link_id_from_state(state)
        link = None if link_id is None else await self.store.find_link(link_id)
        if link is None or link.state != "pending" or link.how != how:
            raise LinkFailed
        attempt = await self.current_authorization(link)
        if not state_matches(attempt, state):
            raise LinkFailed
        if attempt.redirect_uri != redirect_uri:
            raise LinkFailed(ISSUER_MISMATCH)
        if await self.store.claim_link(link.id, browser) is None:
            raise LinkFailed
        return link, attempt


class DeviceFlow:
    """Links accounts by device code (RFC 8628): one polling task per code, which ends with the link."""

    def __init__(
        self,
        linker: AccountLinker,
        client: OAuthClient,
        discovery: ProviderDiscovery,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._linker = linker
        self._client = client
        self._discovery = discovery
        self._clock = clock
        self._sleep = sleep
        self.tasks = BackgroundTasks()
        self._sleeping: set[asyncio.Task[None]] = set()  # nothing is lost if these are cancelled
        self._closed = False

    async def start(self, link: AccountLink, provider: Provider) -> DeviceCode:
        """Request a device code and poll for its tokens; raises LinkFailed, ProviderRefused, ProviderUnreachable."""
        endpoints = await self._discovery.endpoints(provider)
        if endpoints.device_url is None:
            raise LinkFailed(f"{provider.name} has no codes for devices; connect it in a browser, or paste the address")
        scopes = await self._linker.requested_scopes(link, provider)
        reply = await self._client.post_form(provider, endpoints, endpoints.device_url, device_form(provider, scopes))
        code = parse_device_response(reply)
        poll = partial(self._poll, link, provider, endpoints, code, scopes)
        self.tasks.start(self._run(link, provider, poll))
        return code

    async def close(self) -> None:
        """Stop polling; tokens that a provider is returning right now are still saved."""
        self._closed = True
        for task in self._sleeping:
            task.cancel()
        await self.tasks.wait()

    async def _run(self, link: AccountLink, provider: Provider, poll: Callable[[], Awaitable[TokenResponse]]) -> None:
        try:
            await self._finish(link, provider, poll)
        except StoreFailed as failed:
            _LOG.warning("the account at %s cannot be kept: %s", provider.name, failed)

    async def _finish(
        self, link: AccountLink, provider: Provider, poll: Callable[[], Awaitable[TokenResponse]]
    ) -> None:
        store = self._linker.store
        try:
            granted = await poll()
            if await store.claim_link(link.id, "") is None:
                raise LinkFailed
            await self._linker.save_account(link, provider, granted)
            await store.end_link(link.id, "completed")
        except ToolhallError as failed:
            await store.end_link(link.id, "failed", failed.message)

    async def _pause(self, seconds: float) -> None:
        """Sleep; only here does `close` cancel a task."""
        task = asyncio.current_task()
        if task is None or self._closed:
            raise asyncio.CancelledError
        self._sleeping.add(task)
        try:
            await self._sleep(seconds)
        finally:
            self._sleeping.discard(task)

    async def _poll(
        self, link: AccountLink, provider: Provider, endpoints: Endpoints, code: DeviceCode, scopes: tuple[str, ...]
    ) -> TokenResponse:
        until = min(link.expires, self._clock() + code.expires_in)
        pause = code.interval
        while True:
            await self._pause(pause)
            if self._clock() >= until:
                raise LinkFailed("the code was not entered in time; start again")
            try:
                form = device_poll_form(code.device_code)
                reply = await self._client.post_form(provider, endpoints, endpoints.token_url, form)
                return parse_token_response(reply, provider, scopes, self._clock())
            except ProviderRefused as refusal:
                if refusal.code == "slow_down":
                    pause += SLOW_DOWN_SECONDS
                elif refusal.code != "authorization_pending":
                    raise LinkFailed(_refusal_message(refusal)) from None
            except ProviderUnreachable as error:
                _LOG.info("asking %s about a code failed: %s", provider.name, error)
                pause = min(pause * 2, _MAX_POLL_INTERVAL)


def _refusal_message(refusal: ProviderRefused) -> str:
    if refusal.code == "access_denied":
        return "access was denied: nothing was connected"
    if refusal.code == "expired_token":
        return "the code was not entered in time; start again"
    return f"the provider refused: {refusal.code}"


def can_use_link(link: AccountLink, visitor: Caller) -> bool:
    """Return whether the visitor is the link's user in person, not a program acting for that user."""
    return visitor.acting_for is None and visitor.user is not None and visitor.user == link.user


def nonce_digest(nonce: str) -> str:
    """Return the digest of the browser's nonce, which is what the store keeps."""
    return hashlib.sha256(nonce.encode(errors="surrogatepass")).hexdigest()


def _is_same_request(link: AccountLink, other: AccountLink) -> bool:
    names = ("user", "provider", "issuer", "scopes", "tool", "how")
    return all(getattr(link, name) == getattr(other, name) for name in names)
