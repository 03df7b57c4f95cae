"""Where the pages are, and what passkeys belong to."""

import pytest

from toolhall.transports.pages.place import Place

HOSTS = {"localhost:8000": "localhost", "127.0.0.1:8000": None, "[::1]:8000": None, "hall.example": "hall.example"}


@pytest.mark.parametrize("host", HOSTS)
def test_without_a_public_url_it_is_what_the_browser_came_by(host: str) -> None:
    place, headers = Place(None, 8000), {b"host": host.encode()}
    assert place.url == "http://localhost:8000"
    assert (place.origin(headers), place.host(headers)) == (f"http://{host}", HOSTS[host])
    assert not place.secure


def test_a_public_url_is_the_only_one() -> None:
    place, headers = Place("https://Hall.example:8443/below/", 8000), {b"host": b"localhost"}
    assert place.url == "https://Hall.example:8443/below"
    assert (place.origin(headers), place.host(headers)) == ("https://hall.example:8443", "hall.example")
    assert place.secure
