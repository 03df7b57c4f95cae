"""HeadTemplate: which heads are plain, and which requests have one; HttpProtocol: when a known head is used."""

from typing import Any

import pytest

from tests.harness.connections import MAX_BODY, MemoryConnection, ParsedRequests, Piece
from toolhall.server.known_heads import MAX_HEAD_BYTES, MAX_HEADS, MAX_UNUSED_HEADS, HeadTemplate
from toolhall.server.protocol import MAX_AWAITED_BODY

LINE = b"POST /mcp HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
TYPE = b"Content-Type: application/json\r\n"


def request(body: bytes = b'{"a":1}', *lines: bytes, length: bytes | None = None, line: bytes = LINE) -> bytes:
    """A request with these lines after the length."""
    stated = b"%d" % len(body) if length is None else length
    return line + HOST + TYPE + b"Content-Length: " + stated + b"\r\n" + b"".join(lines) + b"\r\n" + body


def template(data: bytes) -> HeadTemplate | None:
    """The template of the only request in the data, as the parser reads it."""
    (seen,) = ParsedRequests([Piece(data)]).requests
    head = data.partition(b"\r\n\r\n")[0]
    lengths = [(b"content-length", b"")] * head.lower().count(b"\r\ncontent-length:")
    version = head.partition(b"\r\n")[0][-3:].decode()
    scope: dict[str, Any] = {"method": seen.method, "http_version": version, "headers": [*seen.headers, *lengths]}
    return HeadTemplate.of(data, scope, seen.body or b"")


def known(data: bytes | None = None) -> HeadTemplate:
    found = template(data or request())
    assert found is not None
    return found


def body_of(data: bytes, head: HeadTemplate | None = None) -> bytes | None:
    """The body of a request that is recognized; None if it is not."""
    found = (head or known()).find_body(data)
    return data[found[0] :] if found is not None and found[1] == len(data) else None


@pytest.mark.parametrize(
    "data",
    [
        request(),
        request(b"1"),
        request(b"x" * 999),
        request(b"{}", b"X-A: a\r\n"),
        request(b"{}", b"Connection: keep-alive\r\n"),
        request(b"{}", b"connection: Keep-Alive\r\n"),
        request(b"\r\n\r\n"),
        request(b"{}").replace(b"Content-Length: ", b"Content-Length:"),
        request(b"{}").replace(b"Content-Length", b"cOnTeNt-LeNgTh"),
        request(b"{}", b"X-A: Content-Length: 9\r\n"),
        request(b"{}", b"X-Content-Length: 9\r\n"),
        request(b"Content-Length: 5\r\n\r\n12345"),
        request(b"\r\nContent-Length: 5\r\n\r\n12345"),
    ],
)
def test_head_template_of_plain_request_recognizes_it(data: bytes) -> None:
    found = template(data)
    assert found is not None
    body = data.partition(b"\r\n\r\n")[2]
    assert found.before + b"%d" % len(body) + found.after + body == data
    assert body_of(data, found) == body


@pytest.mark.parametrize(
    "data",
    [
        request(line=b"GET /mcp HTTP/1.1\r\n"),
        request(line=b"PUT /mcp HTTP/1.1\r\n"),
        request(line=b"POST /mcp HTTP/1.0\r\n"),
        request(b""),
        request(b"{}", length=b"02"),
        request(b"{}", length=b"0000000002"),
        request(b"{}", length=b" 2"),
        request(b"{}", length=b"2 "),
        request(b"{}", length=b"\t2"),
        request(b"{}", length=b"3"),
        request(b"{}", b"Connection: close\r\n"),
        request(b"{}", b"Connection: keep-alive, close\r\n"),
        request(b"{}", b"Expect: 100-continue\r\n"),
        request(b"{}", b"Upgrade: h2c\r\n"),
        request(b"{}", b"TE: trailers\r\n"),
        request(b"{}", b"Trailer: X\r\n"),
        LINE + HOST + TYPE + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        LINE + HOST + TYPE + b"\r\n",
        request(b"{}", b"X-A: " + b"a" * MAX_HEAD_BYTES + b"\r\n"),
    ],
)
def test_head_template_of_request_that_is_not_plain_is_none(data: bytes) -> None:
    assert template(data) is None


@pytest.mark.parametrize("over", [0, 1])
def test_head_template_has_4_kib_at_most(over: int) -> None:
    padding = b"X-A: \r\n"
    size = request(b"", padding, length=b"2").index(b"\r\n\r\n") + 4
    data = request(b"{}", b"X-A: " + b"a" * (MAX_HEAD_BYTES - size + over) + b"\r\n")
    assert data.index(b"\r\n\r\n") + 4 == MAX_HEAD_BYTES + over
    assert (template(data) is None) == bool(over)


