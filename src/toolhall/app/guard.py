"""Who comes in, who may call what, and who is asked: built from the settings."""

import time
from collections.abc import Callable
from pathlib import Path

from toolhall.config import BadConfig, Config
from toolhall.pipeline.cedar import BadPolicies, CedarRules
from toolhall.pipeline.grants import Rulings
from toolhall.pipeline.limit import Rate, Rates
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.rulings import Rules
from toolhall.registrar.access import Access
from toolhall.registrar.turns import Turns
from toolhall.stores.bundle import Stores
from toolhall.stores.grants.base import Grant
from toolhall.transports.door import build_door, hosts_of
from toolhall.transports.pages.building import People
from toolhall.transports.pages.place import Place
from toolhall.transports.shield import LOOPBACK_HOSTS, Shield


class Guard:
    """`follow` hears of the rules whenever they change; where Cedar policies decide, grants change nothing."""

    def __init__(self, config: Config, root: bytes, turns: Turns, follow: Callable[[Rules], None]) -> None:
        cedar = _policies(config.cedar)
        self.policy = LevelPolicy(
            cedar,
            steps=config.steps,
            overrides=config.levels,
            allow_anonymous=config.allow_anonymous,
            clock=time.time,
        )

        def changed(grants: tuple[Grant, ...]) -> None:
            if cedar is None:
                follow(Rulings(grants))

        self.access = Access(root, turns, time.time, changed)
        self.people = People(config.name, Place(config.public_url, config.port, config.host), root, time.time)
        self.door = build_door(config.name, config, self.access.ring, time.time)
        hosts = LOOPBACK_HOSTS | set(config.allowed_hosts) | hosts_of(config)
        self.shield = Shield(hosts, max_body=config.max_body_bytes)

    async def open(self, stores: Stores) -> None:
        """Bring back who has a key, who was granted what, and what waits for a person; raises StoreFailed."""
        self.people.open(stores)
        await self.access.open(stores)


def rates_of(config: Config) -> Rates:
    """Every limit that is set."""
    caller = Rate(config.calls_per_second, config.call_burst)
    running = config.concurrency.per_tool
    if running is None and config.profile == "server":
        running = -(-config.max_concurrency * 3 // 4)  # the rest is for other tools
    return Rates(caller=caller, tool=config.tool_limit, pair=config.pair_limit, costs=config.costs, running=running)


def _policies(path: str | None) -> CedarRules | None:
    try:
        return None if path is None else CedarRules.read(Path(path))
    except BadPolicies as bad:
        raise BadConfig(str(bad)) from None
