"""UpstreamAccounts: the OAuth part of what the hall sends to an upstream, for one call or for the hall itself.

With `auth = "oauth"`, a call carries the token of its user's account `upstream:NAME`, which the equip stage has
fetched, and nothing else: neither the credential of the caller nor an account of another user. What the hall asks for
itself (handshakes and lists without a call) carries no token, except while a person who links or checks the upstream
lends it (`lend`). With `auth = "client_credentials"`, everything carries a token of the hall's own (HallTokens).

A refused request is answered in two steps. `refresh` renews the token once, however many calls were refused with it.
Where that does not help, `refusal` returns the error for the caller: a link with the scopes that the upstream wants.
"""

import contextlib
from collections.abc import Callable, Generator
from typing import TypeAlias

import msgspec

from toolhall.concurrency import SingleFlight, StillRunning
from toolhall.model.errors import NeedsRequirement, ToolhallError, Unavailable
from toolhall.model.messages import Call
from toolhall.model.requirements import AccountRequirement, AccountToken
from toolhall.model.secret import Secret
from toolhall.model.upstream import Upstream, UpstreamAuth
from toolhall.oauth.broker import Broker
from toolhall.oauth.client import OAuthClient, client_credentials_form, parse_token_response
from toolhall.oauth.protected_resource import INSUFFICIENT_SCOPE, parse_challenge
from toolhall.oauth.providers import (
    UPSTREAM_PREFIX,
    AddressRefused,
    DiscoveryFailed,
    ProviderRefused,
    ProviderUnreachable,
)
from toolhall.oauth.refresh import REFRESH_EARLY_SECONDS, WAIT_SECONDS
from toolhall.oauth.upstream_providers import UpstreamProviders

AccountHeaders: TypeAlias = tuple[tuple[str, str], ...]
FAILURE_SECONDS = 5.0  # a token that was refused is not asked for again so soon
RENEWED_SECONDS = 300.0  # how long a renewed token is remembered for redaction


def account_name(upstream: str) -> str:
    """Return the provider of the accounts at an upstream, as requirements name it."""
    return f"{UPSTREAM_PREFIX}{upstream}"


class HallToken(msgspec.Struct, frozen=True):
    """A token of the hall's own."""

    url: str | None  # of the upstream
    secret: Secret
    until: float


class HallTokens:
    """Gets and keeps the tokens of the hall's own accounts (client credentials, RFC 6749, 4.4), in memory only."""

    def __init__(self, providers: UpstreamProviders, client: OAuthClient, clock: Callable[[], float]) -> None:
        self._providers = providers
        self._client = client
        self._clock = clock
        self._tokens: dict[str, HallToken] = {}
        self._failed: dict[str, tuple[float, str]] = {}
        self._flights: SingleFlight[str, Secret] = SingleFlight()

    async def get(self, upstream: Upstream) -> Secret:
        """Return a valid token; raises Unavailable."""
        kept = self._tokens.get(upstream.name)
        if kept is not None and kept.url == upstream.settings.url and self._clock() < kept.until:
            return kept.secret
        until, reason = self._failed.get(upstream.name, (0.0, ""))
        if self._clock() < until:
            raise Unavailable(reason)
        try:
            return await self._flights.run(upstream.name, lambda: self._fetch(upstream), 2 * WAIT_SECONDS)
        except StillRunning:
            raise Unavailable(f"the hall's own token for {upstream.name} is not there yet; try again soon") from None

    def known(self, name: str) -> tuple[Secret, ...]:
        """Return the token that is kept for an upstream, to redact it."""
        kept = self._tokens.get(name)
        return () if kept is None else (kept.secret,)

    def drop(self, name: str) -> bool:
        """Drop a token that was refused; False if there is none."""
        return self._tokens.pop(name, None) is not None

    async def close(self) -> None:
        """Wait for running requests, and forget all tokens."""
        await self._flights.close()
        self._tokens.clear()

    async def _fetch(self, upstream: Upstream) -> Secret:
        try:
            provider = await self._providers.for_hall(upstream.name)
            if provider.endpoints is None:
                raise ProviderUnreachable("its endpoints are not known")
            url = provider.endpoints.token_url
            reply = await self._client.post_form(provider, provider.endpoints, url, client_credentials_form(provider))
            found = parse_token_response(reply, provider, provider.scopes, self._clock())
        except (ProviderRefused, ProviderUnreachable) as error:
            reason = f"the hall gets no token for {upstream.name}: {error}"
            self._failed[upstream.name] = self._clock() + FAILURE_SECONDS, reason
            raise Unavailable(reason) from None
        now = self._clock()
        life = 3_600.0 if found.expires_at is None else found.expires_at - now
        until = now + life - min(REFRESH_EARLY_SECONDS, life / 4)
        self._tokens[upstream.name] = HallToken(upstream.settings.url, found.access, until)
        return found.access