def test_head_template_of_two_lengths_is_none() -> None:
    data = request(b"{}", b"Content-Length: 2\r\n")
    scope = {"method": "POST", "http_version": "1.1", "headers": [(b"content-length", b"2")] * 2}
    assert HeadTemplate.of(data, scope, b"{}") is None


def test_head_template_of_a_length_that_the_parser_saw_twice_is_none() -> None:
    scope = {"method": "POST", "http_version": "1.1", "headers": [(b"content-length", b"2")] * 2}
    assert HeadTemplate.of(request(b"{}"), scope, b"{}") is None


@pytest.mark.parametrize("body", [b"{}{", b"[]", b"", b"{"])
def test_head_template_of_data_with_another_body_than_the_parser_read_is_none(body: bytes) -> None:
    scope = {"method": "POST", "http_version": "1.1", "headers": [(b"content-length", b"2")]}
    assert HeadTemplate.of(request(b"{}"), scope, body) is None


def test_head_template_of_data_without_the_end_of_a_head_is_none() -> None:
    scope = {"method": "POST", "http_version": "1.1", "headers": [(b"content-length", b"2")]}
    assert HeadTemplate.of(request(b"{}").replace(b"\r\n\r\n", b"\n\n"), scope, b"{}") is None
    assert HeadTemplate.of(b"", scope, b"") is None


@pytest.mark.parametrize("size", [1, 9, 10, 99, 100, 70_000])
@pytest.mark.parametrize("line", [b"", b"X-A: 5\r\n"], ids=["length_last", "length_first"])
def test_find_body_of_the_same_head_with_other_digits_is_found(size: int, line: bytes) -> None:
    head, body = known(request(b"{}", line)), b"x" * size
    assert body_of(request(body, line), head) == body


@pytest.mark.parametrize(
    "data",
    [
        request(b"{}", length=b"02"),
        request(b"{}", length=b"00000000000000000002"),
        request(b"{}", length=b"0"),
        request(b"", length=b"0"),
        request(b"", length=b""),
        request(b"{}", length=b"1"),
        request(b"{}", length=b"3"),
        request(b"{}", length=b"+2"),
        request(b"{}", length=b"-2"),
        request(b"{}", length=b"2 "),
        request(b"{}", length=b" 2"),
        request(b"{}", length=b"0x2"),
        request(b"{}", length=b"2, 2"),
        request(b"{}", length=b"2_0"),
        request(b"{}", length=b"2e0"),
        request(b"{}", length="²".encode()),
        request(b"{}", length="٢".encode()),
        request(b"{}", length=b"2\x00"),
        request(b"{}", length=b"2\r"),
        request(b"{}", length=b"2\r\n 3"),
        request(b"{}", length=b"9" * 9),
        request(b"{}", length=b"9" * 10),
        request(b"{}", length=b"9" * 5_000),
        request(b"{}", b"Content-Length: 2\r\n"),
        request(b"{}", b"Transfer-Encoding: chunked\r\n"),
        request(b"{}", b"Connection: close\r\n"),
        request(b"{}") + b"P",
        request(b"{}") + request(b"{}"),
        request(b"{}")[:-1],
        request(b"{}")[:-2],
        request(b"{}").replace(b"\r\n\r\n", b"\n\n"),
        request(b"{}").replace(b"\r\n\r\n", b"\r\n\n"),
        request(b"{}").replace(b"POST", b"post"),
        request(b"{}").replace(b"Host", b"HOST"),
        b"\r\n" + request(b"{}"),
        b" " + request(b"{}"),
        LINE,
        b"",
    ],
)
def test_find_body_ends_elsewhere_or_nowhere_in_any_other_request(data: bytes) -> None:
    assert body_of(data) is None


def test_find_body_of_every_beginning_of_a_head_is_none() -> None:
    head, data = known(), request()
    start = data.index(b"\r\n\r\n") + 4
    assert not any(head.find_body(data[:end]) for end in range(start))
    assert {head.find_body(data[:end]) for end in range(start, len(data) + 1)} == {(start, len(data))}


def test_find_body_takes_the_first_end_of_the_head() -> None:
    body = b"1\r\n\r\n" + request(b"{}")
    assert body_of(request(body)) == body
    smuggled = LINE + HOST + TYPE + b"Content-Length: 2\r\nX-A: b\r\n\r\n{}" + b"Content-Length: 4\r\n\r\n1234"
    assert body_of(smuggled) is None


async def fed(*pieces: bytes) -> MemoryConnection:
    connection = MemoryConnection()
    await connection.feed([Piece(data) for data in pieces])
    return connection


