"""Builds the components of a hall from its Config: SecurityComponents, CredentialSources and the Dispatcher.

SecurityComponents authenticates callers and keeps their API keys and grants, ApprovalComponents keeps approvals and
second factors, and CredentialSources resolves secrets and account tokens. `build_dispatcher` assembles the pipeline's
stages. What only a served hall needs (authentication, pages, the OAuth broker) is imported and built on first use;
settings that cannot work are refused by the constructors all the same.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from toolhall.app.data_dir import DataDir
from toolhall.authoring.declaration import BadDeclaration
from toolhall.authoring.definition import Definition, pages_of
from toolhall.config import FILE_NAME, BadConfig, Config
from toolhall.egress.addresses import BadAllowlistEntry, EgressAllowlist
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.execution.executor import FunctionExecutor
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.execution.worker_protocol import is_worker_process
from toolhall.model.caller import Caller
from toolhall.model.requirements import AccountRequirement, AccountToken, MissingRequirement
from toolhall.model.upstream import Upstream, UpstreamSettings
from toolhall.model.uri_template import UriTemplate
from toolhall.oauth.providers import BadProvider, build_provider
from toolhall.pipeline.access_rules import AccessRules, GrantRules
from toolhall.pipeline.approvals import ApprovalService
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.call_recorder import CallRecorder
from toolhall.pipeline.dispatcher import Dispatcher, call_id_generator
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Authorize, Find
from toolhall.pipeline.limit import Limit, RateLimits
from toolhall.pipeline.pipeline import Pipeline, Stages
from toolhall.pipeline.plans import CallPlans
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.rate_buckets import Rate
from toolhall.pipeline.resource_changes import ResourceChanges
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.second_factors import SecondFactors
from toolhall.pipeline.validate import Check, Validate
from toolhall.pipeline.verify import Verify
from toolhall.registration.access import AccessControl
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Shortlist, Snapshot
from toolhall.stores.access import Grant
from toolhall.stores.approvals import MemoryApprovalStore
from toolhall.stores.common import StoreFailed, WriteLock
from toolhall.stores.crypto import SealedBox
from toolhall.stores.factors import MemoryFactorStore
from toolhall.stores.vault.key_sources import KeyEncryptionKeys, NoKey, find_key_encryption_keys
from toolhall.stores.vault.vault import Vault
from toolhall.telemetry import Telemetry
from toolhall.web.public_url import PublicUrl

if TYPE_CHECKING:
    from toolhall.egress.client import EgressResponse
    from toolhall.http.authentication import AuthComponents
    from toolhall.oauth.broker import Broker
    from toolhall.oauth.upstream_accounts import UpstreamAccounts
    from toolhall.stores.accounts import Account, AccountStore
    from toolhall.stores.bundle import Stores
    from toolhall.web.approve import ApprovalPages
    from toolhall.web.sessions import BrowserSessions

_FACTORS_KEY_PURPOSE = "toolhall factors"  # an HKDF purpose: it must never change


class ApprovalComponents:
    """Approvals, second factors, and the pages on which people give them; in memory until `open`."""

    def __init__(self, config: Config, root_key: bytes) -> None:
        self.public_url = public_url = PublicUrl(config.public_url, config.port, config.host)
        self.approvals = ApprovalService(MemoryApprovalStore(time.time), lambda: public_url.url)
        sealed_box = SealedBox(root_key, _FACTORS_KEY_PURPOSE)
        self.factors = SecondFactors(MemoryFactorStore(time.time), sealed_box, time.time)
        self._name = config.name
        self._root_key = root_key

    @cached_property
    def pages(self) -> "ApprovalPages":
        """The pages, built on first use."""
        from toolhall.web.approve import ApprovalPages  # lazy: the pages and passkeys

        return ApprovalPages(self._name, self.public_url, self._root_key, self.approvals, self.factors, time.time)

    @property
    def sessions(self) -> "BrowserSessions":
        """The sign-in sessions of the pages."""
        return self.pages.sessions

    def open(self, stores: "Stores") -> None:
        """Keep approvals and second factors in these stores from now on."""
        self.approvals.store, self.factors.store = stores.approvals, stores.factors


class SecurityComponents:
    """The API keys and grants, and the authentication of requests.

    `on_rules_changed` gets the access rules whenever grants change. Where Cedar policies are configured, these decide
    alone, and grants change nothing.
    """

    def __init__(self, config: Config, root_key: bytes, on_rules_changed: Callable[[AccessRules], None]) -> None:
        self._config = config

        def on_grants_changed(grants: tuple[Grant, ...]) -> None:
            if config.cedar is None:
                on_rules_changed(GrantRules(grants))

        self.access = AccessControl(root_key, WriteLock(), time.time, on_grants_changed)
        if _configures_auth(config):
            _ = self.auth  # raises BadAuthSettings

    @cached_property
    def auth(self) -> "AuthComponents":
        """How requests are authenticated; built at once where settings say how, else on first use."""
        from toolhall.http.authentication import build_auth  # lazy: the HTTP layer

        return build_auth(self._config.name, self._config, self.access.ring, time.time)


def _configures_auth(config: Config) -> bool:
    """Whether any setting of authentication differs from the profile `local` as it is by default."""
    stated = (config.oxp_secret, config.resource, config.public_url)
    return config.profile != "local" or bool(config.issuers) or any(each is not None for each in stated)


def build_policy(config: Config) -> LevelPolicy:
    """The policy of a hall; its rules are Cedar policies, or else the grants that `set_rules` brings later."""
    return LevelPolicy(
        _cedar_rules(config.cedar),
        requirements=config.steps,
        overrides=config.levels,
        allow_anonymous=config.allow_anonymous,
        clock=time.time,
    )


def _cedar_rules(path: str | None) -> AccessRules | None:
    if path is None:
        return None
    from toolhall.pipeline.cedar import BadPolicies, CedarRules  # lazy: an extra that few halls use

    try:
        return CedarRules.read(Path(path))
    except BadPolicies as bad:
        raise BadConfig(str(bad)) from None


def check_egress_allow(config: Config) -> None:
    """Raise BadConfig for an entry of `egress_allow` that is no host, address or network."""
    try:
        EgressAllowlist(config.egress_allow)
    except BadAllowlistEntry as bad:
        raise BadConfig(str(bad)) from None


def config_for_process(config: Config) -> Config:
    """Remove data, recordings, providers, issuers and upstreams from the settings if this is a worker process.

    A tool's file may construct a hall. A worker process that imports the file must not open that hall's data directory,
    and it lacks the secrets of providers and issuers, which only the hall's own environment has.
    """
    return (
        msgspec.structs.replace(config, data=None, record=(), providers={}, issuers=(), upstreams={})
        if is_worker_process()
        else config
    )


def check_pages(added: Sequence[Definition], snapshot: Snapshot) -> None:
    """Raise BadDeclaration for a tool whose page nothing serves: a client would ask for it with every result."""
    templates = [UriTemplate(each.tool.resource.uri) for each in added if each.tool.resource is not None]
    for definition in added:
        for uri in pages_of(definition.tool):
            if snapshot.resources.match(uri) is None and all(each.match(uri) is None for each in templates):
                raise BadDeclaration(
                    f"{definition.source_location}: tool '{definition.tool.name}' has the page {uri}, and nothing"
                    f" serves that; add a function with @resource('{uri}') before the tool, or along with it"
                )


def resource_lookup(registry: Registry) -> Callable[[str, str], bool]:
    """Return what says whether a toolkit has a resource with a URI."""

    def has_resource(toolkit: str, uri: str) -> bool:
        found = registry.snapshot.resources.match(uri)
        return found is not None and found.value.tool.id.toolkit == toolkit

    return has_resource


def upstreams_from(config: Config) -> dict[str, Upstream]:
    """The upstreams that the settings name; in the profile `local`, they are the person's own word."""
    typed = config.profile == "local"
    return {
        name: Upstream(name=name, settings=settings, source="file", where=FILE_NAME, named_by_person=typed)
        for name, settings in config.upstreams.items()
    }


