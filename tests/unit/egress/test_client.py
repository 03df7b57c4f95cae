"""Requests through the door to a real server: what arrives there, and what comes back."""

import gzip
import ssl
from pathlib import Path

import httpx2
import pytest

from tests.unit.egress.loopback_server import (
    endless_response,
    fixed_resolver,
    loopback_server,
    raw_response,
    reply,
    tls_contexts,
)
from toolhall.egress.addresses import EgressAllowlist, EgressFailed, EgressRefused
from toolhall.egress.client import BearerAuth, EgressClient
from toolhall.model.secret import Secret


async def test_fetch_returns_the_whole_response() -> None:
    async with loopback_server(reply(b"hello", "X-Kind: greeting", status="418 Teapot")) as server:
        found = await server.egress.fetch("GET", f"{server.url}/a?b=c", headers={"accept": "text/plain"})
    assert (found.status, found.headers["x-kind"], found.body) == (418, "greeting", b"hello")
    assert server.heads[0].startswith("GET /a?b=c HTTP/1.1\r\n")
    assert "accept: text/plain" in server.heads[0].lower()
    assert f"host: 127.0.0.1:{server.port}" in server.heads[0].lower()


async def test_fetch_sends_forms_and_json() -> None:
    async with loopback_server() as server:
        await server.egress.fetch("POST", server.url, form={"a": "b c", "d": "é"})
        await server.egress.fetch("PUT", server.url, json={"a": [1, None]})
    assert server.bodies == [b"a=b+c&d=%C3%A9", b'{"a":[1,null]}']
    assert "application/x-www-form-urlencoded" in server.heads[0]
    assert "application/json" in server.heads[1]


async def test_response_repr_has_no_content() -> None:
    async with loopback_server(reply(b"hunter2", "Set-Cookie: hunter2")) as server:
        found = await server.egress.fetch("GET", server.url)
    assert repr(found) == "<reply 200, 7 bytes>"


async def test_gzip_response_is_decompressed() -> None:
    text = b"some text " * 5_000
    members = gzip.compress(text[:20_000]) + gzip.compress(text[20_000:])
    for packed in (gzip.compress(text), members, gzip.compress(text, compresslevel=0)):
        async with loopback_server(reply(packed, "Content-Encoding: gzip")) as server:
            found = await server.egress.fetch("GET", server.url)
            assert found.body == text
            assert "content-encoding" not in found.headers
    assert "accept-encoding: gzip\r\n" in server.heads[0].lower()


@pytest.mark.parametrize(
    ("packed", "coding", "why"),
    [
        (b"no gzip", "gzip", "cannot be decompressed"),
        (gzip.compress(b"text")[:-4], "gzip", "is truncated"),
        (gzip.compress(b"text") + b"more", "gzip", "cannot be decompressed"),
        (gzip.compress(b"") * 17, "gzip", "cannot be decompressed"),
        (b"text", "br", "not requested"),
        (b"text", "gzip, gzip", "not requested"),
    ],
    ids=["damaged", "cut", "more", "many", "other", "twice"],
)
async def test_undecodable_response_fails(packed: bytes, coding: str, why: str) -> None:
    async with loopback_server(reply(packed, f"Content-Encoding: {coding}")) as server:
        with pytest.raises(EgressFailed, match=why):
            await server.egress.fetch("GET", server.url)


