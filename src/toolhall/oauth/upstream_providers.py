"""UpstreamProviders discovers where the accounts of an upstream are; ProviderDirectory: these and the configured ones.

Theory of operation
-------------------
A person's account at an upstream is an account at the authorization server that the upstream names. Nobody configures
it: the provider `upstream:NAME` is made when it is first needed, out of what the network says, in this order:

1. The challenge with which the upstream refuses a request names its metadata and scopes. One that the gateway has met
   is remembered (`notice`); else the upstream is asked once.
2. The protected resource metadata (RFC 9728) names the authorization servers; see `protected_resource` for what is
   believed. Without such metadata, the upstream's own origin is the authorization server, as in the revision
   2025-03-26: with metadata there, or else with fixed paths.
3. The metadata of the first authorization server that can be used names the endpoints. It must name the issuer that it
   was asked for.
4. ClientIdentities says who the hall is there.

What was found is kept for an hour, and for as long as discovery fails after that. A failure is kept for some seconds,
so that an upstream whose authorization server is away is not asked by every call. A token is used only with the issuer
and the resource that it was made for: if either changes, the person links the account again (`Provider.identity`).
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec

from toolhall.concurrency import SingleFlight, StillRunning
from toolhall.model.json import Json
from toolhall.model.upstream import UpstreamSettings
from toolhall.oauth.client import OAuthClient
from toolhall.oauth.client_identity import ClientIdentities
from toolhall.oauth.discovery import metadata_urls, read_metadata
from toolhall.oauth.protected_resource import (
    INSUFFICIENT_SCOPE,
    Challenge,
    UpstreamResource,
    canonical_resource,
    origin_of,
    parse_challenge,
    read_resource_metadata,
    resource_metadata_urls,
)
from toolhall.oauth.providers import (
    GENERIC,
    UPSTREAM_PREFIX,
    AddressRefused,
    DiscoveryFailed,
    Endpoints,
    Provider,
    ProviderUnreachable,
    UnknownProvider,
)

KEPT_SECONDS = 3_600.0
FAILURE_SECONDS = 5.0
WAIT_SECONDS = 20.0
OFFLINE_ACCESS = "offline_access"
_NO_METADATA = (
    "the upstream {} wants a credential and publishes no OAuth metadata. If it takes a key, write"
    ' headers = {{Authorization = "Bearer ${{secret:NAME}}"}} into its settings; else {}'
)
SettingsOf: TypeAlias = Callable[[str], UpstreamSettings | None]
_LOG = logging.getLogger("toolhall.accounts.upstreams")


def no_upstream(name: str) -> UpstreamSettings | None:  # noqa: ARG001
    """Return None: the settings of a hall without upstreams."""
    return None


class DiscoveredProvider(msgspec.Struct, frozen=True):
    """What was found for an upstream, and until when that is not looked up again."""

    url: str  # of the upstream
    provider: Provider | None
    failure: ProviderUnreachable | None
    until: float


class UpstreamProviders:
    """Discovers the providers of upstreams; `settings_of` returns the settings of an upstream by its name."""

    def __init__(self, client: OAuthClient, identities: ClientIdentities, clock: Callable[[], float]) -> None:
        self.settings_of: SettingsOf = no_upstream
        self._client = client
        self._identities = identities
        self._clock = clock
        self._found: dict[str, DiscoveredProvider] = {}
        self._challenges: dict[str, Challenge] = {}
        self._flights: SingleFlight[str, Provider] = SingleFlight()

    def settings(self, upstream: str) -> UpstreamSettings | None:
        """Return the settings of an upstream with a URL; None for all others."""
        found = self.settings_of(upstream)
        return found if found is not None and found.url is not None else None

    def known(self, upstream: str) -> Provider | None:
        """Return what was found before, without asking anybody."""
        found, settings = self._found.get(upstream), self.settings(upstream)
        return None if found is None or settings is None or found.url != settings.url else found.provider

    def all_known(self) -> tuple[Provider, ...]:
        """Return every provider that was found."""
        return tuple(each for name in sorted(self._found) if (each := self.known(name)) is not None)

    async def resolve(self, upstream: str) -> Provider | None:
        """Return the provider of an upstream; None if there is no such upstream. Raises ProviderUnreachable."""
        settings = self.settings(upstream)
        if settings is None or settings.url is None:
            return None
        url, found = settings.url, self._found.get(upstream)
        if found is not None and found.url == url and self._clock() < found.until:
            if found.provider is not None:
                return found.provider
            raise found.failure or ProviderUnreachable(f"the authorization server of {upstream} is not known")
        try:
            return await self._flights.run(upstream, lambda: self._refreshed(upstream, url), WAIT_SECONDS)
        except StillRunning:
            raise ProviderUnreachable(f"the authorization server of {upstream} does not answer in time") from None

    def notice(self, upstream: str, header: str | None) -> Challenge | None:
        """Remember how an upstream refused a request, and look up its provider again; returns the challenge.

        Scopes that only some calls need are not remembered: not everybody is asked for them.
        """
        challenge = parse_challenge(header)
        if challenge is not None and challenge.error != INSUFFICIENT_SCOPE and self.settings(upstream) is not None:
            self._challenges[upstream] = challenge
            self._expire(upstream)
        return challenge

    async def client_refused(self, provider: Provider) -> None:
        """Register again for the next link: the provider does not know the hall any more."""
        if provider.is_upstream and provider.issuer is not None:
            _LOG.warning("%s does not know this hall any more; the next link registers it again", provider.issuer)
            await self._identities.forget(provider.issuer, provider.client_id)
            self._expire(provider.name.removeprefix(UPSTREAM_PREFIX))

    async def close(self) -> None:
        """Wait for running discoveries and registrations."""
        await self._flights.close()
        await self._identities.close()

    async def for_hall(self, upstream: str) -> Provider:
        """Return the provider that gives the hall a token of its own; raises ProviderUnreachable."""
        settings = self.settings(upstream)
        url = None if settings is None else settings.url
        if url is None:
            raise DiscoveryFailed(f"there is no upstream {upstream} with a url")
        protected = await self._resource(url, parse_challenge(await self._client.probe(url)))
        issuer, endpoints = await self._first_usable(upstream, protected, for_people=False)
        configured = self._identities.configured(issuer, upstream)
        if configured is None or (configured.client_secret is None and configured.client_key is None):
            raise DiscoveryFailed(
                f"the hall has no client at {issuer} for its own account: add [providers.{upstream}] with"
                f' issuer = "{issuer}", client_id, client_secret and upstreams = ["{upstream}"]'
            )
        return msgspec.structs.replace(
            configured,
            name=f"{UPSTREAM_PREFIX}{upstream}",
            endpoints=msgspec.structs.replace(endpoints, token_auth=configured.token_auth or endpoints.token_auth),
            resource=protected.resource,
            scopes=configured.scopes or protected.scopes,
        )

    def _expire(self, upstream: str) -> None:
        """Have the provider looked up again at its next use; it stays known if that fails."""
        found = self._found.get(upstream)
        if found is not None:
            self._found[upstream] = msgspec.structs.replace(found, until=0.0)

    async def _refreshed(self, upstream: str, url: str) -> Provider:
        before = self.known(upstream)
        try:
            provider = await self._discovered(upstream, url)
        except DiscoveryFailed as failed:  # it did answer, so what was known is not true any more
            self._found[upstream] = DiscoveredProvider(url, None, failed, self._clock() + FAILURE_SECONDS)
            raise
        except ProviderUnreachable as failed:
            self._found[upstream] = DiscoveredProvider(url, before, failed, self._clock() + FAILURE_SECONDS)
            if before is None:
                raise
            _LOG.warning("the authorization server of %s is used as it was known: %s", upstream, failed)
            return before
        self._found[upstream] = DiscoveredProvider(url, provider, None, self._clock() + KEPT_SECONDS)
        return provider

    async def _discovered(self, upstream: str, url: str) -> Provider:
        challenge = self._challenges.get(upstream) or parse_challenge(await self._client.probe(url))
        protected = await self._resource(url, challenge)
        issuer, endpoints = await self._first_usable(upstream, protected)
        try:
            identity = await self._identities.find(issuer, endpoints, upstream)
        except DiscoveryFailed as failed:
            raise failed if protected.is_published else DiscoveryFailed(_NO_METADATA.format(upstream, failed)) from None
        configured = self._identities.configured(issuer, upstream)
        return Provider(
            name=f"{UPSTREAM_PREFIX}{upstream}",
            issuer=issuer,
            endpoints=msgspec.structs.replace(endpoints, token_auth=identity.token_auth),
            client_id=identity.client_id,
            client_secret=identity.client_secret,
            client_key=identity.client_key,
            token_auth=identity.token_auth,
            scopes=_wanted_scopes(challenge, protected, endpoints),
            authorize_params={} if configured is None else configured.authorize_params,
            resource=protected.resource,
            preset=GENERIC if configured is None else configured.preset,
            callback=identity.callback,
        )

    async def _resource(self, url: str, challenge: Challenge | None) -> UpstreamResource:
        """Return what the upstream says of itself, or else what the revision 2025-03-26 takes for granted."""
        for place in resource_metadata_urls(url, challenge):
            try:
                document = await self._client.find_document(place)
            except AddressRefused as refused:  # the upstream's own address: whoever named it knows it
                raise DiscoveryFailed(str(refused)) if origin_of(place) == origin_of(url) else refused from None
            found = None if document is None else read_resource_metadata(document, url)
            if found is not None:
                return found
        return UpstreamResource(resource=canonical_resource(url), issuers=(origin_of(url),), is_published=False)

    async def _first_usable(
        self, upstream: str, protected: UpstreamResource, *, for_people: bool = True
    ) -> tuple[str, Endpoints]:
        """Return the first authorization server that can be used, and its endpoints; raises ProviderUnreachable."""
        problem: ProviderUnreachable | None = None
        for issuer in protected.issuers:
            try:
                found = await self._endpoints(upstream, issuer, for_people=for_people)
            except ProviderUnreachable as error:
                problem = problem or error
                continue
            if found is not None:
                return found
        if not protected.is_published and problem is None:
            return protected.issuers[0], _fixed_paths(protected.issuers[0])
        raise problem or DiscoveryFailed(
            f"the authorization server {protected.issuers[0]} publishes no metadata; report it to whoever runs it"
        )

    async def _endpoints(self, upstream: str, issuer: str, *, for_people: bool) -> tuple[str, Endpoints] | None:
        """Return the issuer as it names itself, and its endpoints; None without metadata."""
        configured = self._identities.configured(issuer, upstream)
        if configured is not None and configured.endpoints is not None:
            return issuer, configured.endpoints
        for place in metadata_urls(issuer):
            document = await self._client.find_document(place)
            if document is None:
                continue
            exact = _own_spelling(issuer, document.get("issuer"))
            try:
                return exact, read_metadata(document, _draft_provider(upstream, exact), for_people=for_people)
            except ProviderUnreachable as error:
                raise DiscoveryFailed(f"the authorization server {issuer} cannot be used: {error}") from None
        return None


class ProviderDirectory:
    """All providers at which people have accounts: configured ones by name, and `upstream:NAME`."""

    def __init__(self, configured: Mapping[str, Provider], upstreams: UpstreamProviders) -> None:
        self._configured = configured
        self.upstreams = upstreams

    def known(self, name: str) -> Provider | None:
        """Return a provider without asking anybody; None if an upstream's was not discovered yet."""
        found = self._configured.get(name)
        if found is None and name.startswith(UPSTREAM_PREFIX):
            return self.upstreams.known(name.removeprefix(UPSTREAM_PREFIX))
        return found

    async def find(self, name: str) -> Provider | None:
        """Return a provider; None if there is none of this name. Raises ProviderUnreachable."""
        found = self._configured.get(name)
        if found is None and name.startswith(UPSTREAM_PREFIX):
            return await self.upstreams.resolve(name.removeprefix(UPSTREAM_PREFIX))
        return found

    async def get(self, name: str) -> Provider:
        """Return a provider; raises UnknownProvider or ProviderUnreachable."""
        found = await self.find(name)
        if found is None:
            raise UnknownProvider(name, tuple(self._configured))
        return found

    def exists(self, name: str) -> bool:
        """Return whether accounts at this provider may be linked."""
        if name.startswith(UPSTREAM_PREFIX):
            return self.upstreams.settings(name.removeprefix(UPSTREAM_PREFIX)) is not None
        return name in self._configured

    def all_known(self) -> tuple[Provider, ...]:
        """Return the configured providers, and those that were discovered."""
        return (*self._configured.values(), *self.upstreams.all_known())