class CredentialSources:
    """The vault with its secrets and the broker of linked accounts; `base_url` is where people reach the hall's pages.

    The broker is built on first use. Until then `open` only remembers its store.
    """

    def __init__(self, config: Config, folder: Path | None, base_url: Callable[[], str]) -> None:
        try:
            keks = find_key_encryption_keys(config.vault_key, folder, profile=config.profile)
            if config.providers and config.profile == "server":
                _check_linkable(config, keks)
            self._providers = {name: build_provider(name, settings) for name, settings in config.providers.items()}
            self.vault = Vault(keks, time.time)
        except (BadProvider, StoreFailed) as bad:
            raise BadConfig(str(bad)) from None
        self.egress = _HallEgress(config.egress_allow)
        self._base_url = base_url
        self._accounts: AccountStore | None = None
        self._built_broker: Broker | None = None
        self._has_pages = True
        self.on_linked: Callable[[Account], None] | None = None  # called with each account that is linked
        self.upstream_settings: Callable[[str], UpstreamSettings | None] = lambda _: None  # by the upstream's name
        self.equip = Equip(self.vault, _BrokerOnDemand(self), config.accept_credentials)

    @property
    def broker(self) -> "Broker":
        """The broker of linked accounts, built on first use."""
        if self._built_broker is None:
            from toolhall.oauth.broker import Broker  # lazy: the OAuth client

            broker = Broker(self._providers, self.egress, self.vault, time.time, self._base_url)
            if self._accounts is not None:
                broker.open(self._accounts)
            broker.has_pages = self._has_pages
            broker.upstreams.settings_of = self._settings_of
            broker.call_on_linked(self._linked)
            self._built_broker = broker
        return self._built_broker

    def _linked(self, account: "Account") -> None:
        if self.on_linked is not None:
            self.on_linked(account)

    def _settings_of(self, upstream: str) -> UpstreamSettings | None:
        return self.upstream_settings(upstream)

    @cached_property
    def upstream_accounts(self) -> "UpstreamAccounts":
        """The tokens that the hall sends to upstreams."""
        from toolhall.oauth.client import OAuthClient  # lazy: the OAuth client
        from toolhall.oauth.upstream_accounts import HallTokens, UpstreamAccounts  # lazy: the OAuth client

        hall_tokens = HallTokens(self.broker.upstreams, OAuthClient(self.egress), time.time)
        return UpstreamAccounts(self.broker, hall_tokens, time.time)

    def without_pages(self) -> None:
        """Send nobody to the pages for linking accounts: this hall is not served over HTTP."""
        self._has_pages = False
        if self._built_broker is not None:
            self._built_broker.has_pages = False

    async def open(self, stores: "Stores") -> None:
        """Load secrets and accounts; raises StoreFailed, also if there are secrets but not their key."""
        await self.vault.open(stores.vault, needs_records=bool(self._providers))  # linked accounts are records
        self._accounts = stores.accounts
        if self._built_broker is not None:
            self._built_broker.open(stores.accounts)

    async def reload(self) -> None:
        """Load what other processes have changed."""
        await self.vault.refresh()
        if self._built_broker is not None:
            self._built_broker.reload()

    async def drain(self) -> None:
        """Finish what must not be lost: a token that was fetched is stored before the loop ends."""
        if "upstream_accounts" in vars(self):
            await self.upstream_accounts.close()
        if self._built_broker is not None:
            await self._built_broker.close()

    def close(self) -> None:
        """Forget the decrypted secrets."""
        self.vault.close()


