"""`HealthProber`: probes the health of every replica every two seconds, and marks those that do not answer."""

import asyncio
import itertools
import logging
from collections.abc import Iterator

from toolhall.dialects.hub.call_messages import HEALTH, write_request
from toolhall.execution.remote.replica import HealthState, Replica
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.execution.remote.replica_transport import CallLost
from toolhall.model.json import Json, JsonObject

_PROBE_INTERVAL_SECONDS = 2.0
PROBE_TIMEOUT_SECONDS = 2.0
_MAX_CONCURRENT_PROBES = 64
_log = logging.getLogger("toolhall.toolservers")


class HealthProber:
    """Probes all replicas from one task, each over the transport of its calls."""

    def __init__(
        self, pools: ReplicaPools, interval: float = _PROBE_INTERVAL_SECONDS, timeout: float = PROBE_TIMEOUT_SECONDS
    ) -> None:
        self._pools = pools
        self._interval = interval
        self._timeout = timeout
        self._ids = itertools.count(1)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Probe from now on, in the running loop."""
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="probing tool servers")

    def close(self) -> None:
        """Stop probing; a task whose loop is closed has ended with it."""
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.cancel()

    async def probe_all(self) -> None:
        """Probe every replica, up to 64 at a time; one that does not answer delays others by the timeout at most."""
        replicas = tuple(self._pools)
        if not replicas:
            return
        remaining = iter(replicas)  # shared by the tasks
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_MAX_CONCURRENT_PROBES, len(replicas))):
                group.create_task(self._probe_each(remaining))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self.probe_all()
            await asyncio.sleep(max(0.0, began + self._interval - loop.time()))

    async def _probe_each(self, replicas: Iterator[Replica]) -> None:
        for replica in replicas:
            try:
                await self._probe(replica)
            except Exception:  # noqa: BLE001 - a bug must not end the probes of all others
                _log.exception("a replica of the tool server %r cannot be probed", replica.server)
                replica.record_probe_failure()

    async def _probe(self, replica: Replica) -> None:
        probe_id = f"h{next(self._ids)}"
        try:
            async with asyncio.timeout(self._timeout):
                response = await replica.transport.request(write_request(probe_id, HEALTH, {}), probe_id)
        except (CallLost, TimeoutError):
            health = None
        else:
            health = _parse_health(response)
        if health is not None:
            replica.record_probe(*health)
            return
        if not replica.unresponsive:
            _log.warning("a replica of the tool server %r does not answer", replica.server)
        replica.record_probe_failure()


def _parse_health(response: JsonObject) -> tuple[HealthState, dict[str, Json]] | None:
    """The state of the replica and of its toolkits; None if the response is not a health response."""
    result = response.get("result")
    if not isinstance(result, dict):
        return None
    match result.get("status"):
        case "healthy" | "degraded" | "unhealthy" as status:
            parts = result.get("components")
            tools = parts.get("tools") if isinstance(parts, dict) else None
            return status, tools if isinstance(tools, dict) else {}
        case _:
            return None