async def test_protocol_recognizes_every_request_after_the_first_of_a_head() -> None:
    connection = await fed(*(request(b"x" * size) for size in (1, 9, 10, 300)))
    assert [seen.body for seen in connection.app.requests] == [b"x", b"x" * 9, b"x" * 10, b"x" * 300]
    assert connection.app.recognized == 3
    assert connection.transport.written.count(b"HTTP/1.1 200 OK") == 4


async def test_protocol_recognizes_a_request_that_is_larger_than_a_piece_for_the_parser() -> None:
    connection = await fed(request(), request(b"x" * MAX_BODY))
    assert connection.app.recognized == 1
    assert connection.app.requests[-1].body == b"x" * MAX_BODY


async def test_protocol_leaves_a_body_over_the_limit_to_the_parser() -> None:
    connection = await fed(request(), request(b"x" * (MAX_BODY + 1)))
    assert connection.app.recognized == 0
    assert b"HTTP/1.1 413 " in connection.transport.written
    assert connection.transport.closed


@pytest.mark.parametrize(
    "pieces",
    [
        (request(), request() + request()),
        (request() + request(), request(b"{}")[:-1], b"}"),
        (request(), request()[:60], request()[60:]),
        (request(), request() + b"P", request()[1:]),
        (request() + b"P", request()[1:]),
        (request()[:60], request()[60:], request()[:60], request()[60:]),
    ],
    ids=["two_in_one_read", "two_then_pieces", "pieces", "tail", "first_with_tail", "only_pieces"],
)
async def test_protocol_leaves_what_is_not_exactly_one_request_to_the_parser(pieces: tuple[bytes, ...]) -> None:
    connection = await fed(*pieces)
    assert connection.app.recognized == 0
    assert len(connection.app.requests) == b"".join(pieces).count(LINE)
    assert connection.transport.written.count(b"HTTP/1.1 200 OK") == len(connection.app.requests)
    assert not connection.transport.closed


async def test_protocol_recognizes_a_head_again_after_the_parser_has_read_other_requests() -> None:
    connection = await fed(request(), request()[:60], request()[60:], request(b"{}"))
    assert connection.app.recognized == 1
    assert connection.app.requests[-1].body == b"{}"


async def test_protocol_leaves_a_request_that_follows_an_unanswered_one_to_the_parser() -> None:
    connection = MemoryConnection()
    await connection.feed([Piece(request()), Piece(request(b"wait"), settle=False), Piece(request(b"2"))])
    assert [seen.body for seen in connection.app.requests] == [b'{"a":1}', b"wait", b"2"]
    assert connection.app.recognized == 1
    answers = bytes(connection.transport.written)
    assert answers.index(b'"body":"wait"') < answers.index(b'"body":"2"')


async def test_protocol_forgets_the_head_that_was_not_seen_for_longest() -> None:
    heads = [request(b"{}", b"X-A: %d\r\n" % number) for number in range(MAX_HEADS + 1)]
    connection = await fed(*heads)
    await connection.feed([Piece(data) for data in heads[1:]])
    assert connection.app.recognized == MAX_HEADS
    await connection.feed([Piece(heads[0])])
    assert connection.app.recognized == MAX_HEADS
    await connection.feed([Piece(heads[0])])
    assert connection.app.recognized == MAX_HEADS + 1


async def test_protocol_keeps_heads_that_it_recognizes_again() -> None:
    heads = [request(b"{}", b"X-A: %d\r\n" % number) for number in range(MAX_HEADS + 1)]
    connection = await fed(*heads[:MAX_HEADS], heads[0], heads[MAX_HEADS], heads[0])
    assert connection.app.recognized == 2


async def test_protocol_stops_learning_heads_of_a_client_that_repeats_none() -> None:
    connection = await fed(*(request(b"{}", b"X-A: %d\r\n" % number) for number in range(MAX_UNUSED_HEADS)))
    last = request(b"{}", b"X-A: last\r\n")
    await connection.feed([Piece(last), Piece(last)])
    assert connection.app.recognized == 0


async def test_protocol_keeps_no_head_over_4_kib() -> None:
    data = request(b"{}", b"X-A: " + b"a" * MAX_HEAD_BYTES + b"\r\n")
    assert (await fed(data, data, data)).app.recognized == 0


async def test_protocol_keeps_heads_for_one_connection_only() -> None:
    first, second = MemoryConnection(), MemoryConnection()
    await first.feed([Piece(request()), Piece(request())])
    await second.feed([Piece(request())])
    assert (first.app.recognized, second.app.recognized) == (1, 0)


