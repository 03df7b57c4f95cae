# ruff: noqa: N802 - tests carry the names of their rows
"""A server that is asked for a little answers with too much: in bytes, in what they unpack to, or in time."""

import asyncio
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from tests.unit.egress.loopback_server import endless_response, loopback_server, reply
from toolhall.egress.addresses import EgressAllowlist, EgressFailed, IpAddress
from toolhall.egress.client import EgressClient

ROOT = Path(__file__).parents[2]
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
PACKED = HEAD + b"Content-Encoding: gzip\r\n\r\n"
MOST_GROWN = 20 * 1024 * 1024
MOST_BYTES = 64 * 1024 * 1024

# In a process of its own: only there does the most memory that was ever used tell something.
READER = f"""
import asyncio, sys
from pathlib import Path
from toolhall.egress.addresses import EgressAllowlist, EgressFailed
from toolhall.egress.client import EgressClient

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

async def main(port):
    client = EgressClient(EgressAllowlist([f"127.0.0.1:{{port}}"]))
    await client.fetch("GET", f"http://127.0.0.1:{{port}}/small")
    Path("/proc/self/clear_refs").write_text("5")  # the most is what is used now
    before = most()
    try:
        await client.fetch("GET", f"http://127.0.0.1:{{port}}/bomb", max_bytes={MOST_BYTES}, seconds=30)
    except EgressFailed as error:
        print(error)
    print(most() - before)

asyncio.run(main(sys.argv[1]))
"""


def bomb() -> tuple[bytes, bytes]:
    """The beginning of a gzip stream, and a part of it that unpacks to ten megabytes however often it comes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    head = packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    part = packer.compress(bytes(10_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head, part


@pytest.mark.threat("E7")
async def test_E7_gzip_bomb_is_aborted_with_less_than_20_megabytes_of_memory() -> None:
    """Reading ends when it has grown a hundredfold, and the memory of the hall has grown by less than 20 MB."""
    head, part = bomb()
    small = reply()

    async def answer(asked: str) -> AsyncIterator[bytes]:
        async for each in (small if "/small" in asked else endless_response(PACKED + head, part))(asked):
            yield each

    async with loopback_server(answer) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", READER, str(server.port), stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        told, _ = await process.communicate()
    message, grown = told.decode().splitlines()
    assert message.endswith("decompresses to more than 100 times its size")
    assert int(grown) < MOST_GROWN


@pytest.mark.threat("E7")
async def test_E7_decompressed_reply_over_the_byte_limit_is_aborted() -> None:
    """The cap counts what is unpacked, also where it grows little."""
    packed = zlib.compressobj(0, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    part = packed.compress(bytes(50_000)) + packed.flush(zlib.Z_FULL_FLUSH)
    async with loopback_server(endless_response(PACKED + part, b"")) as server:
        with pytest.raises(EgressFailed, match="larger than 10000 bytes"):
            await server.egress.fetch("GET", server.url, max_bytes=10_000)


@pytest.mark.threat("E7")
@pytest.mark.parametrize("head", [b"", b"Content-Length: 99999999999\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_E7_endless_reply_is_aborted_at_the_byte_limit(head: bytes) -> None:
    """Stated, streamed or in chunks: no more than the cap is read, by either way through the door."""
    part = b"400\r\n" + b"x" * 1_024 + b"\r\n"
    async with loopback_server(endless_response(HEAD + head + b"\r\n", part)) as server:
        with pytest.raises(EgressFailed, match="larger than 65536 bytes"):
            await server.egress.fetch("GET", server.url)
        async with server.egress.http_client(max_bytes=1_000) as client:
            with pytest.raises(EgressFailed, match="larger than 1000 bytes"):
                await client.get(server.url)
            with pytest.raises(EgressFailed, match="larger than 1000 bytes"):
                await read_some(client, server.url)


async def read_some(client: httpx2.AsyncClient, url: str) -> None:
    """Read a stream in parts, as a tool may."""
    async with client.stream("GET", url) as found:
        async for _ in found.aiter_bytes():
            pass


@pytest.mark.threat("E7")
@pytest.mark.parametrize("head", [HEAD + b"\r\n", b"HTTP/1.1 200 OK\r\nX-Slow: ", b""], ids=["body", "header", "start"])
async def test_E7_slow_reply_is_aborted_at_the_total_timeout(head: bytes) -> None:
    """A byte now and then keeps no connection: the time is for the whole reply, not for the next byte."""
    async with loopback_server(endless_response(head, b"1", pause=0.01)) as server:
        with pytest.raises(EgressFailed, match="in time"):
            await server.egress.fetch("GET", server.url, seconds=0.3)
        async with server.egress.http_client(timeout=0.3) as client:
            with pytest.raises(httpx2.ReadTimeout, match=r"within 0\.3 seconds"):
                await client.get(server.url)


@pytest.mark.threat("E7")
async def test_E7_slow_dns_resolution_is_aborted_at_the_total_timeout() -> None:
    """Looking for the address is part of the time."""

    async def resolve(host: str, port: int) -> list[IpAddress]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(EgressFailed, match="in time"):
        await EgressClient(EgressAllowlist(), resolve).fetch("GET", "https://slow.example/", seconds=0.1)
