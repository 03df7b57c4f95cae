"""The proxy does the harm that it says; a line through it gives each call one end or one loss, and keeps nothing."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from random import Random

import pytest

from tests.faults.flaky_proxy import WAYS, Fault, FlakyProxy, Kind, Way
from tests.harness.patience import patience
from tests.harness.seeds import seeds
from tests.unit.execution.remote.fake_tool_server import (
    LOCAL,
    TOKEN,
    ServerConnection,
    fake_tool_server,
    http_response,
    progress,
    stream,
    tool_response,
    until,
)
from toolhall.dialects.hub.call_messages import CallEvent, ToolResponseMessage
from toolhall.egress.exchange import ExchangeLost
from toolhall.execution.remote.http_transport import HttpTransport
from toolhall.model.json import encode
from toolhall.model.secret import Secret

CALLS = 120
PATIENCE = 0.5  # of whoever calls: harm that nobody is told of ends like this

# --- the proxy alone -------------------------------------------------------------------------------------------------


class Echo:
    """A server that says everything back, and who talks to it through the proxy."""

    def __init__(self) -> None:
        self.came = b""
        self.begun = 0
        self.ends: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.begun += 1
        try:
            while data := await reader.read(1_000):
                self.came += data
                writer.write(data)
            self.ends.append("end")
        except ConnectionResetError:
            self.ends.append("reset")
        finally:
            writer.close()


@asynccontextmanager
async def echo(*plan: Fault) -> AsyncGenerator[tuple[FlakyProxy, Echo, asyncio.StreamReader, asyncio.StreamWriter]]:
    server = Echo()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with asyncio.timeout(patience()), FlakyProxy(listening.sockets[0].getsockname()[1], seed=1) as flaky:
        flaky.plan(*plan)
        reader, writer = await asyncio.open_connection("127.0.0.1", flaky.port)
        try:
            yield flaky, server, reader, writer
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
    await until(lambda: len(server.ends) == server.begun)
    listening.close()
    await listening.wait_closed()


async def test_flaky_proxy_without_faults_passes_everything_on() -> None:
    async with echo() as (flaky, server, reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert flaky.open == flaky.connections == 1
        writer.write_eof()
        assert await reader.read() == b""
    assert server.ends == ["end"]


@pytest.mark.parametrize("way", WAYS)
async def test_flaky_proxy_corrupt_changes_one_byte(way: Way) -> None:
    async with echo(Fault("corrupt", way, after=2)) as (_, server, reader, writer):
        writer.write(b"hello")
        back = await reader.readexactly(5)
        assert [index for index in range(5) if back[index] != b"hello"[index]] == [2]
        assert (server.came == b"hello") is (way == "down")
        writer.write(b"again")
        assert await reader.readexactly(5) == b"again"


async def test_flaky_proxy_with_the_same_seed_causes_the_same_faults() -> None:
    backs: set[bytes] = set()
    for _ in range(2):
        async with echo(Fault("corrupt"), Fault("corrupt", after=1)) as (_, _, reader, writer):
            writer.write(b"hello")
            backs.add(await reader.readexactly(5))
    assert len(backs) == 1


async def test_flaky_proxy_duplicate_sends_a_piece_twice() -> None:
    async with echo(Fault("duplicate")) as (_, server, reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(10) == b"hellohello"
        assert server.came == b"hello"


async def test_flaky_proxy_latency_delays_data() -> None:
    async with echo(Fault("latency", seconds=0.05)) as (_, _, reader, writer):
        begun = asyncio.get_running_loop().time()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert asyncio.get_running_loop().time() - begun >= 0.05


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("way", WAYS)
async def test_flaky_proxy_stall_lasts_until_healed(way: Way, planned: bool) -> None:
    async with echo(*([Fault("stall", way, after=2)] if planned else [])) as (flaky, server, reader, writer):
        if not planned:
            flaky.stall(way)
        writer.write(b"hello")
        seen = b"he" if planned else b""
        await until(lambda: server.came == (seen if way == "up" else b"hello"))
        waiting = asyncio.ensure_future(reader.readexactly(5))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not waiting.done()
        flaky.heal()
        assert await waiting == b"hello"


async def test_flaky_proxy_cut_ends_a_stalled_connection() -> None:
    async with echo(Fault("stall", after=2)) as (flaky, _, reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(2) == b"he"
        flaky.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await until(lambda: flaky.open == 0)


async def test_flaky_proxy_drop_discards_the_rest() -> None:
    async with echo(Fault("drop", "up", after=2)) as (_, server, reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(2) == b"he"
        writer.write_eof()
        assert await reader.read() == b""
        assert server.came == b"he"


@pytest.mark.parametrize("way", WAYS)
async def test_flaky_proxy_half_close_by_plan_ends_one_direction(way: Way) -> None:
    async with echo(Fault("half_close", way, after=2)) as (_, server, reader, writer):
        writer.write(b"hello")
        assert await reader.read() == b"he"
        if way == "down":
            writer.write(b"again")
            await until(lambda: server.came == b"helloagain")
        else:
            await until(lambda: server.ends == ["end"])


async def test_flaky_proxy_half_close_on_demand_ends_one_direction() -> None:
    async with echo() as (flaky, server, reader, writer):
        writer.write(b"hello")
        await reader.readexactly(5)
        flaky.half_close()
        assert await reader.read() == b""
        writer.write(b"again")
        await until(lambda: server.came == b"helloagain")


@pytest.mark.parametrize("way", WAYS)
async def test_flaky_proxy_reset_resets_both_sides(way: Way) -> None:
    async with echo(Fault("reset", way)) as (_, server, reader, writer):
        writer.write(b"hello")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await until(lambda: server.ends == ["reset"])


async def test_flaky_proxy_close_ends_both_sides_after_the_given_bytes() -> None:
    async with echo(Fault("close", after=2)) as (_, server, reader, writer):
        writer.write(b"hello")
        assert await reader.read() == b"he"
        await until(lambda: server.ends == ["end"])


async def test_flaky_proxy_cut_resets_old_and_new_connections_until_healed() -> None:
    async with echo() as (flaky, _, reader, writer):
        writer.write(b"hello")
        await reader.readexactly(5)
        flaky.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        await until(lambda: flaky.open == 0)
        late, other = await asyncio.open_connection("127.0.0.1", flaky.port)
        with pytest.raises(ConnectionResetError):
            await late.read()
        other.close()
        flaky.heal()
        again, other = await asyncio.open_connection("127.0.0.1", flaky.port)
        other.write(b"hello")
        assert await again.readexactly(5) == b"hello"
        other.close()


# --- a line through it -----------------------------------------------------------------------------------------------


class Upstream:
    """A tool server that counts what reached it; some of its replies are streams."""

    def __init__(self, seed: int) -> None:
        self.saw: Counter[str] = Counter()
        self._random = Random(seed)

    async def answer(self, body: bytes, wire: ServerConnection) -> None:
        try:
            call_id = json.loads(body)["id"]
        except (ValueError, KeyError, TypeError):  # it was corrupted
            wire.write(http_response(b'{"type":"tool_error","code":"INVALID_REQUEST","message":"what?"}'))
            return
        self.saw[str(call_id)] += 1
        told = stream(progress(call_id, 1), progress(call_id, 2), tool_response(call_id, {"a": 1}))
        wire.write(told if self._random.random() < 0.4 else http_response(tool_response(call_id, {"a": "x" * 500})))


async def ignore_event(_: CallEvent) -> None:
    return None


async def call_once(
    line: HttpTransport, call_id: str, seconds: float | None = None
) -> ToolResponseMessage | ExchangeLost | None:
    """What came of a call; None: its caller gave it up."""
    request = encode({"type": "tool_request", "id": call_id, "tool": "A", "method": "b", "params": {"c": "x" * 300}})
    try:
        async with asyncio.timeout(seconds or patience()):
            return await line.call(request, call_id, ignore_event)
    except ExchangeLost as lost:
        return lost
    except TimeoutError:
        return None


def random_faults(random: Random) -> list[Fault]:
    """One fault of every kind, at some byte of a request or of a reply."""
    kinds: tuple[Kind, ...] = ("stall", "drop", "reset", "close", "half_close", "corrupt")
    faults = [Fault(kind, random.choice(WAYS), random.randrange(2_000)) for kind in kinds for _ in range(5)]
    late = Fault("latency", random.choice(WAYS), random.randrange(900), random.random() / 100)
    return [*faults, late, *(Fault("duplicate", "down", random.randrange(2_000)) for _ in range(5))]


@pytest.mark.parametrize("seed", seeds(4))
async def test_http_transport_through_faults_gives_each_call_one_result_or_one_loss(seed: int) -> None:
    """Through all kinds of harm: none that reached the server is said not to have been delivered; nothing is kept."""
    random, upstream = Random(seed), Upstream(seed)
    async with fake_tool_server(upstream.answer) as server, FlakyProxy(server.port, seed) as flaky:
        flaky.plan(*random_faults(random), share=0.7)
        line = HttpTransport(f"http://127.0.0.1:{flaky.port}", Secret(TOKEN), LOCAL)
        ids = [f"{random.getrandbits(64):016x}" for _ in range(CALLS)]
        found: dict[str, ToolResponseMessage | ExchangeLost | None] = {}

        async def several(mine: list[str]) -> None:
            for call_id in mine:
                found[call_id] = await call_once(line, call_id, PATIENCE)
                if random.random() < 0.05:
                    flaky.cut()
                    asyncio.get_running_loop().call_later(0.005, flaky.heal)

        await asyncio.gather(*(several(ids[at::12]) for at in range(12)))
        assert found.keys() == set(ids)
        assert not [call_id for call_id, end in found.items() if undelivered(end) and upstream.saw[call_id]]
        assert [call_id for call_id, end in found.items() if isinstance(end, ToolResponseMessage)]
        assert [call_id for call_id, end in found.items() if isinstance(end, ExchangeLost) and end.delivered]
        assert max(upstream.saw.values()) == 1
        assert all(upstream.saw[call_id] for call_id, end in found.items() if is_result(end))
        flaky.plan()
        flaky.cut()  # what is left has a plan of its own
        await until(lambda: not flaky.open and not line.open_count)
        flaky.heal()
        assert is_result(await call_once(line, "at last"))
        line.close()
        await until(lambda: not line.open_count and not flaky.open and not server.wires)


def undelivered(end: ToolResponseMessage | ExchangeLost | None) -> bool:
    return isinstance(end, ExchangeLost) and not end.delivered


def is_result(end: ToolResponseMessage | ExchangeLost | None) -> bool:
    return isinstance(end, ToolResponseMessage) and end.error is None


async def test_http_transport_through_a_cut_delivers_nothing_and_then_recovers() -> None:
    upstream = Upstream(0)
    async with fake_tool_server(upstream.answer) as server, FlakyProxy(server.port) as flaky:
        line = HttpTransport(f"http://127.0.0.1:{flaky.port}", Secret(TOKEN), LOCAL)
        assert is_result(await call_once(line, "1"))
        flaky.cut()
        await until(lambda: not flaky.open)
        for call_id in ("2", "3"):
            assert isinstance(await call_once(line, call_id), ExchangeLost)
        assert set(upstream.saw) == {"1"}
        flaky.heal()
        assert is_result(await call_once(line, "4"))
        line.close()
        await until(lambda: not server.wires)
