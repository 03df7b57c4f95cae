"""A connection to a tool server that recognizes heads reads the same responses as one that parses them all."""

import asyncio
from collections.abc import Generator, Sequence

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.harness.response_streams import MAX_BODY, ResponseStreams
from tests.harness.seeds import examples

STATUS = b"HTTP/1.1 200 OK\r\n"
DATE = b"date: Wed, 18 Nov 2026 08:16:43 GMT\r\n"
TYPE = b"content-type: application/json\r\n"


def response(body: bytes = b'{"a":1}', *more: bytes, status: bytes = STATUS, length: bytes | None = None) -> bytes:
    """A plain response; `more` are headers after the length."""
    stated = b"%d" % len(body) if length is None else length
    return b"".join((status, DATE, TYPE, b"content-length: ", stated, b"\r\n", *more, b"\r\n", body))


KNOWN = response()
VARIANTS = {
    "plain": response(b'{"b":[1,2,3]}'),
    "empty": response(b""),
    "largest": response(b"x" * MAX_BODY),
    "too_large": response(b"x" * (MAX_BODY + 1)),
    "later": response(b"{}").replace(b":43", b":44"),
    "other_case": response(b"{}").replace(b"content-length", b"Content-Length"),
    "no_space": response(b"{}").replace(b"length: ", b"length:"),
    "two_spaces": response(b"{}").replace(b"length: ", b"length:  "),
    "space_after": response(b"{}", length=b"2 "),
    "leading_zero": response(b"{}", length=b"02"),
    "plus": response(b"{}", length=b"+2"),
    "negative": response(b"{}", length=b"-2"),
    "no_digits": response(b"{}", length=b""),
    "hexadecimal": response(b"{}", length=b"0x2"),
    "huge": response(b"{}", length=b"99999999999999999999"),
    "too_short": response(b"{}", length=b"1"),
    "too_long": response(b"{}", length=b"3"),
    "two_lengths": response(b"{}", b"content-length: 2\r\n"),
    "two_other_lengths": response(b"{}", b"content-length: 3\r\n"),
    "chunked_too": response(b"{}", b"transfer-encoding: chunked\r\n"),
    "chunks": STATUS + DATE + TYPE + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "lines": STATUS + b"content-type: application/x-ndjson\r\ncontent-length: 6\r\n\r\n{}\n{}\n",
    "lines_stated_later": response(b"{}\n{}\n", b"content-type: application/x-ndjson\r\n"),
    "until_closed": STATUS + DATE + TYPE + b"\r\n{}",
    "close": response(b"{}", b"connection: close\r\n"),
    "keep_alive": response(b"{}", b"connection: keep-alive\r\nkeep-alive: timeout=5\r\n"),
    "http_1_0": response(b"{}", status=b"HTTP/1.0 200 OK\r\n"),
    "created": response(b"{}", status=b"HTTP/1.1 201 Created\r\n"),
    "no_content": response(b"", status=b"HTTP/1.1 204 No Content\r\n"),
    "not_modified": response(b"{}", status=b"HTTP/1.1 304 Not Modified\r\n"),
    "redirect": response(b"{}", b"location: http://127.0.0.1/\r\n", status=b"HTTP/1.1 302 Found\r\n"),
    "upgrade": response(b"{}", b"upgrade: x\r\n", status=b"HTTP/1.1 101 Switching Protocols\r\n"),
    "error": response(b"{}", status=b"HTTP/1.1 500 Internal Server Error\r\n"),
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n" + response(b"{}"),
    "interim_with_type": b"HTTP/1.1 103 Early Hints\r\ncontent-type: application/x-ndjson\r\n\r\n" + response(b"{}"),
    "twice": response(b"{}") * 2,
    "bytes_behind": response(b"{}") + b"x",
    "length_in_value": response(b"{}", b"x: content-length: 9\r\n"),
    "length_folded": response(b"{}", b"x: a\r\n content-length: 9\r\n"),
    "length_in_body": response(b"\r\ncontent-length: 9\r\n\r\n123456789"),
    "head_in_body": response(KNOWN),
    "blank_lines_in_body": response(b"\r\n\r\n\r\n\r\n"),
    "bare_line_feeds": KNOWN.replace(b"\r\n", b"\n"),
    "bare_line_feed_in_head": response(b"{}").replace(b"GMT\r\n", b"GMT\n"),
    "large_head": response(b"{}", b"x: " + b"a" * 5_000 + b"\r\n"),
    "no_http": b"nonsense\r\n\r\n",
    "nul": response(b"{}").replace(b"GMT", b"G\x00T"),
    "nothing": b"",
}


