"""Strict JSON: everything that parsers disagree about is refused (threats F1 to F5)."""

import json
import time
from typing import Any

import pytest

from tests.tables import each_row
from tests.unit.builders import nested
from toolhall.dialects import strict_json
from toolhall.model.errors import Malformed

PADDING = b" " * 5_000  # beyond this size every limit is looked at


def refusal(body: bytes) -> str:
    with pytest.raises(Malformed) as caught:
        strict_json.decode(body)
    return caught.value.message


VALID: list[tuple[bytes, Any]] = [
    (b"null", None),
    (b" true\n", True),
    (b"0", 0),
    (b"-0", 0),
    (b"-1.5e3", -1500.0),
    (b"1e2", 100.0),
    (b"9007199254740993", 2**53 + 1),
    (b"18446744073709551616", 2**64),
    (b"-9223372036854775809", -(2**63) - 1),
    (b"99999999999999999999", 10**20 - 1),
    (b'""', ""),
    (b'"\\u00e9\\ud83c\\udf89\\n\\/\\\\"', "é🎉\n/\\"),
    ('"é🎉"'.encode(), "é🎉"),
    (b'"\\\\u0000"', "\\u0000"),
    (b'"\x7f"', "\x7f"),
    (b"[]", []),
    (b"{}", {}),
    (b'{"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]}', {"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]}),
    (b'{"a":":","b":"::"}', {"a": ":", "b": "::"}),
    (b'{"a:b":1}', {"a:b": 1}),
    (b'{"":1," ":2}', {"": 1, " ": 2}),
    (b'{"a":1,"A":2,"\xc5\xbf":3}', {"a": 1, "A": 2, "\u017f": 3}),
    (b'{"\\u0061":1,"\\u0062":":"}', {"a": 1, "b": ":"}),
    (b'["' + b"1" * 40 + b'"]', ["1" * 40]),
    (b"0." + b"1" * 30, float("0." + "1" * 30)),
]


@each_row(("body", "value"), VALID)
def test_strict_json_valid_is_decoded(body: bytes, value: Any) -> None:
    decoded = strict_json.decode(body)
    assert decoded == value
    assert type(decoded) is type(value)
    assert strict_json.decode(body + PADDING) == value


INVALID = [
    b"",
    b" ",
    b"{",
    b"}",
    b"[1,]",
    b'{"a":1,}',
    b"{a:1}",
    b"{'a':1}",
    b"01",
    b"+1",
    b"1.",
    b".5",
    b"1e",
    b"0x10",
    b"--1",
    b"1 2",
    b"nul",
    b"True",
    b"// comment\n1",
    b"/* */1",
    b'"\\x41"',
    b'"\\u12"',
    b'"a\nb"',
    b'"a\tb"',
    b"\x0c1",
    b"\xa01",
    b"[1]]",
    b'{"a":1}x',
    b'{1:"a"}',
    b'"',
]


@each_row("body", INVALID)
def test_strict_json_invalid_is_refused(body: bytes) -> None:
    assert refusal(body).startswith("the message is not valid JSON: ")


@each_row("body", [b"NaN", b"-NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"[1e400]", b"inf", b"nan"])
def test_strict_json_non_finite_is_refused(body: bytes) -> None:
    assert refusal(body).startswith("the message is not valid JSON: ")


@each_row(
    "body", [b"1" + b"0" * 20, b"-1" + b"0" * 20, b'{"a":[' + b"9" * 30 + b"]}", b'["\\u0041",' + b"9" * 400 + b"]"]
)
def test_strict_json_long_integers_are_refused(body: bytes) -> None:
    assert "an integer has more than 20 digits" in refusal(body)


@pytest.mark.parametrize("digits", [5_000, 100_000])
def test_strict_json_huge_integers_are_refused_fast(digits: int) -> None:
    start = time.process_time()
    refusal(b"9" * digits)
    assert time.process_time() - start < 0.5  # generous: what must not happen takes minutes


DUPLICATES = [
    b'{"a":1,"a":1}',
    b'{"a":1,"b":2,"a":3}',
    b'{"a":{"b":1,"b":2}}',
    b'[[{"a":[{"b":1,"c":2,"b":3}]}]]',
    b'{"method":"tools/list","method":"tools/call"}',
    b'{"a":1,"\\u0061":2}',
    b'{"\\u0061":1,"\\u0061":2}',
    b'{"a":":","a":1,"b":":"}',
    b'{"a":"\\u003a","a":1}',
    b'{"a":"\\u003a\\u003a","b":1,"b":2}',
    b'{"":1,"":2}',
    '{"é":1,"\\u00e9":2}'.encode(),
    b'{"a":{},"a":{}}',
    b'{"a/b":1,"a\\/b":2}',
    b'{"a\\n":1,"a\\u000a":2}',
]


@each_row("body", DUPLICATES)
def test_strict_json_duplicate_key_is_refused(body: bytes) -> None:
    assert refusal(body) == "an object has the same key twice"
    assert refusal(body + PADDING) == "an object has the same key twice"


@each_row("depth", [1, 5, 30, 60])
def test_strict_json_duplicate_key_is_found_at_any_depth(depth: int) -> None:
    body = json.dumps(nested(depth, core="HERE")).replace('"HERE"', '{"k":1,"k":2}').encode()
    assert refusal(body) == "an object has the same key twice"


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
@pytest.mark.parametrize("around", [b"", PADDING], ids=["small", "large"])
def test_strict_json_nesting_is_bounded(opening: bytes, closing: bytes, around: bytes) -> None:
    strict_json.decode(around + opening * 64 + b"1" + closing * 64)
    told = refusal(around + opening * 65 + b"1" + closing * 65)
    assert told == "the JSON is nested more than 64 levels deep"


@each_row("body", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 5_000 + b"]" * 5_000, b'["\\u0041",' + b"[" * 50_000])
def test_strict_json_huge_nesting_is_refused_fast(body: bytes) -> None:
    start = time.process_time()
    assert refusal(body) == "the JSON is nested more than 64 levels deep"
    assert time.process_time() - start < 0.5  # generous: what must not happen takes minutes


def test_strict_json_members_are_bounded() -> None:
    def members(count: int) -> bytes:
        return json.dumps({"a": {f"k{number}": 0 for number in range(count - 1)}}).encode()

    strict_json.decode(members(10_000))
    assert refusal(members(10_001)) == "the message has more than 10000 members"


def test_strict_json_keys_are_bounded() -> None:
    strict_json.decode(PADDING + b'{"' + b"k" * 256 + b'":1}')
    assert refusal(PADDING + b'{"' + b"k" * 257 + b'":1}') == "a key is longer than 256 characters"


@each_row("body", [b'"\xff\xfe"', b'"\xc3"', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'{"\xff":1}', b'"\xf5\x80\x80\x80"'])
def test_strict_json_invalid_utf8_is_refused(body: bytes) -> None:
    assert "UTF-8" in refusal(body) or "not valid JSON" in refusal(body)


@pytest.mark.parametrize("body", [b"\xef\xbb\xbf{}", b"\xff\xfe{\x00}\x00", b"\x00{}"], ids=repr)
def test_strict_json_byte_order_mark_is_refused(body: bytes) -> None:
    assert refusal(body)


@each_row(
    "body",
    [b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\u0041"', b'"\\udc00\\ud800"', b'{"\\udfff":1}', b'"\\ud800x"'],
)
def test_strict_json_lone_surrogate_is_refused(body: bytes) -> None:
    assert refusal(body)


@each_row("body", [b'"\\u0000"', b'"a\\u0000b"', b'{"\\u0000":1}', b'"\\\\\\u0000"', b'"\\\\\\\\\\u0000"'])
def test_strict_json_escaped_nul_is_refused(body: bytes) -> None:
    assert refusal(body) == "the character U+0000 is not allowed"


@pytest.mark.parametrize("body", [b'"\x00"', b'"a\x00"', b"1\x00"], ids=repr)
def test_strict_json_raw_nul_is_refused(body: bytes) -> None:
    assert refusal(body).startswith("the message is not valid JSON: ")


@each_row("body", [b'{"a":"hunter2"', b'["hunter2",]', b'{"a":1,"a":"hunter2"}', b'"hunter2\\u0000"'])
def test_strict_json_error_does_not_echo_body(body: bytes) -> None:
    assert "hunter2" not in refusal(body)
