"""Documents of issuers: those that the operator named are asked, wherever they are; where they lead is judged."""

import pytest

from tests.unit.egress.loopback_server import loopback_server, reply
from toolhall.auth.authenticator import TokenIssuer
from toolhall.auth.key_sets import MAX_FETCH_BYTES, FetchFailed, JsonFetcher, is_safe_url


def named(*urls: str) -> JsonFetcher:
    return JsonFetcher([TokenIssuer(name=f"issuer{number}", issuer=url) for number, url in enumerate(urls)])


async def test_fetch_local_issuer_returns_document() -> None:
    async with loopback_server(reply(b'{"a":1}')) as server:
        assert await named(server.url)(f"{server.url}/keys") == {"a": 1}
    assert "accept: application/json\r\n" in server.heads[0].lower()


@pytest.mark.threat("E1")
async def test_E1_fetch_of_an_address_not_named_by_the_operator_is_refused() -> None:  # noqa: N802 - the name of its row
    """A host that the operator named is asked; another port of it, which a document names, is not."""
    async with loopback_server() as server, loopback_server() as trap:
        fetch = named(server.url, "https://idp.example/realms/a")
        for url in (trap.url, f"http://localhost:{trap.port}", "https://169.254.169.254/keys", "https://10.0.0.1/keys"):
            with pytest.raises(FetchFailed, match="egress_allow"):
                await fetch(url)
        assert await fetch(server.url) == {}
    assert (server.connections, trap.connections) == (1, 0)


async def test_fetch_configured_jwks_url_is_allowed() -> None:
    async with loopback_server() as server, loopback_server() as keys:
        issuer = TokenIssuer(name="idp", issuer=server.url, jwks_url=f"{keys.url}/keys")
        assert await JsonFetcher([issuer])(f"{keys.url}/keys") == {}
        assert await JsonFetcher([TokenIssuer(name="idp", issuer=server.url)], [keys.entry])(f"{keys.url}/keys") == {}


@pytest.mark.parametrize(
    ("body", "headers", "status", "why"),
    [
        (b"{}", (), "503 Away", "answers with status 503"),
        (b"", ("Location: http://127.0.0.1/",), "302 Found", "answers with status 302"),
        (b"[]", (), "200 OK", "is no JSON object"),
        (b"{", (), "200 OK", "JSON"),
        (b" " * (MAX_FETCH_BYTES + 1), (), "200 OK", "is larger than"),
    ],
)
async def test_fetch_invalid_document_fails(body: bytes, headers: tuple[str, ...], status: str, why: str) -> None:
    async with loopback_server(reply(body, *headers, status=status)) as server:
        with pytest.raises(FetchFailed, match=why):
            await named(server.url)(server.url)


@pytest.mark.parametrize(
    "url", ["http://idp.example", "ftp://idp.example", "https://a:b@idp.example", "https://x:99999"]
)
async def test_fetch_from_an_unsafe_url_fails(url: str) -> None:
    with pytest.raises(FetchFailed):
        await named(url)(url)
    assert not is_safe_url(url) or "99999" in url


@pytest.mark.parametrize(
    "url", ["https://bücher.example", "https://idp.example:99999", "https://a_b!.example", "nothing"]
)
async def test_fetch_unreachable_issuer_does_not_affect_others(url: str) -> None:
    """Only its own tokens prove nobody; the log says why when its keys are wanted."""
    async with loopback_server() as server:
        assert await named(url, server.url)(server.url) == {}
