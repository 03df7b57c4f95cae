"""`/health`, `/health/live`, `/health/ready` and `/metrics`.

Anybody may ask for the overall state; components and counts are for administrators. `/metrics` is for
administrators unless `public_metrics` is set.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.execution.health_checks import HEALTHY, UNHEALTHY, worst_state
from toolhall.http.request import HttpRequest
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import WireResponse
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registry.snapshot import Snapshot
from toolhall.telemetry.metrics import CONTENT_TYPE, Telemetry, render

_STARTED_AT = time.monotonic()
_ALIVE = WireResponse(b'{"status":"alive"}')
_READY = WireResponse(b'{"status":"ready"}')
_STOPPING = WireResponse(b'{"status":"stopping"}', 503)
_ADMIN_ONLY = "these figures are for callers with the scope 'admin'; 'public_metrics' shows them to everybody"


def always_healthy() -> str:
    """The state of a core that nothing is wrong with."""
    return HEALTHY


class ComponentHealth(msgspec.Struct, frozen=True):
    """How toolkits are that can tell, and how tool servers are."""

    toolkits: Mapping[str, str] = {}
    servers: Mapping[str, str] = {}


ComponentCheck: TypeAlias = Callable[[], Awaitable[ComponentHealth]]


async def no_components() -> ComponentHealth:
    """Nothing can tell how it is."""
    return ComponentHealth()


def health_report(snapshot: Snapshot, core: str, components: ComponentHealth) -> JsonObject:
    """The state of the whole and of its parts: the worst part's state is the whole's."""
    toolkits = dict.fromkeys(entry.tool.id.toolkit for entry in snapshot.entries)
    tools = {toolkit: components.toolkits.get(toolkit, HEALTHY) for toolkit in toolkits}
    whole = worst_state([core, *tools.values(), *components.servers.values()])
    servers = {"servers": dict(components.servers)} if components.servers else {}  # which the hub itself does not know
    return {"status": whole, "components": {"core": core, "tools": tools, **servers}}


class HealthEndpoint:
    """Answers anybody, so that a balancer can ask; what the hall is made of is told to whoever may manage it."""

    def __init__(
        self, dispatcher: Dispatcher, state: Callable[[], str], check_components: ComponentCheck = no_components
    ) -> None:
        self._dispatcher = dispatcher
        self._check_components = check_components
        self._state = state  # the core's own: degraded while records cannot be written, unhealthy once it stops

    async def __call__(self, request: HttpRequest) -> None:
        """`/health`: 503 when a part is unhealthy."""
        snapshot = self._dispatcher.registry.snapshot
        found = health_report(snapshot, self._state(), await self._check_components()) | {
            "uptime": round(time.monotonic() - _STARTED_AT, 3)
        }
        if self._dispatcher.admin.is_allowed(request.caller):
            found["tools"] = len(snapshot.entries)
        else:
            del found["components"]
        await request.reply(WireResponse(encode(found), 503 if found["status"] == UNHEALTHY else 200))

    async def live(self, request: HttpRequest) -> None:
        """`/health/live`: the process answers."""
        await request.reply(_ALIVE)

    async def ready(self, request: HttpRequest) -> None:
        """`/health/ready`: calls are taken."""
        await request.reply(_STOPPING if self._state() == UNHEALTHY else _READY)


class MetricsEndpoint:
    """Answers with every figure."""

    def __init__(self, dispatcher: Dispatcher, telemetry: Telemetry, *, public: bool) -> None:
        self._dispatcher = dispatcher
        self._telemetry = telemetry
        self._public = public

    async def __call__(self, request: HttpRequest) -> None:
        """`GET /metrics`."""
        if not self._public and not self._dispatcher.admin.is_allowed(request.caller):
            await request.refuse(403, _ADMIN_ONLY)
            return
        body = render(self._telemetry)
        await request.send_headers(200, [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body))])
        await request.send_body(body, more=False)
