"""The tool servers of a hall: who has joined, how each is, and who runs what."""

import time
from ipaddress import IPv6Address
from random import Random

from toolhall.config import BadConfig, Config
from toolhall.egress.addresses import Address, Allowed, BadEntry
from toolhall.egress.dialing import Dial
from toolhall.model.secret import Secret
from toolhall.registrar.access import Access
from toolhall.registrar.ledger import Ledger
from toolhall.registry.snapshot import Snapshot
from toolhall.runners.checkup import DEGRADED, HEALTHY, worst
from toolhall.runners.hub.http_line import HttpLine
from toolhall.runners.hub.leases import Leases
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.probing import Probing
from toolhall.runners.hub.replica import Kit
from toolhall.runners.hub.runner import HubRunner


class ToolServers:
    """Everything that concerns them, made once per hall."""

    def __init__(self, config: Config) -> None:
        self.pools = Pools(time.monotonic, Random())  # noqa: S311 - it only breaks ties
        self.leases = Leases(self.pools, time.monotonic)
        self.runner = HubRunner(self.pools, config.idempotent)
        try:
            self._dial = Dial(Allowed(config.egress_allow))
        except BadEntry as bad:
            raise BadConfig(str(bad)) from None
        self._is_server = config.profile == "server"
        self._most_bytes = config.max_frame_bytes
        self._probing = Probing(self.pools)
        self._served: tuple[Snapshot | None, tuple[Kit, ...]] = (None, ())  # worked out once for each snapshot

    def line(self, url: str, token: Secret, address: Address | None) -> HttpLine:
        """To a tool server that listens; it may live at the address that it joined from. EgressRefused elsewhere.

        In the profile `server` that is no address of this machine: a proxy that does not say so may stand here.
        """
        opens = address is not None and not (self._is_server and _is_here(address))
        dial = self._dial.beside(address) if address is not None and opens else self._dial
        return HttpLine(url, token, dial, self._most_bytes)

    def states(self, snapshot: Snapshot, ledger: Ledger) -> dict[str, str]:
        """How the toolkits are that tool servers run, or should: one with a version that nothing runs is degraded."""
        if self._served[0] is not snapshot:
            kept = [each.kept for each in ledger.all if each.kept.origin == "tool-server"]
            self._served = snapshot, tuple({(each.toolkit, each.version) for each in kept if each.state == "active"})
        unserved = {
            toolkit: DEGRADED for toolkit, version in self._served[1] if not self.pools.runs((toolkit, version))
        }
        states = self.pools.toolkit_states()
        return {**unserved, **{name: worst((state, unserved.get(name, HEALTHY))) for name, state in states.items()}}

    def obey(self, access: Access) -> None:
        """From now on, whose key is revoked is called no more."""
        access.keys.changed.append(self.leases.keys_changed)

    def watch(self) -> None:
        """Notice who is gone and who does not answer, in the loop that runs now."""
        self.leases.watch()
        self._probing.watch()

    def rest(self) -> None:
        """Keep no task, and no connection that no call needs: those of a loop that ends lead nowhere."""
        self._probing.close()
        for replica in self.pools:
            replica.line.rest()

    def close(self) -> None:
        """Nobody is there any more."""
        self._probing.close()
        self.leases.close()


def _is_here(address: Address) -> bool:
    plain = (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
    return plain.is_loopback