class _HallEgress:
    """The client of the hall's own requests; `more` returns what it may reach now besides the settings."""

    def __init__(self, allow: tuple[str, ...]) -> None:
        self.more: Callable[[], tuple[str, ...]] = tuple
        self._allow = allow
        self._client = LazyEgressClient(allow, for_hall=True)

    @property
    def fetch(self) -> "Callable[..., Awaitable[EgressResponse]]":
        entries = (*self._allow, *self.more())
        if entries != self._client.allow:
            self._client = LazyEgressClient(entries, for_hall=True)
        return self._client.fetch


class _BrokerOnDemand:
    """The token source of the equip stage: builds the broker for the first tool that requires an account."""

    def __init__(self, sources: CredentialSources) -> None:
        self._sources = sources

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        return self._sources.broker.cached_token(user, need)

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        return await self._sources.broker.get_token(user, need)

    async def link_requirement(
        self, caller: Caller, need: AccountRequirement, tool: str
    ) -> tuple[MissingRequirement, str]:
        return await self._sources.broker.link_requirement(caller, need, tool)


def _check_linkable(config: Config, keks: KeyEncryptionKeys | NoKey) -> None:
    """Refuse providers on a server where no user could link an account."""
    if isinstance(keks, NoKey):
        raise BadConfig(f"'providers' are set up, and accounts are stored encrypted: {keks.fix}")
    if config.public_url is None:
        raise BadConfig("'providers' are set up, and people follow links to the hall: set public_url to what they use")


class Components(NamedTuple):
    """What the pipeline's stages are made of."""

    registry: Registry
    data_dir: DataDir
    policy: LevelPolicy
    verify: Verify
    equip: Equip
    executor: FunctionExecutor
    schema_checker: ProcessValidator
    telemetry: Telemetry


def build_dispatcher(config: Config, components: Components) -> Dispatcher:
    """Assemble the pipeline from these components, in the order of its stages."""
    policy, recordings = components.policy, components.data_dir.recordings
    limit = Limit(rate_limits_from(config), time.monotonic)
    changes = ResourceChanges()
    stages = Stages(
        find=Find(components.registry, policy, time.time),
        authorize=Authorize(policy),
        limit=limit,
        validate=Validate(components.schema_checker),
        verify=components.verify,
        equip=components.equip,
        run=Run(config.call_timeout, components.executor.activity, changes, explain=config.profile == "local"),
        check=Check(config.max_output_bytes, explain=config.profile == "local"),
        sanitize=Sanitize(),
        audit=Audit(components.data_dir.journal, time.time, time.monotonic),
        plans=CallPlans(components.registry, policy, limit.charges),
        record=CallRecorder(config.record, recordings, time.time) if recordings else None,
        telemetry=components.telemetry,
        changes=changes,
    )
    return Dispatcher(
        components.registry,
        policy,
        Pipeline(stages),
        new_id=call_id_generator(),
        timer=time.monotonic,
        shortlist=Shortlist(config.pinned, search=config.search),
    )


def rate_limits_from(config: Config) -> RateLimits:
    """Every rate and concurrency limit that the settings state."""
    running = config.concurrency.per_tool
    if running is None and config.profile == "server":
        running = -(-config.concurrency.total * 3 // 4)  # rounded up; the rest is for other tools
    return RateLimits(
        caller=Rate(config.calls_per_second, config.call_burst),
        tool=config.tool_limit,
        pair=config.pair_limit,
        costs=config.costs,
        running=running,
    )
