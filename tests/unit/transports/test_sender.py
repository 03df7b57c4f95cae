"""The way back over a socket: one line for each replica, and a new one for whoever joins again on it."""

from typing import Any

from toolhall.transports.sender import Sender


async def unread(_: Any) -> None:
    """Whatever is written here is gone."""


def test_one_line_as_long_as_it_takes_calls() -> None:
    sender = Sender(send=unread)
    line = sender.line("one")
    assert line is not None
    assert sender.line("one") is line
    assert sender.line("two") is not line


def test_a_lease_that_ran_out_leaves_no_dead_line_to_the_next() -> None:
    sender = Sender(send=unread)
    first = sender.line("one")
    assert first is not None
    first.close()
    second = sender.line("one")
    assert second is not None
    assert second.open
    sender.end()
    assert not second.open


def test_without_a_socket_there_is_no_line() -> None:
    assert Sender().line("one") is None
