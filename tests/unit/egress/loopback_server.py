"""An HTTP server on loopback whose response bytes a test gives, and which counts connections and requests."""

import asyncio
import datetime
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from toolhall.egress.addresses import EgressAllowlist, IpAddress
from toolhall.egress.client import EgressClient
from toolhall.egress.resolver import Resolver

Answer = Callable[[str], AsyncIterator[bytes]]  # from the head of a request to the bytes of the reply


class LoopbackServer:
    """The server, with its connections and requests so far."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.entry = f"127.0.0.1:{port}"
        self.connections = 0
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    @property
    def egress(self) -> EgressClient:
        """An egress client that may reach this server besides public addresses."""
        return EgressClient(EgressAllowlist([self.entry]))


def reply(body: bytes = b"{}", *headers: str, status: str = "200 OK") -> Answer:
    """A complete response with its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return raw_response("\r\n".join(lines).encode() + body)


def raw_response(content: bytes) -> Answer:
    """Exactly these bytes."""

    async def answer(_head: str) -> AsyncIterator[bytes]:
        yield content

    return answer


def endless_response(head: bytes, part: bytes, pause: float = 0.0) -> Answer:
    """A response that repeats one part without end."""

    async def answer(_head: str) -> AsyncIterator[bytes]:
        yield head
        while True:
            yield part
            await asyncio.sleep(pause)

    return answer


@asynccontextmanager
async def loopback_server(
    answer: Answer | None = None, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncGenerator[LoopbackServer]:
    """Run a server; it closes every connection after one reply."""
    said = answer or reply()
    running: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            length = next((line[15:] for line in head.lower().split("\r\n") if line.startswith("content-length:")), "0")
            found.heads.append(head)
            found.bodies.append(await reader.readexactly(int(length)))
            async for part in said(head):
                writer.write(part)
                await writer.drain()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found.connections += 1
        writers.append(writer)
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(connected, host, port, ssl=tls)
    found = LoopbackServer(server.sockets[0].getsockname()[1])
    try:
        yield found
    finally:
        server.close()
        for task in [*running]:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for writer in writers:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()
        await server.wait_closed()


def fixed_resolver(*answers: Sequence[str]) -> Resolver:
    """A resolver that returns these answers in turn, and then the last one."""
    left = [[ip_address(each) for each in answer] for answer in answers]

    async def resolve(host: str, port: int) -> list[IpAddress]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


def tls_contexts(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS contexts of a server with this name, and of a client that trusts only its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / f"{name}.pem"
    file.write_bytes(private + public)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=public.decode())
