"""Builds the components of a hall from its Config: security, credentials, tool servers and the dispatcher.

SecurityComponents authenticates and authorizes callers, CredentialSources resolves secrets and account tokens, and
ToolServers holds the pools of tool servers. `build_dispatcher` assembles the pipeline's stages from these Components.
"""

import secrets
import time
from collections.abc import Callable
from ipaddress import IPv6Address
from pathlib import Path
from random import Random
from typing import NamedTuple

from toolhall.app.data_dir import DataDir
from toolhall.config import BadConfig, Config
from toolhall.egress.addresses import BadAllowlistEntry, EgressAllowlist, IpAddress
from toolhall.egress.lazy_client import LazyEgressClient
from toolhall.egress.resolver import Dialer
from toolhall.execution.executor import FunctionExecutor
from toolhall.execution.health_checks import DEGRADED, HEALTHY, worst_state
from toolhall.execution.remote.health_prober import HealthProber
from toolhall.execution.remote.http_transport import HttpTransport
from toolhall.execution.remote.leases import LeaseManager
from toolhall.execution.remote.remote_runner import RemoteRunner
from toolhall.execution.remote.replica import ToolkitVersion
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.http.authentication import build_auth, public_hosts
from toolhall.http.health import ComponentCheck
from toolhall.http.request_guard import LOOPBACK_HOSTS, RequestValidator
from toolhall.model.secret import Secret
from toolhall.oauth.broker import Broker
from toolhall.oauth.errors import BadProvider
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.authorize import Authorize
from toolhall.pipeline.call_recorder import CallRecorder
from toolhall.pipeline.cedar import BadPolicies, CedarRules
from toolhall.pipeline.check import Check
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Find
from toolhall.pipeline.limit import Limit, Rate, RateLimits
from toolhall.pipeline.pipeline import Pipeline, Stages
from toolhall.pipeline.policy import AccessRules, GrantRules, LevelPolicy
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.validate import Validate
from toolhall.pipeline.verify import Verify
from toolhall.registration.access import AccessControl
from toolhall.registration.records import RecordIndex
from toolhall.registration.store_sync import WriteLock
from toolhall.registry.listing import Shortlist
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Snapshot
from toolhall.stores.bundle import Stores
from toolhall.stores.common import StoreFailed
from toolhall.stores.grants import Grant
from toolhall.stores.vault.key_sources import KeyEncryptionKeys, NoKey, find_key_encryption_keys
from toolhall.stores.vault.vault import Vault
from toolhall.telemetry.metrics import Telemetry
from toolhall.web.page_routes import ApprovalComponents
from toolhall.web.public_url import PublicUrl


class SecurityComponents:
    """`follow` hears of the rules whenever they change; where Cedar policies decide, grants change nothing."""

    def __init__(
        self, config: Config, root_key: bytes, write_lock: WriteLock, on_rules_changed: Callable[[AccessRules], None]
    ) -> None:
        cedar = _cedar_rules(config.cedar)
        self.policy = LevelPolicy(
            cedar,
            requirements=config.steps,
            overrides=config.levels,
            allow_anonymous=config.allow_anonymous,
            clock=time.time,
        )

        def changed(grants: tuple[Grant, ...]) -> None:
            if cedar is None:
                on_rules_changed(GrantRules(grants))

        self.access = AccessControl(root_key, write_lock, time.time, changed)
        self.approval_components = ApprovalComponents(
            config.name, PublicUrl(config.public_url, config.port, config.host), root_key, time.time
        )
        self.auth = build_auth(config.name, config, self.access.ring, time.time)
        hosts = LOOPBACK_HOSTS | set(config.allowed_hosts) | public_hosts(config)
        self.request_validator = RequestValidator(hosts, max_body=config.max_body_bytes)

    async def open(self, stores: Stores) -> None:
        """Bring back who has a key, who was granted what, and what waits for a person; raises StoreFailed."""
        self.approval_components.open(stores)
        await self.access.open(stores)


