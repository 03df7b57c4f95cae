"""`/health`, `/health/live`, `/health/ready` and `/metrics`.

Anybody may ask for the overall state; components and counts are for administrators and observers. `/metrics` is for
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
from toolhall.model.upstream import UpstreamState
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registry.snapshot import Snapshot
from toolhall.telemetry import CONTENT_TYPE, Telemetry, render

_STARTED_AT = time.monotonic()
_ALIVE = WireResponse(b'{"status":"alive"}')
_READY = WireResponse(b'{"status":"ready"}')
_STOPPING = WireResponse(b'{"status":"stopping"}', 503)
_OBSERVERS_ONLY = (
    "metrics are for callers with the scope 'admin' or 'observe'; set 'public_metrics' to show them to everybody"
)


def uptime() -> float:
    """Return the seconds since this process started."""
    return time.monotonic() - _STARTED_AT


def always_healthy() -> str:
    """The core state of a hall without problems."""
    return HEALTHY


class TaskHealth(msgspec.Struct, frozen=True, rename="camel"):
    """The open tasks; `degraded` while the store fails, and the numbers are those of before."""

    state: str
    working: int
    input_required: int
    oldest_seconds: float | None  # the age of the oldest


class ComponentHealth(msgspec.Struct, frozen=True):
    """States of toolkits with health checks, and of tool servers; the open tasks, if there are any; upstreams."""

    toolkits: Mapping[str, str] = {}
    servers: Mapping[str, str] = {}
    tasks: TaskHealth | None = None
    upstreams: Mapping[str, "UpstreamHealth"] = {}


class UpstreamHealth(msgspec.Struct, frozen=True):
    """The state of an upstream, what that means for the hall, and why it is so."""

    state: UpstreamState
    health: str
    reason: str | None = None


ComponentCheck: TypeAlias = Callable[[], Awaitable[ComponentHealth]]


async def no_components() -> ComponentHealth:
    """Report no components."""
    return ComponentHealth()


def health_report(
    snapshot: Snapshot, core: str, components: ComponentHealth, *, with_reasons: bool = False
) -> JsonObject:
    """Return the overall state, which is the worst of all parts, and the states of the parts.

    Why an upstream is as it is stands there only `with_reasons`: it may name addresses and what the operator set up.
    """
    toolkits = dict.fromkeys(entry.tool.id.toolkit for entry in snapshot.entries)
    tools = {toolkit: components.toolkits.get(toolkit, HEALTHY) for toolkit in toolkits}
    tasks = () if components.tasks is None else (components.tasks.state,)
    upstreams = [each.health for each in components.upstreams.values()]
    whole = worst_state([core, *tools.values(), *components.servers.values(), *tasks, *upstreams])
    # Extensions of the hub protocol.
    more: JsonObject = {"servers": dict(components.servers)} if components.servers else {}
    if components.tasks is not None:
        more["tasks"] = msgspec.to_builtins(components.tasks)
    if components.upstreams:
        more["upstreams"] = {
            name: {"state": each.state, **({"reason": each.reason} if with_reasons and each.reason else {})}
            for name, each in components.upstreams.items()
        }
    return {"status": whole, "components": {"core": core, "tools": tools, **more}}


class HealthEndpoint:
    """`/health`, `/health/live` and `/health/ready` for everybody; components and counts for observers."""

    def __init__(
        self, dispatcher: Dispatcher, state: Callable[[], str], check_components: ComponentCheck = no_components
    ) -> None:
        self._dispatcher = dispatcher
        self._check_components = check_components
        self._state = state  # of the core: degraded while audit records cannot be written, unhealthy while stopping

    async def __call__(self, request: HttpRequest) -> None:
        """`/health`: 503 if a part is unhealthy."""
        snapshot = self._dispatcher.registry.snapshot
        admin, components = self._dispatcher.admin, await self._check_components()
        with_reasons = admin.is_allowed(request.caller)
        report = health_report(snapshot, self._state(), components, with_reasons=with_reasons)
        report["uptime"] = round(uptime(), 3)
        if admin.may_observe(request.caller):
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
        """Send all metrics; 403 unless the caller may observe the hall or metrics are public."""
        if not self._public and not self._dispatcher.admin.may_observe(request.caller):
            await request.refuse(403, _OBSERVERS_ONLY)
            return
        await self._dispatcher.tasks.figures.refresh()
        body = render(self._telemetry)
        await request.send_headers(200, [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(body))])
        await request.send_body(body, more=False)
