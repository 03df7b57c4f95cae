"""The way back over a socket: one line at a time, and a new one for whoever joins again on the same socket."""

from typing import Any

from toolhall.transports.sender import Sender


async def unread(_: Any) -> None:
    """Whatever is written here is gone."""


def test_one_line_as_long_as_it_takes_calls() -> None:
    sender = Sender(send=unread)
    line = sender.line()
    assert line is not None
    assert sender.line() is line


def test_a_lease_that_ran_out_leaves_no_dead_line_to_the_next() -> None:
    sender = Sender(send=unread)
    first = sender.line()
    assert first is not None
    first.close()
    second = sender.line()
    assert second is not None
    assert second.open
    sender.end()
    assert not second.open


def test_without_a_socket_there_is_no_line() -> None:
    assert Sender().line() is None