async def test_protocol_recognizes_no_request_while_every_slot_is_taken() -> None:
    connection = await fed(request())
    slots = connection.app.limiter.callers
    slots.in_use += slots.limit
    await connection.feed([Piece(request())])
    slots.in_use -= slots.limit
    assert (len(connection.app.requests), connection.app.recognized) == (2, 0)


async def test_protocol_recognizes_no_request_while_the_client_does_not_read() -> None:
    connection = await fed(request())
    connection.protocol.pause_writing()
    connection.protocol.data_received(request())
    connection.protocol.resume_writing()
    await connection.settle()
    assert connection.app.recognized == 0
    assert connection.transport.written.count(b"HTTP/1.1 200 OK") == 2


async def test_protocol_recognizes_no_request_on_a_closing_connection() -> None:
    connection = await fed(request())
    connection.transport.close()
    connection.protocol.data_received(request())
    await connection.settle()
    assert connection.app.recognized == 0


@pytest.mark.parametrize("body", [b"fail", b"silent"])
async def test_protocol_answers_500_for_a_known_head_whose_endpoint_does_not_answer(body: bytes) -> None:
    connection = await fed(request(), request(body))
    assert connection.app.recognized == 1
    assert b"HTTP/1.1 500 " in connection.transport.written


async def test_protocol_closes_a_connection_whose_known_head_is_refused() -> None:
    connection = await fed(request(), request(b"refuse"))
    assert connection.app.recognized == 1
    assert b"HTTP/1.1 400 " in connection.transport.written
    assert connection.transport.closed


async def test_protocol_streams_the_answer_to_a_known_head() -> None:
    connection = await fed(request(), request(b"stream"), request(b"wait"))
    assert connection.app.recognized == 2
    assert connection.transport.written.endswith(b'"body":"wait"}')
    assert b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n" in connection.transport.written


async def test_protocol_counts_the_time_between_requests_of_a_known_head() -> None:
    connection = await fed(request())
    for now in (0.0, 4.0, 8.0, 12.0):
        await connection.feed([Piece(request())])
        connection.protocol.check_timeouts(now)
        assert not connection.transport.closed
    connection.protocol.check_timeouts(17.0)
    assert connection.transport.closed


def apart(body: bytes) -> tuple[bytes, bytes]:
    """The head and the body of a request, as clients that write them apart send it."""
    data = request(body)
    return data[: data.index(b"\r\n\r\n") + 4], body


async def test_protocol_recognizes_a_head_whose_body_arrives_later() -> None:
    connection = await fed(request(), *apart(b"one"), *apart(b"two"))
    assert [seen.body for seen in connection.app.requests] == [b'{"a":1}', b"one", b"two"]
    assert connection.app.recognized == 2
    assert connection.transport.written.count(b"HTTP/1.1 200 OK") == 3


async def test_protocol_leaves_a_large_body_that_arrives_later_to_the_parser() -> None:
    for size, recognized in ((MAX_AWAITED_BODY, 1), (MAX_AWAITED_BODY + 1, 0)):
        connection = await fed(request(), *apart(b"x" * size))
        assert connection.app.recognized == recognized
        assert connection.app.requests[-1].body == b"x" * size


async def test_protocol_parses_a_request_whose_body_arrives_with_the_next_request() -> None:
    head, body = apart(b"one")
    connection = await fed(request(), head, body + request(b"two"))
    assert [seen.body for seen in connection.app.requests] == [b'{"a":1}', b"one", b"two"]
    assert connection.app.recognized == 0


async def test_protocol_answers_408_to_a_known_head_whose_body_is_late() -> None:
    connection = await fed(request(), apart(b"one")[0])
    connection.protocol.check_timeouts(0.0)
    await connection.feed([Piece(b"o")])  # more bytes buy no more time
    closed: list[bool] = []
    for now in (9.9, 10.0):
        connection.protocol.check_timeouts(now)
        closed.append(connection.transport.closed)
    assert closed == [False, True]
    assert b"HTTP/1.1 408 " in connection.transport.written
    assert len(connection.app.requests) == 1


async def test_protocol_drops_a_known_head_without_its_body_at_shutdown() -> None:
    connection = await fed(request(), apart(b"one")[0])
    connection.protocol.shutdown()
    assert connection.transport.closed


async def test_protocol_serves_the_first_plain_request_without_asgi() -> None:
    connection = MemoryConnection()
    served = connection.app.served_plainly
    await connection.feed([Piece(request())])
    assert connection.app.served_plainly == served + 1
    await connection.feed([Piece(request(b"{}", b"Connection: close\r\n"))])
    assert connection.app.served_plainly == served + 1
