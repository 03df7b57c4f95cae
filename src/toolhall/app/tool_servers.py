"""ToolServers: the replicas of joined tool servers, their leases, health probes and outgoing connections."""

import time
from collections.abc import Callable
from ipaddress import IPv6Address
from random import Random

from toolhall.config import BadConfig, Config
from toolhall.egress.addresses import BadAllowlistEntry, EgressAllowlist, IpAddress
from toolhall.egress.resolver import Dialer
from toolhall.execution.health_checks import DEGRADED, HEALTHY, worst_state
from toolhall.execution.remote.http_transport import HttpTransport
from toolhall.execution.remote.leases import LeaseManager
from toolhall.execution.remote.remote_runner import HasResource, RemoteRunner
from toolhall.execution.remote.replica import ToolkitVersion
from toolhall.execution.remote.replica_pools import HealthProber, ReplicaPools
from toolhall.model.secret import Secret
from toolhall.registration.records import RecordIndex
from toolhall.registry.snapshot import Snapshot


class ToolServers:
    """The tool servers of one hall: pools of replicas, leases, and the runner that calls their tools."""

    def __init__(self, config: Config, note_server: Callable[[str, str], None], has_resource: HasResource) -> None:
        self.pools = ReplicaPools(time.monotonic, Random())  # noqa: S311 - it only breaks ties
        self.leases = LeaseManager(self.pools, time.monotonic)
        self.runner = RemoteRunner(self.pools, config.idempotent, note_server=note_server, has_resource=has_resource)
        try:
            self._dialer = Dialer(EgressAllowlist(config.egress_allow))
        except BadAllowlistEntry as bad:
            raise BadConfig(str(bad)) from None
        self._is_server = config.profile == "server"
        self._max_bytes = config.max_frame_bytes
        self._prober = HealthProber(self.pools)
        self._active_toolkits: tuple[Snapshot | None, tuple[ToolkitVersion, ...]] = (None, ())  # cached per snapshot

    def transport_for(self, url: str, token: Secret, address: IpAddress | None) -> HttpTransport:
        """Create the transport to a tool server that listens at `url`; raises EgressRefused.

        Besides the addresses of `egress_allow`, it may connect to the address that the tool server joined from. In the
        profile `server` that may not be a loopback address: a proxy on this machine that does not forward the client's
        address would open every local port.
        """
        allowed = address is not None and not (self._is_server and _is_loopback(address))
        dialer = self._dialer.with_address(address) if address is not None and allowed else self._dialer
        return HttpTransport(url, token, dialer, self._max_bytes)

    def toolkit_states(self, snapshot: Snapshot, index: RecordIndex) -> dict[str, str]:
        """Return the health of each toolkit of tool servers; an active version without a replica makes it degraded."""
        if self._active_toolkits[0] is not snapshot:
            records = [each.record for each in index.all if each.record.origin == "tool-server"]
            active = {(each.toolkit, each.version) for each in records if each.state == "active"}
            self._active_toolkits = snapshot, tuple(active)
        unserved = {
            toolkit: DEGRADED
            for toolkit, version in self._active_toolkits[1]
            if not self.pools.has_replicas((toolkit, version))
        }
        states = self.pools.toolkit_states()
        return {
            **unserved,
            **{name: worst_state((state, unserved.get(name, HEALTHY))) for name, state in states.items()},
        }

    def watch(self) -> None:
        """Expire leases and probe unresponsive replicas, in the running loop."""
        self.leases.start()
        self._prober.start()

    def suspend(self) -> None:
        """Stop probing and close idle connections, because the loop that they belong to ends."""
        self._prober.close()
        for replica in self.pools:
            replica.transport.close_idle()

    def close(self) -> None:
        """Stop probing and end all leases."""
        self._prober.close()
        self.leases.close()


def _is_loopback(address: IpAddress) -> bool:
    plain = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
    return plain.is_loopback
