"""Lines over pipes and files: what is read together and written together, and when reading pauses."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
import uvloop

from tests.harness.patience import patience
from toolhall.http.stdio_lines import MAX_CONCURRENT_MESSAGES, Line, StdioLines, open_lines, serve_stdio
from toolhall.model.caller import Caller
from toolhall.model.messages import WireResponse

MAX_LINE = 1_000
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}


def test_stdio_server_with_files_as_streams_answers(tmp_path: Path) -> None:
    asked, answered = tmp_path / "in", tmp_path / "out"
    asked.write_text((json.dumps(CALL) + "\n") * 2_000)  # more than one read
    with asked.open() as source, answered.open("w") as target:
        words = [sys.executable, "-m", "toolhall.cli", "serve", "--stdio", "--data", str(tmp_path / "data")]
        done = subprocess.run(
            words, stdin=source, stdout=target, stderr=subprocess.PIPE, timeout=patience(), check=False
        )
    assert done.returncode == 0, done.stderr
    answers = answered.read_text().splitlines()
    assert len(answers) == 2_000
    assert "2026-07-28" in json.loads(answers[-1])["result"]["supportedVersions"]


class Peer:
    """The other end of both pipes."""

    def __init__(self, lines: StdioLines, asking: int, answers: int) -> None:
        self.lines = lines
        self.asking = asking
        self.answers = answers
        self.reads: list[Sequence[Line]] = []

    def send(self, data: bytes) -> None:
        os.write(self.asking, data)

    def close_input(self) -> None:
        os.close(self.asking)
        self.asking = -1

    def receive(self) -> bytes:
        try:
            return os.read(self.answers, 1 << 20)
        except BlockingIOError:
            return b""

    @property
    def read(self) -> list[Line]:
        return [line for lines in self.reads for line in lines]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(patience()):
            while not holds():  # noqa: ASYNC110 - pipes tell nobody
                await asyncio.sleep(0)


@asynccontextmanager
async def peer_of_pipes() -> AsyncGenerator[Peer]:
    (source, asking), (answers, target) = os.pipe(), os.pipe()
    os.set_blocking(answers, False)
    peer = Peer(await open_lines(source, target, MAX_LINE), asking, answers)
    try:
        yield peer
    finally:
        for end in (peer.lines.source, peer.lines.target):
            cast("asyncio.BaseTransport", end).close()
        for descriptor in {peer.asking, peer.answers} - {-1}:
            os.close(descriptor)
        await asyncio.sleep(0)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_stdio_pipes_are_closed_once_whatever_loop_runs(run: Callable[[Coroutine[None, None, None]], None]) -> None:
    """uvloop closes the descriptor and then the file, whose number may be that of another thread's file by then."""

    async def close() -> None:
        async with peer_of_pipes() as peer:
            files = [
                cast("asyncio.BaseTransport", end).get_extra_info("pipe")
                for end in (peer.lines.source, peer.lines.target)
            ]
            descriptors = [file.fileno() for file in files]
        async with asyncio.timeout(patience()):
            while not all(file.closed for file in files):  # noqa: ASYNC110 - transports tell nobody
                await asyncio.sleep(0)
        for file, descriptor in zip(files, descriptors, strict=True):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)
            assert file.closefd is (run is asyncio.run)

    run(close())


async def test_stdio_lines_of_one_read_are_passed_on_together_and_outside_of_a_task() -> None:
    async with peer_of_pipes() as peer:
        tasks: list[object] = []

        def on_lines(lines: Sequence[Line]) -> None:
            peer.reads.append(lines)
            tasks.append(asyncio.current_task())

        serving = asyncio.create_task(peer.lines.serve(on_lines))
        await asyncio.sleep(0)
        peer.send(b"1\n\n  \r\n2\r\n3")
        await peer.until(lambda: bool(peer.reads))
        peer.send(b"4\n")
        await peer.until(lambda: len(peer.reads) > 1)
        peer.send(b"5")
        await peer.until(lambda: not peer.lines.is_congested)
        peer.close_input()
        await serving
        assert peer.reads == [[b"1", b"2\r"], [b"34"], [b"5"]]
        assert tasks == [None] * 3


async def test_stdio_lines_that_came_before_serve_are_passed_on() -> None:
    async with peer_of_pipes() as peer:
        peer.send(b"1\n2")
        peer.close_input()
        for _ in range(10):
            await asyncio.sleep(0)
        await peer.lines.serve(peer.reads.append)
        assert peer.read == [b"1", b"2"]


