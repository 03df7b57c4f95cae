"""Asks every replica how it is, again and again: one that does not answer gets no call while another is there."""

import asyncio
import itertools
import logging
from collections.abc import Iterator

from toolhall.dialects.hub.remote import HEALTH, write_request
from toolhall.model.json import Json, JsonObject
from toolhall.runners.hub.line import Lost
from toolhall.runners.hub.pools import Pools
from toolhall.runners.hub.replica import Health, Replica

_EVERY_SECONDS = 2.0
PATIENCE_SECONDS = 2.0
_AT_ONCE = 64
_log = logging.getLogger("toolhall.toolservers")


class Probing:
    """One task for all replicas, each asked on the line on which it is called: it says how each of its toolkits is."""

    def __init__(self, pools: Pools, every: float = _EVERY_SECONDS, patience: float = PATIENCE_SECONDS) -> None:
        self._pools = pools
        self._every = every
        self._patience = patience
        self._ids = itertools.count(1)
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """From now on, in the loop that runs now."""
        self.close()
        self._task = asyncio.get_running_loop().create_task(self._again_and_again(), name="probing tool servers")

    def close(self) -> None:
        """No more; a task whose loop is closed has ended with that."""
        task, self._task = self._task, None
        if task is not None and not task.get_loop().is_closed():
            task.cancel()

    async def once(self) -> None:
        """Ask everybody, a few at a time; what one of them does holds up nobody for longer than its patience."""
        replicas = tuple(self._pools)
        if not replicas:
            return
        waiting = iter(replicas)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_AT_ONCE, len(replicas))):
                group.create_task(self._some(waiting))

    async def _again_and_again(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self.once()
            await asyncio.sleep(max(0.0, began + self._every - loop.time()))

    async def _some(self, waiting: Iterator[Replica]) -> None:
        for replica in waiting:
            try:
                await self._probe(replica)
            except Exception:  # noqa: BLE001 - a fault of ours must not end the watch over all the others
                _log.exception("a replica of the tool server %r cannot be probed", replica.server)
                replica.missed()

    async def _probe(self, replica: Replica) -> None:
        probe_id = f"h{next(self._ids)}"
        try:
            async with asyncio.timeout(self._patience):
                response = await replica.line.ask(write_request(probe_id, HEALTH, {}), probe_id)
        except (Lost, TimeoutError):
            said = None
        else:
            said = _said(response)
        if said is not None:
            replica.answered(*said)
            return
        if not replica.mute:
            _log.warning("a replica of the tool server %r does not answer", replica.server)
        replica.missed()


def _said(response: JsonObject) -> tuple[Health, dict[str, Json]] | None:
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
