"""`/health`: whether the hall stands, what state its parts are in, and whether it takes calls."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.hall import Hall
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject, encode
from toolhall.registry.snapshot import Snapshot
from toolhall.runners.checkup import HEALTHY, UNHEALTHY, worst
from toolhall.transports.exchange import Exchange

_STARTED = time.monotonic()
_ALIVE = Wire(b'{"status":"alive"}')
_READY = Wire(b'{"status":"ready"}')
_STOPPING = Wire(b'{"status":"stopping"}', 503)


def sound() -> str:
    """The state of a core that nothing is wrong with."""
    return HEALTHY


class Vitals(msgspec.Struct, frozen=True):
    """How toolkits are that can tell, and how tool servers are."""

    toolkits: Mapping[str, str] = {}
    servers: Mapping[str, str] = {}


Examine: TypeAlias = Callable[[], Awaitable[Vitals]]


async def unexamined() -> Vitals:
    """Nothing can tell how it is."""
    return Vitals()


def report(snapshot: Snapshot, core: str, vitals: Vitals) -> JsonObject:
    """The state of the whole and of its parts: the worst part's state is the whole's."""
    toolkits = dict.fromkeys(entry.tool.id.toolkit for entry in snapshot.entries)
    tools = {toolkit: vitals.toolkits.get(toolkit, HEALTHY) for toolkit in toolkits}
    whole = worst([core, *tools.values(), *vitals.servers.values()])
    servers = {"servers": dict(vitals.servers)} if vitals.servers else {}  # which the hub itself does not know
    return {"status": whole, "components": {"core": core, "tools": tools, **servers}}


class Health:
    """Answers anybody, so that a balancer can ask; what the hall is made of is told to whoever may manage it."""

    def __init__(self, hall: Hall, state: Callable[[], str], examine: Examine = unexamined) -> None:
        self._hall = hall
        self._examine = examine
        self._state = state  # the core's own: degraded while records cannot be written, unhealthy once it stops

    async def __call__(self, exchange: Exchange) -> None:
        """`/health`: 503 when a part is unhealthy."""
        snapshot = self._hall.registry.snapshot
        found = report(snapshot, self._state(), await self._examine()) | {
            "uptime": round(time.monotonic() - _STARTED, 3)
        }
        if self._hall.manage.allows(exchange.caller):
            found["tools"] = len(snapshot.entries)
        else:
            del found["components"]
        await exchange.reply(Wire(encode(found), 503 if found["status"] == UNHEALTHY else 200))

    async def live(self, exchange: Exchange) -> None:
        """`/health/live`: the process answers."""
        await exchange.reply(_ALIVE)

    async def ready(self, exchange: Exchange) -> None:
        """`/health/ready`: calls are taken."""
        await exchange.reply(_STOPPING if self._state() == UNHEALTHY else _READY)
