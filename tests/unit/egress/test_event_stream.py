"""Server-sent events: every way to cut and end their lines, and bounds on what waits to be read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each_row
from toolhall.egress.event_stream import EVENT_COST, EventStreamParser

MOST = 10_000


def read(parser: EventStreamParser, *pieces: bytes) -> list[tuple[bytes, bytes]]:
    for piece in pieces:
        assert parser.feed(piece)
    found: list[tuple[bytes, bytes]] = []
    while (event := parser.pop()) is not None:
        found.append((event.name, event.data))
    return found


@each_row(
    ("stream", "events"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\r\n\r\ndata:  b\r\r", [(b"", b"a"), (b"", b" b")]),
        (b"event: endpoint\ndata: /x\n\ndata: y\n\n", [(b"endpoint", b"/x"), (b"", b"y")]),
        (b"data: a\ndata: b\ndata\n\n", [(b"", b"a\nb\n")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b": comment\n\n\nid: 1\ndata:\n\n", []),
        (b"other: a\ndata: b\nbroken\n\n", [(b"", b"b")]),
        (b"data: never ended", []),
        (b"data: \xe2\x80\xa8 \x0b \x0c \x1c\n\n", [(b"", b"\xe2\x80\xa8 \x0b \x0c \x1c")]),
    ],
)
def test_events_are_read(stream: bytes, events: list[tuple[bytes, bytes]]) -> None:
    assert read(EventStreamParser(MOST), stream) == events


@given(st.data())
def test_events_are_the_same_for_every_cut(data: st.DataObject) -> None:
    ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
    lines = st.lists(
        st.sampled_from([b"data: a", b"data", b"event: e", b"id: 7", b"retry: 5", b": c", b""]), max_size=12
    )
    stream = b"".join(line + data.draw(ends) for line in data.draw(lines))
    whole = EventStreamParser(MOST)
    expected = read(whole, stream)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    parser = EventStreamParser(MOST)
    assert read(parser, *pieces) == expected
    assert (parser.last_id, parser.retry_ms, parser.unread) == (whole.last_id, whole.retry_ms, whole.unread)


@each_row(
    ("stream", "last_id", "retry"),
    [
        (b"id: 7\nretry: 250\ndata:\n\n", b"7", 250),
        (b"id: 7\n", None, None),
        (b"id: 7\n\nid\n\n", None, None),
        (b"id: 7\n\nid: a\0b\n\nid: " + b"x" * 2_000 + b"\n\n", b"7", None),
        (b"retry: soon\nretry: -1\nretry: 1e9\nretry: 9999999999\n\n", None, None),
    ],
)
def test_id_and_retry_are_remembered(stream: bytes, last_id: bytes | None, retry: int | None) -> None:
    parser = EventStreamParser(MOST)
    assert read(parser, stream) == []
    assert (parser.last_id, parser.retry_ms) == (last_id, retry)


@pytest.mark.parametrize(
    "piece", [b"data: " + b"x" * 2_000 + b"\n", b"x" * 2_000, b"data: x\n\n" * 10, b"data:\n" * 10], ids=range(4)
)
def test_what_waits_to_be_read_is_bounded(piece: bytes) -> None:
    parser = EventStreamParser(MOST)
    assert not all(parser.feed(piece) for _ in range(MOST // 1_000))


def test_read_events_do_not_count() -> None:
    parser = EventStreamParser(EVENT_COST + 10)
    for _ in range(100):
        assert read(parser, b"data: 12345\n", b"\n", b": comment\n") == [(b"", b"12345")]
    assert parser.unread == 0
