"""The way back over a socket: one line for each replica, and a new one for whoever joins again on it."""

from typing import Any

from toolhall.http.tool_server_join import HubPeer


async def unread(_: Any) -> None:
    """Whatever is written here is gone."""


def test_transport_of_replica_is_reused_while_open() -> None:
    sender = HubPeer(send=unread)
    line = sender.transport("one")
    assert line is not None
    assert sender.transport("one") is line
    assert sender.transport("two") is not line


def test_transport_after_close_is_new() -> None:
    sender = HubPeer(send=unread)
    first = sender.transport("one")
    assert first is not None
    first.close()
    second = sender.transport("one")
    assert second is not None
    assert second.is_open
    sender.close()
    assert not second.is_open


def test_transport_without_websocket_is_none() -> None:
    assert HubPeer().transport("one") is None
