"""Keys and secrets go over https, or stay on this machine."""

import socket
from typing import Any

import pytest

from toolhall.cli.clients.http import parse_endpoint
from toolhall.cli.clients.management import open_management
from toolhall.cli.clients.remote import RemoteToolClient
from toolhall.cli.errors import CommandError
from toolhall.cli.hall_options import HallOptions

KEY = "thk-a-key-of-somebody"
ELSEWHERE = ["http://hall.example", "http://192.0.2.7:8000/mcp", "http://[2001:db8::1]", "http://localhost.example"]


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whom anything was sent to."""
    reached: list[Any] = []

    def connect(address: Any, *_: Any, **__: Any) -> socket.socket:
        reached.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)
    monkeypatch.delenv("TOOLHALL_KEY", raising=False)
    return reached


@pytest.mark.parametrize("url", ELSEWHERE)
@pytest.mark.parametrize("given", [True, False])
def test_key_over_plain_http_is_not_sent(
    url: str, given: bool, network: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not given:
        monkeypatch.setenv("TOOLHALL_KEY", KEY)
    key = KEY if given else None
    for ask in (
        lambda: RemoteToolClient(url, key),
        lambda: _managed("GET", url, key),
        lambda: _managed("PUT", url, key),
    ):
        with pytest.raises(CommandError, match="use https") as refused:
            ask()
        assert KEY not in str(refused.value)
    assert network == []


@pytest.mark.parametrize("url", ELSEWHERE)
def test_secret_over_plain_http_without_a_key_is_not_sent(url: str, network: list[Any]) -> None:
    with pytest.raises(CommandError, match="use https"):
        _managed("PUT", url)
    assert network == []


@pytest.mark.parametrize(
    "url", ["https://hall.example", "http://127.0.0.1:8000", "http://127.9.9.9", "http://[::1]:1", "http://localhost"]
)
def test_key_and_secret_over_https_or_loopback_are_sent(url: str, network: list[Any]) -> None:
    with pytest.raises(CommandError, match="nothing listens"):
        _managed("PUT", url, KEY)
    assert len(network) == 1


def test_request_without_secrets_over_plain_http_is_sent(network: list[Any]) -> None:
    with pytest.raises(CommandError, match="nothing listens"):
        _managed("GET", "http://hall.example")
    assert parse_endpoint("http://hall.example").key == ""
    assert len(network) == 1


def _managed(method: str, url: str, key: str | None = None) -> None:
    with open_management(HallOptions(url=url, key=key)) as desk:
        desk.request(method, "secrets", "NAME", body={"value": "sk-of-somebody"} if method == "PUT" else None)