@pytest.fixture(scope="module")
def loop() -> Generator[asyncio.AbstractEventLoop]:
    """Never runs: a connection is fed by the test itself."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


def outcomes_agree(loop: asyncio.AbstractEventLoop, streams: Sequence[Sequence[bytes]]) -> int:
    """Compare both connections; returns how many responses less the recognizing one had to parse."""
    recognizing, parsing = ResponseStreams(loop), ResponseStreams(loop, recognizes=False)
    # On a second connection of the pool, the heads of the first are known from the beginning.
    for _ in range(2):
        assert recognizing.exchange(streams) == parsing.exchange(streams)
    return parsing.parsed - recognizing.parsed


@pytest.mark.parametrize("name", VARIANTS)
def test_response_head_variant_is_read_as_by_the_parser(loop: asyncio.AbstractEventLoop, name: str) -> None:
    """Alone, after a known head, before it, and after itself, when its own head may be known."""
    variant, known = [VARIANTS[name]], [KNOWN]
    outcomes_agree(loop, [variant, known, variant, variant, known])
    outcomes_agree(loop, [known, variant, known])


@pytest.mark.parametrize("name", VARIANTS)
def test_response_head_variant_split_at_every_byte_is_read_as_by_the_parser(
    loop: asyncio.AbstractEventLoop, name: str
) -> None:
    variant = VARIANTS[name]
    for at in range(min(len(variant), 400)):
        outcomes_agree(loop, [[KNOWN], [variant[:at], variant[at:]], [KNOWN]])


def test_response_head_that_is_known_needs_no_parser(loop: asyncio.AbstractEventLoop) -> None:
    saved = outcomes_agree(loop, [[KNOWN], [response(b"x" * 9)], [response(b"x" * 10)], [response(b"")]])
    assert saved == 3 + 4, "of the first connection all but the first, of the second one all"


PIECES = st.lists(
    st.one_of(
        st.sampled_from(list(VARIANTS.values())),
        st.binary(max_size=40).map(response),
        st.integers(0, 120).map(lambda size: response(b"x" * size)),
        st.builds(response, st.just(b"{}"), length=st.text("0123456789 +-,x", max_size=4).map(str.encode)),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(300))
@given(PIECES, st.data())
def test_response_heads_in_any_order_and_pieces_are_read_as_by_the_parser(
    responses: list[bytes], data: st.DataObject
) -> None:
    streams: list[list[bytes]] = []
    for each in responses:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(each)), max_size=2)))
        streams.append([each[start:end] for start, end in zip([0, *cuts], [*cuts, len(each)], strict=True)])
    loop = asyncio.new_event_loop()
    try:
        saved = outcomes_agree(loop, [[KNOWN], *streams])
    finally:
        loop.close()
    event("recognized" if saved else "all were parsed")


@settings(max_examples=examples(300))
@given(st.data())
def test_response_head_with_one_changed_byte_is_read_as_by_the_parser(data: st.DataObject) -> None:
    at, byte = data.draw(st.integers(0, len(KNOWN) - 1)), data.draw(st.integers(0, 255))
    changed = KNOWN[:at] + bytes([byte]) + KNOWN[at + 1 :]
    loop = asyncio.new_event_loop()
    try:
        outcomes_agree(loop, [[KNOWN], [changed], [KNOWN], [changed]])
    finally:
        loop.close()
