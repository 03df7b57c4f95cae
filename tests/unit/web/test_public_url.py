"""Where the pages are, and what passkeys belong to."""

import pytest

from toolhall.web.public_url import PublicUrl

HOSTS = {"localhost:8000": "localhost", "127.0.0.1:8000": None, "[::1]:8000": None, "hall.example": "hall.example"}


@pytest.mark.parametrize("host", HOSTS)
def test_origin_without_public_url_is_host_header(host: str) -> None:
    place, headers = PublicUrl(None, 8000), {b"host": host.encode()}
    assert place.url == "http://localhost:8000"
    assert (place.origin(headers), place.relying_party_id(headers)) == (f"http://{host}", HOSTS[host])
    assert not place.is_secure


@pytest.mark.parametrize(
    ("listens", "url"),
    [
        ("127.0.0.1", "http://localhost:8000"),
        ("0.0.0.0", "http://localhost:8000"),
        ("::", "http://localhost:8000"),
        ("192.0.2.2", "http://192.0.2.2:8000"),
        ("2001:db8::2", "http://[2001:db8::2]:8000"),
        ("hall.internal", "http://hall.internal:8000"),
    ],
)
def test_url_without_public_url_is_listening_address(listens: str, url: str) -> None:
    assert PublicUrl(None, 8000, listens).url == url


def test_origin_with_public_url_ignores_host_header() -> None:
    place, headers = PublicUrl("https://Hall.example:8443/below/", 8000), {b"host": b"localhost"}
    assert place.url == "https://Hall.example:8443/below"
    assert (place.origin(headers), place.relying_party_id(headers)) == ("https://hall.example:8443", "hall.example")
    assert place.is_secure
