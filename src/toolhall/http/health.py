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
from toolhall.telemetry import CONTENT_TYPE, Telemetry, render

_STARTED_AT = time.monotonic()
_ALIVE = WireResponse(b'{"status":"alive"}')
_READY = WireResponse(b'{"status":"ready"}')
_STOPPING = WireResponse(b'{"status":"stopping"}', 503)
_ADMIN_ONLY = "metrics are for callers with the scope 'admin'; set 'public_metrics' to show them to everybody"


def always_healthy() -> str:
    """The core state of a hall without problems."""
    return HEALTHY


class ComponentHealth(msgspec.Struct, frozen=True):
    """States of toolkits with health checks, and of tool servers."""

    toolkits: Mapping[str, str] = {}
    servers: Mapping[str, str] = {}


ComponentCheck: TypeAlias = Callable[[], Awaitable[ComponentHealth]]


async def no_components() -> ComponentHealth:
    """Report no components."""
    return ComponentHealth()


def health_report(snapshot: Snapshot, core: str, components: ComponentHealth) -> JsonObject:
    """Return the overall state, which is the worst of all parts, and the states of the parts."""
    toolkits = dict.fromkeys(entry.tool.id.toolkit for entry in snapshot.entries)
    tools = {toolkit: components.toolkits.get(toolkit, HEALTHY) for toolkit in toolkits}
    whole = worst_state([core, *tools.values(), *components.servers.values()])
    servers = {"servers": dict(components.servers)} if components.servers else {}  # an extension of the hub protocol
    return {"status": whole, "components": {"core": core, "tools": tools, **servers}}


class HealthEndpoint:
    """`/health`, `/health/live` and `/health/ready` for everybody; components and counts for administrators."""

    def __init__(
        self, dispatcher: Dispatcher, state: Callable[[], str], check_components: ComponentCheck = no_components
    ) -> None:
        self._dispatcher = dispatcher
        self._check_components = check_components
        self._state = state  # of the core: degraded while audit records cannot be written, unhealthy while stopping

    async def __call__(self, request: HttpRequest) -> None:
        """`/health`: 503 if a part is unhealthy."""
        snapshot = self._dispatcher.registry.snapshot
        report = health_report(snapshot, self._state(), await self._check_components()) | {
            "uptime": round(time.monotonic() - _STARTED_AT, 3)
        }
        if self._dispatcher.admin.is_allowed(request.caller):
            report["tools"] = len(snapshot.entries)
        else:
            del report["components"]
        await request.reply(WireResponse(encode(report), 503 if report["status"] == UNHEALTHY else 200))

    async def live(self, request: HttpRequest) -> None:
        """`/health/live`: the process responds."""
        await request.reply(_ALIVE)

    async def ready(self, request: HttpRequest) -> None:
        """`/health/ready`: calls are accepted."""
        await request.reply(_STOPPING if self._state() == UNHEALTHY else _READY)


class MetricsEndpoint:
    """`GET /metrics` in the Prometheus text format."""

    def __init__(self, dispatcher: Dispatcher, telemetry: Telemetry, *, public: bool) -> None:
        self._dispatcher = dispatcher
        self._telemetry = telemetry
        self._public = public

    async def __call__(self, request: HttpRequest) -> None:
        """Send all metrics; 403 unless the caller is an administrator or metrics are public."""
        if not self._public and not self._dispatcher.admin.is_allowed(request.caller):
            await request.refuse(403, _ADMIN_ONLY)
            return
        body = render(self._telemetry)
        await request.send_headers(200, [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body))])
        await request.send_body(body, more=False)
