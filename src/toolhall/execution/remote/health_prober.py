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
    """One task for all replicas, each asked on the line on which it is called: it says how each of its toolkits is."""

    def __init__(
        self, pools: ReplicaPools, interval: float = _PROBE_INTERVAL_SECONDS, timeout: float = PROBE_TIMEOUT_SECONDS
    ) -> None:
        self._pools = pools
        self._interval = interval
        self._timeout = timeout
        self._ids = itertools.count(1)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on, in the loop that runs now."""
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="probing tool servers")

    def close(self) -> None:
        """No more; a task whose loop is closed has ended with that."""
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.cancel()

    async def probe_all(self) -> None:
        """Ask everybody, a few at a time; what one of them does holds up nobody for longer than its patience."""
        replicas = tuple(self._pools)
        if not replicas:
            return
        waiting = iter(replicas)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_MAX_CONCURRENT_PROBES, len(replicas))):
                group.create_task(self._probe_each(waiting))

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
            except Exception:  # noqa: BLE001 - a fault of ours must not end the watch over all the others
                _log.exception("a replica of the tool server %r cannot be probed", replica.server)
                replica.record_probe_failure()

    async def _probe(self, replica: Replica) -> None:
        probe_id = f"h{next(self._ids)}"
        try:
            async with asyncio.timeout(self._timeout):
                response = await replica.transport.request(write_request(probe_id, HEALTH, {}), probe_id)
        except (CallLost, TimeoutError):
            said = None
        else:
            said = _parse_health(response)
        if said is not None:
            replica.record_probe(*said)
            return
        if not replica.unresponsive:
            _log.warning("a replica of the tool server %r does not answer", replica.server)
        replica.record_probe_failure()


def _parse_health(response: JsonObject) -> tuple[HealthState, dict[str, Json]] | None:
    """How it is, and each of its toolkits; None for what is no answer to that."""
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
