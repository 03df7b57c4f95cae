"""Where the pages are, and what passkeys belong to."""

import pytest

from toolhall.web.public_url import PublicUrl

HOSTS = {"localhost:8000": "localhost", "127.0.0.1:8000": None, "[::1]:8000": None, "hall.example": "hall.example"}


@pytest.mark.parametrize("host", HOSTS)
def test_without_a_public_url_it_is_what_the_browser_came_by(host: str) -> None:
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
def test_a_link_leads_to_where_the_hall_listens(listens: str, url: str) -> None:
    assert PublicUrl(None, 8000, listens).url == url


def test_a_public_url_is_the_only_one() -> None:
    place, headers = PublicUrl("https://Hall.example:8443/below/", 8000), {b"host": b"localhost"}
    assert place.url == "https://Hall.example:8443/below"
    assert (place.origin(headers), place.relying_party_id(headers)) == ("https://hall.example:8443", "hall.example")
    assert place.is_secure
