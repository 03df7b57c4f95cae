"""The tool servers of a hall: who has joined, how each is, and who runs what."""

import time
from random import SystemRandom

from toolhall.config import Config
from toolhall.egress.addresses import Allowed
from toolhall.egress.dialing import Dial
from toolhall.runners.hub.leases import Leases
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.probing import Probing
from toolhall.runners.hub.runner import HubRunner


class ToolServers:
    """Everything that concerns them, made once per hall."""

    def __init__(self, config: Config) -> None:
        self.pools = Pools(time.monotonic, SystemRandom())
        self.leases = Leases(self.pools, time.monotonic)
        self.runner = HubRunner(self.pools, config.idempotent)
        self.dial = Dial(Allowed(config.egress_allow))
        self._probing = Probing(self.pools)

    def watch(self) -> None:
        """Notice who is gone and who does not answer, in the loop that runs now."""
        self.leases.watch()
        self._probing.watch()

    def close(self) -> None:
        """Nobody is there any more."""
        self._probing.close()
        self.leases.close()