async def test_head_response_may_declare_a_large_body() -> None:
    async with loopback_server(
        raw_response(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\nContent-Encoding: gzip\r\n\r\n")
    ) as server:
        assert (await server.egress.fetch("HEAD", server.url)).body == b""


async def test_tls_uses_the_name_and_not_the_address(tmp_path: Path) -> None:
    tls, trust = tls_contexts(tmp_path, "provider.example")
    named: list[str | None] = []
    tls.sni_callback = lambda _socket, name, _context: named.append(name)
    async with loopback_server(tls=tls) as server:
        allowed = EgressAllowlist([f"provider.example:{server.port}"])
        door = EgressClient(allowed, fixed_resolver(["127.0.0.1"]), lambda: trust)
        found = await door.fetch("GET", f"https://provider.example:{server.port}/x")
    assert found.status == 200
    assert named == ["provider.example"]
    assert f"host: provider.example:{server.port}\r\n" in server.heads[0].lower()


async def test_tls_certificate_of_another_name_is_refused(tmp_path: Path) -> None:
    tls, trust = tls_contexts(tmp_path, "other.example")
    async with loopback_server(tls=tls) as server:
        door = EgressClient(EgressAllowlist(["provider.example"]), fixed_resolver(["127.0.0.1"]), lambda: trust)
        with pytest.raises(EgressFailed, match="certificate"):
            await door.fetch("GET", f"https://provider.example:{server.port}/x")
    assert server.heads == []


async def test_tls_untrusted_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls, _ = tls_contexts(tmp_path, "provider.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "provider.example.pem"))
    async with loopback_server(tls=tls) as server:
        door = EgressClient(EgressAllowlist(["provider.example"]), fixed_resolver(["127.0.0.1"]))
        with pytest.raises(EgressFailed, match="certificate"):
            await door.fetch("GET", f"https://provider.example:{server.port}/x")


async def test_next_address_is_tried() -> None:
    """A host has several addresses so that one of them may be away."""
    async with loopback_server() as server:
        door = EgressClient(EgressAllowlist(["127.0.0.0/8"]), fixed_resolver(["127.0.0.3", "127.0.0.1"]))
        assert (await door.fetch("GET", f"http://a.localhost:{server.port}")).status == 200


@pytest.mark.parametrize("addresses", [[], ["127.0.0.3"]])
async def test_unreachable_host_fails(addresses: list[str]) -> None:
    async with loopback_server() as server:
        port = server.port
    door = EgressClient(EgressAllowlist(["127.0.0.0/8"]), fixed_resolver(addresses))
    with pytest.raises(EgressFailed, match="cannot be reached"):
        await door.fetch("GET", f"http://a.localhost:{port}")


async def test_unresolvable_name_fails() -> None:
    async def resolve(host: str, port: int) -> list[object]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(EgressFailed, match=r"nowhere\.example cannot be resolved"):
        await EgressClient(EgressAllowlist(), resolve).fetch("GET", "https://nowhere.example")  # type: ignore[arg-type]


async def test_non_http_response_fails() -> None:
    async with loopback_server(raw_response(b"220 smtp.example ESMTP\r\n")) as server:
        with pytest.raises(EgressFailed, match="sent no valid response"):
            await server.egress.fetch("GET", server.url)


async def test_http_client_raises_httpx_errors() -> None:
    async with (
        loopback_server(raw_response(b"220 smtp.example ESMTP\r\n")) as server,
        server.egress.http_client() as client,
    ):
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(server.url)
    async with server.egress.http_client() as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(server.url)


async def test_http_client_streams_and_may_stop() -> None:
    forever = endless_response(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1_000)
    async with loopback_server(forever) as server, server.egress.http_client() as client:
        async with client.stream("GET", server.url) as found:
            async for part in found.aiter_bytes():
                assert part
                break
        async with client.stream("GET", server.url) as found:
            assert found.status_code == 200


async def test_http_client_with_base_url_stays_below_it() -> None:
    async with loopback_server() as server, loopback_server() as other:
        door = EgressClient(EgressAllowlist([server.entry, other.entry]))
        async with door.http_client(base_url=f"{server.url}/v1", headers={"x-key": "hunter2"}) as client:
            for inside in ("", "items", "/items/1?a=b", f"{server.url}/v1", f"{server.url}/v1/items"):
                assert (await client.get(inside)).status_code == 200
            for elsewhere in (other.url, f"{other.url}/v1/items", f"{server.url}/v10", "../admin", "items/../../admin"):
                with pytest.raises(EgressRefused, match="is not below http"):
                    await client.get(elsewhere)
    assert (server.connections, other.connections) == (5, 0)
    assert all("x-key: hunter2" in head.lower() for head in server.heads)


async def test_bearer_auth_sends_the_token() -> None:
    async with loopback_server() as server:
        auth = BearerAuth(server.url, Secret("hunter2"))
        async with server.egress.http_client(base_url=server.url, auth=auth) as client:
            await client.get("/me")
    assert "authorization: Bearer hunter2\r\n" in server.heads[0].replace("Authorization", "authorization")


async def test_http_client_with_forbidden_base_url_is_refused() -> None:
    with pytest.raises(EgressRefused, match="egress_allow"):
        EgressClient(EgressAllowlist()).http_client(base_url="https://127.0.0.1")


async def test_ssl_context_is_created_once(tmp_path: Path) -> None:
    asked: list[ssl.SSLContext] = []
    tls, trust = tls_contexts(tmp_path, "provider.example")

    def trusted() -> ssl.SSLContext:
        asked.append(trust)
        return trust

    async with loopback_server(tls=tls) as server:
        door = EgressClient(EgressAllowlist(["provider.example"]), fixed_resolver(["127.0.0.1"]), trusted)
        async with door.http_client(base_url=f"https://provider.example:{server.port}") as client:
            await client.get("/1")
            await client.get("/2")
    assert len(asked) == 1