@pytest.mark.parametrize("size", [MAX_LINE + 1, 3 * MAX_LINE, 200_000])
async def test_stdio_line_that_is_too_long_is_skipped_once(size: int) -> None:
    async with peer_of_pipes() as peer:
        serving = asyncio.create_task(peer.lines.serve(peer.reads.append))
        loop = asyncio.get_running_loop()
        for start in range(0, size, 50_000):
            await loop.run_in_executor(None, peer.send, b"x" * min(50_000, size - start))
            if not start:  # a read of its own: only an incomplete line is too long
                await peer.until(lambda: bool(peer.read))
        await loop.run_in_executor(None, peer.send, b"\nnext\n")
        peer.close_input()
        await serving
        assert peer.read == [None, b"next"]


async def test_stdio_lines_written_in_one_iteration_are_one_write() -> None:
    async with peer_of_pipes() as peer:
        for number in range(3):
            peer.lines.write(b"%d" % number)
        assert peer.receive() == b""
        await asyncio.sleep(0)
        assert peer.receive() == b"0\n1\n2\n"
        peer.lines.write(b"3")
        peer.lines.flush()
        assert peer.receive() == b"3\n"


async def test_stdio_answers_to_the_lines_of_one_read_are_there_when_they_were_passed_on() -> None:
    async with peer_of_pipes() as peer:

        def answer(lines: Sequence[Line]) -> None:
            for line in lines:
                peer.lines.write(line or b"")
            assert peer.receive() == b"", "they are written together"

        peer.lines.data_received(b"1\n2\n")
        serving = asyncio.create_task(peer.lines.serve(answer))
        await asyncio.sleep(0)
        assert peer.receive() == b"1\n2\n"
        peer.close_input()
        await serving


async def test_stdio_reading_pauses_while_the_peer_does_not_read() -> None:
    async with peer_of_pipes() as peer:
        line = b"x" * 50_000

        def answer(lines: Sequence[Line]) -> None:
            peer.reads.append(lines)
            for _ in lines:
                peer.lines.write(line)

        serving = asyncio.create_task(peer.lines.serve(answer))
        sent = 0
        while len(peer.read) == sent and sent < 1_000:  # until one more is not read
            peer.send(b"1\n")
            sent += 1
            for _ in range(50):
                await asyncio.sleep(0)
        assert sent < 20, "the pipe holds 64 KiB, and the transport not much more"
        received = 0

        def all_arrived() -> bool:
            nonlocal received
            received += len(peer.receive())
            return received == sent * (len(line) + 1)

        await peer.until(all_arrived)
        assert len(peer.read) == sent
        peer.close_input()
        await serving


async def test_stdio_serve_ends_when_the_peer_reads_no_more() -> None:
    async with peer_of_pipes() as peer:
        serving = asyncio.create_task(peer.lines.serve(lambda lines: peer.lines.write(b"x" * len(lines))))
        os.close(peer.answers)
        peer.answers = -1
        async with asyncio.timeout(patience()):
            while not serving.done():
                peer.send(b"1\n")
                await asyncio.sleep(0)
        await serving


async def test_stdio_serve_raises_what_the_receiver_raises() -> None:
    async with peer_of_pipes() as peer:

        def fail(_: Sequence[Line]) -> None:
            raise LookupError("ours")

        peer.send(b"1\n")
        with pytest.raises(LookupError, match="ours"):
            await peer.lines.serve(fail)


async def test_serve_stdio_answers_a_limited_number_at_a_time_and_all_in_the_end() -> None:
    async with peer_of_pipes() as peer:
        let_go = asyncio.Event()
        running: list[bytes | None] = []

        async def answer(line: bytes | None, caller: Caller, connection: str) -> WireResponse:
            assert (caller.id, connection) == ("local", "stdio")
            running.append(line)
            await let_go.wait()
            return WireResponse(line or b"too long")

        serving = asyncio.create_task(serve_stdio(peer.lines, answer, MAX_LINE))
        numbers = [b"%d" % number for number in range(MAX_CONCURRENT_MESSAGES + 50)]
        peer.send(b"\n".join(numbers) + b"\n")
        await peer.until(lambda: len(running) >= MAX_CONCURRENT_MESSAGES)
        peer.send(b"last\n")
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(running) == MAX_CONCURRENT_MESSAGES
        let_go.set()
        await peer.until(lambda: len(running) == len(numbers) + 1)
        peer.close_input()
        await serving
        assert sorted(peer.receive().split()) == sorted([*numbers, b"last"])
