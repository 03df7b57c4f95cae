"""The tool servers of a hall: who has joined, how each is, and who runs what."""

import time
from random import Random

from toolhall.config import Config
from toolhall.egress.addresses import Address, Allowed
from toolhall.egress.dialing import Dial
from toolhall.model.secret import Secret
from toolhall.runners.hub.http_line import HttpLine
from toolhall.runners.hub.leases import Leases
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.probing import Probing
from toolhall.runners.hub.runner import HubRunner


class ToolServers:
    """Everything that concerns them, made once per hall."""

    def __init__(self, config: Config) -> None:
        self.pools = Pools(time.monotonic, Random())  # noqa: S311 - it only breaks ties
        self.leases = Leases(self.pools, time.monotonic)
        self.runner = HubRunner(self.pools, config.idempotent)
        self._dial = Dial(Allowed(config.egress_allow))
        self._most_bytes = config.max_frame_bytes
        self._probing = Probing(self.pools)

    def line(self, url: str, token: Secret, address: Address | None) -> HttpLine:
        """To a tool server that listens; it may live at the address that it joined from. EgressRefused elsewhere."""
        dial = self._dial if address is None else self._dial.beside(address)
        return HttpLine(url, token, dial, self._most_bytes)

    def watch(self) -> None:
        """Notice who is gone and who does not answer, in the loop that runs now."""
        self.leases.watch()
        self._probing.watch()

    def close(self) -> None:
        """Nobody is there any more."""
        self._probing.close()
        self.leases.close()