def _wanted_scopes(challenge: Challenge | None, protected: UpstreamResource, endpoints: Endpoints) -> tuple[str, ...]:
    """Return the scopes to ask for: of the challenge, else all that the upstream announces.

    A grant without `offline_access` ends with its first token where the authorization server knows that scope.
    """
    wanted = (challenge.scopes if challenge is not None else ()) or protected.scopes
    offline = (OFFLINE_ACCESS,) if wanted and OFFLINE_ACCESS in endpoints.scopes else ()
    return tuple(dict.fromkeys((*wanted, *offline)))


def _own_spelling(issuer: str, named: Json) -> str:
    """Return an issuer as its metadata spells it: an empty path and `/` are one URL, with one place for metadata."""
    is_root = urlsplit(issuer).path in ("", "/")
    return named if is_root and isinstance(named, str) and named.rstrip("/") == issuer.rstrip("/") else issuer


def _fixed_paths(origin: str) -> Endpoints:
    """The endpoints of a server of the revision 2025-03-26 that publishes no metadata."""
    return Endpoints(
        authorize_url=f"{origin}/authorize",
        token_url=f"{origin}/token",
        register_url=f"{origin}/register",
        token_auth="none",  # noqa: S106 - a method
    )


def _draft_provider(upstream: str, issuer: str) -> Provider:
    """The provider before its endpoints and the hall's identity are known."""
    return Provider(
        name=f"{UPSTREAM_PREFIX}{upstream}",
        issuer=issuer,
        endpoints=None,
        client_id="",
        client_secret=None,
        token_auth=None,
        scopes=(),
        authorize_params={},
        resource=None,
        preset=GENERIC,
    )
