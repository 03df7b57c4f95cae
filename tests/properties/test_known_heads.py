"""A connection with known heads reads the same requests as one without, and as the parser alone."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.harness.connections import (
    MAX_BODY,
    SPECIAL_BODIES,
    UPGRADE_OFFER,
    Outcome,
    ParsedRequests,
    Piece,
    run_connection,
)
from tests.harness.seeds import examples
from tests.threats.test_smuggling import BODY, CHUNKED, CHUNKS, CORPUS, HEAD

KEY_HEAD = HEAD.replace(b"Host: 127.0.0.1", b"Authorization: Bearer key\r\nhost: localhost")


def usual(body: bytes = BODY, head: bytes = HEAD, tail: bytes = b"") -> bytes:
    """A request that is recognized once its head is known; `tail` holds headers after the length."""
    return head + b"Content-Length: %d\r\n" % len(body) + tail + b"\r\n" + body


def at(path: bytes, head: bytes = HEAD) -> bytes:
    return head.replace(b"/mcp", path, 1)


def with_header(line: bytes, head: bytes = HEAD) -> bytes:
    return head + line + b"\r\n"


KNOWN = usual(b'{"a":1}')

# Requests that are no attack, and must not be taken for one with a known head either.
VARIANTS = {
    "other_head": usual(b"{}", KEY_HEAD),
    "length_first": HEAD.replace(b"Host", b"Content-Length: 2\r\nHost", 1) + b"\r\n{}",
    "lower_case": usual(b"[1]").replace(b"Content-Length", b"content-length"),
    "no_space": usual(b"[1]").replace(b"Content-Length: ", b"Content-Length:"),
    "two_spaces": usual(b"[1]").replace(b"Content-Length: ", b"Content-Length:  "),
    "tab": usual(b"[1]").replace(b"Content-Length: ", b"Content-Length:\t"),
    "space_after": usual(b"[1]").replace(b"3\r\n\r\n", b"3 \r\n\r\n"),
    "leading_zero": usual(b"[1]").replace(b": 3\r\n", b": 03\r\n"),
    "leading_zeros": usual(b"[1]").replace(b": 3\r\n", b": 0000000000003\r\n"),
    "empty_body": usual(b""),
    "no_length": HEAD + b"\r\n",
    "chunks": HEAD + CHUNKED + b"\r\n" + CHUNKS,
    "keep_alive": usual(b"{}", with_header(b"Connection: keep-alive")),
    "close": usual(b"{}", with_header(b"Connection: close")),
    "expect": usual(b"{}", with_header(b"Expect: 100-continue")),
    "upgrade": usual(b"{}", with_header(UPGRADE_OFFER.removesuffix(b"\r\n"))),
    "upgrade_with_request_as_body": usual(KNOWN, with_header(UPGRADE_OFFER.removesuffix(b"\r\n"))),
    "upgrade_without_body": with_header(UPGRADE_OFFER.removesuffix(b"\r\n")) + b"\r\n",
    "upgrade_alone": usual(b"{}", with_header(b"Upgrade: h2c")),
    "trailer": usual(b"{}", with_header(b"Trailer: X")),
    "http_1_0": usual(b"{}", HEAD.replace(b"1.1", b"1.0", 1)),
    "get": usual(b"{}", HEAD.replace(b"POST", b"GET", 1)),
    "get_without_body": HEAD.replace(b"POST", b"GET", 1) + b"\r\n",
    "head": HEAD.replace(b"POST", b"HEAD", 1) + b"\r\n",
    "put": usual(b"{}", HEAD.replace(b"POST", b"PUT", 1)),
    "connect": b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "query": usual(b"{}", at(b"/mcp?a=1")),
    "fragment": usual(b"{}", at(b"/mcp#a")),
    "escaped_path": usual(b"{}", at(b"/%6dcp")),
    "absolute": usual(b"{}", at(b"http://localhost/mcp")),
    "unknown_path": usual(b"{}", at(b"/nothing")),
    "wrong_host": usual(b"{}", HEAD.replace(b"127.0.0.1", b"evil.example")),
    "wrong_type": usual(b"{}", HEAD.replace(b"application/json\r\nAccept", b"text/plain\r\nAccept")),
    "other_origin": usual(b"{}", with_header(b"Origin: http://evil.example")),
    "traceparent": usual(b"{}", with_header(b"traceparent: 00-%s-%s-01" % (b"a" * 32, b"b" * 16))),
    "two_hosts": usual(b"{}", with_header(b"Host: 127.0.0.1")),
    "long_head": usual(b"{}", with_header(b"X-A: " + b"a" * 5_000)),
    "length_in_value": usual(b"{}", with_header(b"X-A: Content-Length: 7")),
    "length_like_name": usual(b"{}", with_header(b"X-Content-Length: 7")),
    "headers_after": usual(b"{}", tail=b"X-A: a\r\nX-B: 5\r\n"),
    "too_large": usual(b"x" * (MAX_BODY + 1)),
    "large": usual(b"y" * MAX_BODY),
    "line_end": b"\r\n",
    "line_ends": b"\r\n\r\n",
    "line_end_before": b"\r\n" + usual(b"{}"),
    "line_feed": b"\n",
    "junk": b"\x16\x03\x01\x02\x00",
    "part_of_head": HEAD[:40],
    "head_only": HEAD + b"Content-Length: 2\r\n\r\n",
    "body_too_short": HEAD + b"Content-Length: 9\r\n\r\n{}",
    "body_too_long": HEAD + b"Content-Length: 2\r\n\r\n{}}",
    "nothing": b"",
}
# What is answered before its body has arrived; the body is a request with a known head, or begins with one.
EARLY = {
    f"early_{size}": at(b"/early") + b"Content-Length: %d\r\n\r\n" % size
    for size in (len(KNOWN), len(KNOWN) + 1, len(KNOWN) - 1, 2 * len(KNOWN), 2)
}
ANSWERS = {body.decode(): usual(body) for body in SPECIAL_BODIES} | {"early": usual(b"{}", at(b"/early"))}
FORMS = CORPUS | VARIANTS | ANSWERS | EARLY


def check(pieces: Sequence[Piece]) -> int:
    """Compare the three readers; how many requests were recognized by their heads."""
    outcome, parsed, recognized = asyncio.run(run_both(pieces))
    if outcome.awaits_body:
        check_awaited(outcome, parsed)
    else:
        assert outcome == parsed
        check_requests(outcome, ParsedRequests(pieces))
    assert outcome.left == parsed.left == 0
    return recognized


def check_awaited(outcome: Outcome, parsed: Outcome) -> None:
    """A request whose head is known and whose body is incomplete: the application sees it when the rest is there.

    With the parser it has seen the head. Until then both have seen and answered the same; then the head's deadline ends
    the connection.
    """
    assert outcome.requests == parsed.requests[:-1]
    assert parsed.requests[-1].body is None
    assert parsed.responses.startswith(outcome.responses)
    assert (outcome.closed, outcome.waiting, outcome.pipelined, outcome.is_reading) == (False, 0, 0, True)
    assert [closed for closed, _ in outcome.after_timeouts] == [False, False, True, True]
    assert outcome.after_timeouts[-1][1].startswith(b"HTTP/1.1 408 ")


async def run_both(pieces: Sequence[Piece]) -> tuple[Outcome, Outcome, int]:
    outcome, recognized = await run_connection(pieces, known_heads=True)
    parsed, none = await run_connection(pieces, known_heads=False)
    assert none == 0
    return outcome, parsed, recognized


def check_requests(outcome: Outcome, reference: ParsedRequests) -> None:
    """The application has seen the first requests of the stream, and all of them while the connection is open."""
    expected = reference.requests[: len(outcome.requests)]
    read = [request.body is not None for request in outcome.requests]
    assert outcome.requests == [
        request if was_read else request._replace(body=None) for request, was_read in zip(expected, read, strict=True)
    ]
    if not outcome.closed and outcome.is_reading and not outcome.pipelined:
        assert len(outcome.requests) == len(reference.requests)


@pytest.mark.parametrize("form", FORMS)
def test_known_heads_change_nothing_for_a_request_of_another_form(form: str) -> None:
    other, known = FORMS[form], KNOWN
    check([Piece(known), Piece(other), Piece(known), Piece(known)])
    check([Piece(other), Piece(known), Piece(known + other), Piece(known)])
    check([Piece(known), Piece(known), Piece(other + known), Piece(known)])
    check([Piece(known), Piece(other, settle=False), Piece(known, settle=False), Piece(known)])
    check([Piece(other), Piece(other), Piece(other + other)])
    check([Piece(known), Piece(usual(other)), Piece(usual(other) + other), Piece(known)])


@pytest.mark.parametrize("tail", [b"", b"X-A: a\r\n"], ids=["length_last", "length_first"])
def test_known_heads_change_nothing_for_a_request_that_is_split_at_any_position(tail: bytes) -> None:
    first, second = usual(b'{"a":1}', tail=tail), usual(b'{"b":[2]}', tail=tail)
    for position in range(len(second) + 1):
        before, after = second[:position], second[position:]
        recognized = check([Piece(first), Piece(before), Piece(after), Piece(first)])
        assert recognized == (1 if 0 < position < second.index(b"\r\n\r\n") + 4 else 2)
        check([Piece(first + before), Piece(after + first), Piece(second)])


PLAIN_LINE = b"Xransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "line",
    [
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding:\tchunked\r\n",
        b"Content-Length:          1\r\n",
        b"Connection:          close\r\n",
        b"Expect:       100-continue\r\n",
        b"Origin: http://evil.exampl\r\n",
        b" ransfer-Encoding: chunked\r\n",
        b"Xransfer Encoding: chunked\r\n",
        b"Xransfer-Encoding: chunke\n\r\n",
        b"\r\nansfer-Encoding: chunked\r\n",
    ],
)
def test_known_heads_change_nothing_for_another_header_of_the_same_length(line: bytes) -> None:
    assert len(line) == len(PLAIN_LINE)
    known = usual(CHUNKS, tail=PLAIN_LINE)
    other = known.replace(PLAIN_LINE, line)
    check([Piece(known), Piece(other), Piece(known)])
    check([Piece(other), Piece(known), Piece(other), Piece(known)])


@pytest.mark.parametrize("rest", [b"x", b"abc", b"\r\n", b"GET /mcp HTTP/1.1\r\nX-A: ", KNOWN])
def test_known_heads_begin_where_the_parser_begins_a_request(rest: bytes) -> None:
    early, joined = at(b"/early") + b"Content-Length: %d\r\n\r\n" % len(rest), rest + KNOWN
    check([Piece(early), Piece(joined), Piece(joined), Piece(KNOWN)])
    check([Piece(early), Piece(joined), Piece(early), Piece(joined)])
    check([Piece(KNOWN), Piece(early), Piece(rest), Piece(KNOWN), Piece(joined)])


def test_known_heads_change_nothing_for_a_body_that_arrives_byte_by_byte() -> None:
    known = KNOWN
    assert check([Piece(known), *(Piece(known[i : i + 1], settle=i % 7 == 0) for i in range(len(known)))]) == 0


bodies = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.sampled_from(
        [BODY, usual(), usual(usual()), b"\r\n\r\n", b"0\r\n\r\n", b"5", CHUNKS, b"GET / HTTP/1.1\r\n\r\n"]
    ),
    st.sampled_from(SPECIAL_BODIES),
    st.integers(1, 2_000).map(lambda size: b"x" * size),
)
heads = st.sampled_from([HEAD, HEAD, HEAD, KEY_HEAD, at(b"/early"), at(b"/mcp?a=1")])
usual_requests = st.builds(usual, bodies, heads, st.sampled_from([b"", b"", b"X-A: a\r\n"]))
junk = st.one_of(
    st.binary(max_size=2),
    st.sampled_from(
        [b"\r\n", b"\n", b"\r", b"\x00", b" ", b"\t", b"0", b"9" * 12, b"+", b"-", b",", b":", b"\r\n ", b"\xff"]
    ),
)


@st.composite
def damaged_requests(draw: st.DrawFn) -> bytes:
    """A usual request with some bytes replaced, mostly near the length."""
    request = draw(usual_requests)
    length = request.find(b"Content-Length")
    around = st.integers(length - 4, length + 24)
    position = max(0, min(draw(st.one_of(around, st.integers(0, len(request)))), len(request)))
    return request[:position] + draw(junk) + request[position + draw(st.integers(0, 3)) :]


requests = st.one_of(usual_requests, st.sampled_from(list(FORMS.values())), damaged_requests())


@st.composite
def streams(draw: st.DrawFn) -> list[Piece]:
    """A head that becomes known, then requests in pieces: mostly one to a piece, else cut anywhere or joined."""
    head, tail = draw(heads), draw(st.sampled_from([b"", b"X-A: a\r\n"]))
    known = st.builds(usual, bodies, st.just(head), st.just(tail))
    before = [Piece(request) for request in draw(st.lists(known, max_size=2))]
    parts = draw(st.lists(st.one_of(known, requests), min_size=1, max_size=6))
    whole = b"".join(parts)
    how = draw(st.sampled_from(["each", "each", "cut", "joined"]))
    if how == "cut":
        cuts = sorted({0, *draw(st.lists(st.integers(0, len(whole)), max_size=6)), len(whole)})
        parts = [whole[start:end] for start, end in itertools.pairwise(cuts)]
    elif how == "joined":
        size = draw(st.integers(1, 3))
        parts = [b"".join(parts[start : start + size]) for start in range(0, len(parts), size)]
    return before + [Piece(part, draw(st.sampled_from([True, True, True, False]))) for part in parts]


def test_known_heads_change_nothing_for_any_stream_of_bytes() -> None:
    taken: Counter[bool] = Counter()

    @settings(max_examples=examples(1_600))
    @given(streams())
    def compare(pieces: list[Piece]) -> None:
        recognized = check(pieces)
        event(f"requests recognized by a known head: {min(recognized, 3)}")
        taken[recognized > 0] += 1

    compare()
    assert taken[True] * 3 >= taken.total(), f"the known head was taken too seldom: {taken}"