class UpstreamAccounts:
    """Headers with tokens for requests to upstreams, and what follows when an upstream refuses them."""

    def __init__(self, broker: Broker, hall_tokens: HallTokens, clock: Callable[[], float]) -> None:
        self._broker = broker
        self._hall_tokens = hall_tokens
        self._clock = clock
        self._lent: dict[str, str] = {}  # upstream to user
        self._renewed: dict[str, tuple[Secret, float]] = {}  # by the id of the call

    async def headers(self, upstream: Upstream, call: Call | None) -> AccountHeaders:
        """Return the `Authorization` header for a call, or for the hall's own requests; raises Unavailable."""
        token = await self._token(upstream, call)
        return () if token is None else (("authorization", f"Bearer {token.reveal()}"),)

    async def refresh(self, upstream: Upstream, call: Call | None, challenge: str | None) -> bool:
        """Renew the token that an upstream refused with 401, once; False if there is no other. Raises Unavailable."""
        if upstream.settings.auth == "client_credentials":
            return self._hall_tokens.drop(upstream.name)
        parsed = parse_challenge(challenge)
        if parsed is not None and parsed.error == INSUFFICIENT_SCOPE:
            return False
        name, user = account_name(upstream.name), self._user(upstream, call)
        refused = await self._token(upstream, call)
        if user is None or refused is None:
            self._broker.upstreams.notice(upstream.name, challenge)
            return False
        renewed = await self._broker.tokens.renew_token(user, name, refused)
        if renewed is None:
            return False
        if call is not None:
            self._remember(call.id, renewed.token)
        return True

    async def refusal(self, upstream: Upstream, call: Call, challenge: str | None) -> ToolhallError:
        """Return the error of a call that the upstream refused for its credential, with a new link where one helps."""
        name = account_name(upstream.name)
        parsed = self._broker.upstreams.notice(upstream.name, challenge)
        sent = _account_of(call, name)
        if upstream.settings.auth not in (None, "oauth") or call.caller.user is None:
            return Unavailable(
                f"the upstream {upstream.name} refuses the credential of this hall; its operator checks it"
            )
        wanted = parsed.scopes if parsed is not None and parsed.error == INSUFFICIENT_SCOPE else ()
        held = () if sent is None else sent.scopes
        if sent is not None and wanted and not set(wanted) - set(held):
            return Unavailable(
                f"the upstream {upstream.name} refuses a token that has every scope that it asks for"
                " (insufficient_scope); report it to whoever runs the upstream"
            )
        need = AccountRequirement(name, tuple(dict.fromkeys((*held, *wanted))) if wanted else ())
        missing, message = await self._broker.link_requirement(call.caller, need, call.tool)
        return NeedsRequirement(message, missing=[missing])

    async def detect(self, upstream: Upstream, challenge: str | None) -> UpstreamAuth:
        """Return how an upstream without a stated `auth`, which answered 401, wants to be called."""
        self._broker.upstreams.notice(upstream.name, challenge)
        try:
            return "none" if await self._broker.upstreams.resolve(upstream.name) is None else "oauth"
        except ProviderUnreachable as error:
            named = isinstance(error, DiscoveryFailed | AddressRefused) and parse_challenge(challenge) is not None
            return "oauth" if named else "none"

    async def discovery_fault(self, upstream: str) -> str | None:
        """Return why nobody can link an account with this upstream, and what to do; None if nothing is known to."""
        try:
            await self._broker.upstreams.resolve(upstream)
        except (DiscoveryFailed, AddressRefused) as failed:
            return str(failed)
        except ProviderUnreachable:
            return None
        return None

    @contextlib.contextmanager
    def lend(self, upstream: str, user: str) -> Generator[None]:
        """Use this user's account for the hall's own requests meanwhile: the user links or checks the upstream now."""
        self._lent[upstream] = user
        try:
            yield
        finally:
            self._lent.pop(upstream, None)

    def secrets(self, upstream: Upstream, call: Call | None) -> tuple[Secret, ...]:
        """Return the tokens that were sent and are not among the credentials of the call, to redact results of them."""
        renewed = None if call is None else self._renewed.get(call.id)
        return self._hall_tokens.known(upstream.name) + (() if renewed is None else (renewed[0],))

    async def close(self) -> None:
        """Wait for running requests, and forget the hall's own tokens."""
        await self._hall_tokens.close()
        self._renewed.clear()

    async def _token(self, upstream: Upstream, call: Call | None) -> Secret | None:
        if upstream.settings.auth == "client_credentials":
            return await self._hall_tokens.get(upstream)
        name = account_name(upstream.name)
        if call is None:
            user = self._lent.get(upstream.name)
            found = None if user is None else await self._broker.get_token(user, AccountRequirement(name))
            return None if found is None else found.token
        sent = _account_of(call, name)
        if sent is None or call.caller.user is None:
            return None
        renewed = self._renewed.get(call.id)
        return sent.token if renewed is None else renewed[0]

    def _user(self, upstream: Upstream, call: Call | None) -> str | None:
        return self._lent.get(upstream.name) if call is None else call.caller.user

    def _remember(self, call_id: str, token: Secret) -> None:
        """Use the renewed token for the rest of this call; those of calls that are over are dropped."""
        now = self._clock()
        for each in [each for each, (_, until) in self._renewed.items() if until < now]:
            del self._renewed[each]
        self._renewed[call_id] = token, now + RENEWED_SECONDS


def _account_of(call: Call, name: str) -> AccountToken | None:
    return None if call.credentials is None else call.credentials.accounts.get(name)
