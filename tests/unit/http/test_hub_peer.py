"""The way back over a socket: one line for each replica, and a new one for whoever joins again on it."""

from typing import Any

from toolhall.http.tool_server_join import HubPeer


async def unread(_: Any) -> None:
    """Whatever is written here is gone."""


def test_one_line_as_long_as_it_takes_calls() -> None:
    sender = HubPeer(send=unread)
    line = sender.transport("one")
    assert line is not None
    assert sender.transport("one") is line
    assert sender.transport("two") is not line


def test_a_lease_that_ran_out_leaves_no_dead_line_to_the_next() -> None:
    sender = HubPeer(send=unread)
    first = sender.transport("one")
    assert first is not None
    first.close()
    second = sender.transport("one")
    assert second is not None
    assert second.is_open
    sender.close()
    assert not second.is_open


def test_without_a_socket_there_is_no_line() -> None:
    assert HubPeer().transport("one") is None