def rate_limits_from(config: Config) -> RateLimits:
    """Every limit that is set."""
    caller = Rate(config.calls_per_second, config.call_burst)
    running = config.concurrency.per_tool
    if running is None and config.profile == "server":
        running = -(-config.max_concurrency * 3 // 4)  # the rest is for other tools
    return RateLimits(
        caller=caller, tool=config.tool_limit, pair=config.pair_limit, costs=config.costs, running=running
    )


def _cedar_rules(path: str | None) -> CedarRules | None:
    try:
        return None if path is None else CedarRules.read(Path(path))
    except BadPolicies as bad:
        raise BadConfig(str(bad)) from None


class CredentialSources:
    """`address` is where people reach the hall's pages."""

    def __init__(self, config: Config, folder: Path | None, base_url: Callable[[], str]) -> None:
        try:
            EgressAllowlist(config.egress_allow)
            keks = find_key_encryption_keys(config.vault_key, folder, profile=config.profile)
            if config.providers and config.profile == "server":
                _check_linkable(config, keks)
            self.vault = Vault(keks, time.time)
            outside = LazyEgressClient(config.egress_allow, for_hall=True)
            self.broker = Broker(config.providers, outside, self.vault, time.time, base_url)
        except (BadAllowlistEntry, BadProvider, StoreFailed) as bad:
            raise BadConfig(str(bad)) from None
        self.equip = Equip(self.vault, self.broker, config.accept_credentials)

    async def open(self, stores: Stores) -> None:
        """Bring back what is kept; raises StoreFailed, also where secrets are and their key is not."""
        await self.vault.open(stores.vault)
        await self.broker.open(stores.accounts)

    async def reload(self) -> None:
        """Take over what other processes changed."""
        await self.vault.refresh()
        await self.broker.reload()

    async def drain(self) -> None:
        """Finish what must not be lost: a token that was fetched is kept before anything ends."""
        await self.broker.close()

    def close(self) -> None:
        """Forget what was opened."""
        self.vault.close()


def _check_linkable(config: Config, keks: KeyEncryptionKeys | NoKey) -> None:
    """Where others are served, nobody could link an account without these."""
    if isinstance(keks, NoKey):
        raise BadConfig(f"'providers' are set up, and accounts are kept sealed: {keks.fix}")
    if config.public_url is None:
        raise BadConfig("'providers' are set up, and people follow links to the hall: set public_url to what they use")


class ToolServers:
    """Everything that concerns them, made once per hall."""

    def __init__(self, config: Config) -> None:
        self.pools = ReplicaPools(time.monotonic, Random())  # noqa: S311 - it only breaks ties
        self.leases = LeaseManager(self.pools, time.monotonic)
        self.runner = RemoteRunner(self.pools, config.idempotent)
        try:
            self._dialer = Dialer(EgressAllowlist(config.egress_allow))
        except BadAllowlistEntry as bad:
            raise BadConfig(str(bad)) from None
        self._is_server = config.profile == "server"
        self._max_bytes = config.max_frame_bytes
        self._prober = HealthProber(self.pools)
        self._served_toolkits: tuple[Snapshot | None, tuple[ToolkitVersion, ...]] = (
            None,
            (),
        )  # worked out once for each snapshot

    def transport_for(self, url: str, token: Secret, address: IpAddress | None) -> HttpTransport:
        """To a tool server that listens; it may live at the address that it joined from. EgressRefused elsewhere.

        In the profile `server` that is no address of this machine: a proxy that does not say so may stand here.
        """
        opens = address is not None and not (self._is_server and _is_loopback(address))
        dial = self._dialer.with_address(address) if address is not None and opens else self._dialer
        return HttpTransport(url, token, dial, self._max_bytes)

    def toolkit_states(self, snapshot: Snapshot, index: RecordIndex) -> dict[str, str]:
        """How the toolkits are that tool servers run, or should: one with a version that nothing runs is degraded."""
        if self._served_toolkits[0] is not snapshot:
            kept = [each.record for each in index.all if each.record.origin == "tool-server"]
            self._served_toolkits = (
                snapshot,
                tuple({(each.toolkit, each.version) for each in kept if each.state == "active"}),
            )
        unserved = {
            toolkit: DEGRADED
            for toolkit, version in self._served_toolkits[1]
            if not self.pools.has_replicas((toolkit, version))
        }
        states = self.pools.toolkit_states()
        return {
            **unserved,
            **{name: worst_state((state, unserved.get(name, HEALTHY))) for name, state in states.items()},
        }

    def follow_key_changes(self, access: AccessControl) -> None:
        """From now on, whose key is revoked is called no more."""
        access.keys.on_change.append(self.leases.recheck_credentials)

    def watch(self) -> None:
        """Notice who is gone and who does not answer, in the loop that runs now."""
        self.leases.start()
        self._prober.start()

    def suspend(self) -> None:
        """Keep no task, and no connection that no call needs: those of a loop that ends lead nowhere."""
        self._prober.close()
        for replica in self.pools:
            replica.transport.close_idle()

    def close(self) -> None:
        """Nobody is there any more."""
        self._prober.close()
        self.leases.close()


def _is_loopback(address: IpAddress) -> bool:
    plain = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
    return plain.is_loopback


class Components(NamedTuple):
    """What a call meets on its way."""

    registry: Registry
    data_dir: DataDir
    security: SecurityComponents
    verify: Verify
    credentials: CredentialSources
    executor: FunctionExecutor
    schema_checker: ProcessValidator
    telemetry: Telemetry
    tool_servers: ToolServers
    check_health: ComponentCheck


def build_dispatcher(config: Config, components: Components) -> Dispatcher:
    """A hall over these parts."""
    policy, recordings = components.security.policy, components.data_dir.recordings
    stages = Stages(
        find=Find(components.registry, policy, time.time),
        authorize=Authorize(policy),
        limit=Limit(rate_limits_from(config), time.monotonic),
        validate=Validate(components.schema_checker),
        verify=components.verify,
        equip=components.credentials.equip,
        run=Run(config.call_timeout, components.executor.activity, explain=config.profile == "local"),
        check=Check(config.max_output_bytes, explain=config.profile == "local"),
        sanitize=Sanitize(),
        audit=Audit(components.data_dir.journal, time.time, time.monotonic),
        record=CallRecorder(config.record, recordings, time.time) if recordings else None,
        telemetry=components.telemetry,
    )
    shortlist = Shortlist(config.pinned, search=config.search)
    return Dispatcher(
        components.registry,
        policy,
        Pipeline(stages),
        new_id=call_id_generator(),
        timer=time.monotonic,
        shortlist=shortlist,
    )


def call_id_generator() -> Callable[[], str]:
    """Ids that never repeat: a random start for this process, then a count."""
    start, count = secrets.token_hex(6), iter(range(1, 2**63))
    return lambda: f"{start}-{next(count)}"
