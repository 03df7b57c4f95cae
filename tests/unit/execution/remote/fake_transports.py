"""Fake transports without a process behind them: a test decides which responses come, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import msgspec

from tests.harness.patience import patience
from tests.unit.builders import Clock
from toolhall.dialects.hub.call_messages import ErrorPayload, ToolResponseMessage, read_tool_server_message
from toolhall.dialects.hub.results import write_failure
from toolhall.egress.exchange import ExchangeLost
from toolhall.execution.remote.replica import Replica, ReplicaInfo
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.execution.remote.replica_transport import ReportHandler
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonObject

HEALTHY: JsonObject = {"type": "response", "result": {"status": "healthy"}, "error": None}
NOT_STARTED = ErrorPayload("UNAVAILABLE", "it is full", {"started": False})


class FakeTransport:
    """Responds to every call at once, with the next of `ends` while there are any; raises an exception among them."""

    def __init__(self, *ends: Json | Exception) -> None:
        self.ends = list(ends)
        self.calls: list[JsonObject] = []
        self.says: Callable[[str, ReportHandler], Awaitable[object]] | None = None  # before the end
        self.health: JsonObject | Exception | None = HEALTHY  # None: no answer
        self.asked: list[JsonObject] = []
        self.closed = 0
        self.rested = 0

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002
        self.calls.append(msgspec.json.decode(request))
        if self.says is not None:
            await self.says(id, on_report)
        end = self.ends.pop(0) if self.ends else {"by": "default"}
        if isinstance(end, ToolhallError):
            read = read_tool_server_message(write_failure(id, end, "Kit", "pick").body)
            assert isinstance(read, ToolResponseMessage)
            return read
        if isinstance(end, Exception):
            raise end
        return ToolResponseMessage(id, error=end) if isinstance(end, ErrorPayload) else ToolResponseMessage(id, end)

    async def request(self, body: bytes, id: str) -> JsonObject:  # noqa: A002
        self.asked.append(msgspec.json.decode(body))
        if self.health is None:
            await asyncio.get_running_loop().create_future()
        if isinstance(self.health, Exception):
            raise self.health
        return {"id": id, **(self.health or {})}

    def close_idle(self) -> None:
        self.rested += 1

    def close(self) -> None:
        self.closed += 1


class HoldingTransport(FakeTransport):
    """Keeps every call running until the test finishes it, or the transport is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.running: dict[str, asyncio.Future[ToolResponseMessage]] = {}

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002
        self.calls.append(msgspec.json.decode(request))
        waiter: asyncio.Future[ToolResponseMessage] = asyncio.get_running_loop().create_future()
        self.running[id] = waiter
        return await waiter

    def finish(self) -> None:
        """End the call that began first."""
        call_id = next(iter(self.running))
        self.running.pop(call_id).set_result(ToolResponseMessage(call_id, {}))

    def close(self) -> None:
        super().close()
        for waiter in self.running.values():
            if not waiter.done():
                waiter.set_exception(ExchangeLost("closed", delivered=True))
        self.running.clear()


def lost(*, delivered: bool) -> ExchangeLost:
    return ExchangeLost("its connection broke", delivered=delivered)


def replica_info(
    replica: str = "one", *kits: str, server: str = "servers", by: str = "ci", listens: bool = True
) -> ReplicaInfo:
    """`kits` as `Kit@1.0.0`."""
    tools = [kit.partition("@") for kit in kits or ("Kit@1.0.0",)]
    return ReplicaInfo(server, replica, by, frozenset((kit, version) for kit, _, version in tools), listens)


def pools_of(clock: Clock, *replicas: Replica) -> ReplicaPools:
    pools = ReplicaPools(clock, Random(7))
    for replica in replicas:
        pools.add(replica)
    return pools


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(patience()):
        while not holds():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)
