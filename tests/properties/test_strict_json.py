"""Properties of strict JSON: it agrees with a slow reference reader on every text."""

import json
import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from toolhall.dialects import strict_json
from toolhall.dialects.mcp.protocol import (
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    McpDecodeError,
    read_message,
)
from toolhall.model.errors import Malformed


class Rejected(Exception):
    """A text that the reference decoder rejects."""


def reference_decode(body: bytes) -> Any:
    """The value of a JSON text, read by the standard library with a hook for everything that could be ambiguous."""
    if body.startswith(b"\xef\xbb\xbf"):
        raise Rejected("a byte-order mark")
    try:
        text = body.decode("utf-8", "strict")
        value = json.loads(
            text,
            object_pairs_hook=unique_members,
            parse_constant=reject_constant,
            parse_int=bounded_int,
            parse_float=finite_float,
        )
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Rejected(str(error)) from None
    check(value, 1)
    return value


def unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise Rejected("a key twice")
    return dict(pairs)


def reject_constant(constant: str) -> Any:
    raise Rejected(constant)


def bounded_int(digits: str) -> int:
    if len(digits.lstrip("-")) > strict_json.MAX_DIGITS:
        raise Rejected("too many digits")
    return int(digits)


def finite_float(digits: str) -> float:
    if not math.isfinite(float(digits)):
        raise Rejected("not finite")
    return float(digits)


def check(value: Any, depth: int) -> None:
    if isinstance(value, dict | list) and depth > strict_json.MAX_DEPTH:
        raise Rejected("too deep")
    for part in (
        value if isinstance(value, list) else [*value.keys(), *value.values()] if isinstance(value, dict) else ()
    ):
        check(part, depth + 1)
    if isinstance(value, str) and ("\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise Rejected("a character that is none")


def outcome(reader: Any, body: bytes) -> Any:
    """The value with its types, or None for a refusal; any other exception fails the test."""
    try:
        return typed(reader(body))
    except (Rejected, Malformed):
        return None


def typed(value: Any) -> Any:
    match value:
        case dict():
            return {key: typed(part) for key, part in value.items()}, "object"
        case list():
            return [typed(part) for part in value], "array"
        case _:
            return value, type(value).__name__


blank = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r\n"])
letters = st.sampled_from(
    [
        *"abAB:{}[],",
        "\\n",
        "\\/",
        "\\\\",
        '\\"',
        "\\u0061",
        "\\u003a",
        "\\u0000",
        "\\ud83c\\udf89",
        "\\ud800",
        "é",
        "🎉",
        "\\b",
    ]
)
strings = st.lists(letters, max_size=4).map(lambda parts: f'"{"".join(parts)}"')
numbers = st.one_of(
    st.integers(-5, 5).map(str),
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(repr),
    st.sampled_from(
        ["-0", "-0.0", "1e999", "1E5", "9007199254740993", "01", "1.", "1e400", "-1e-400", "NaN", "Infinity"]
    ),
)
scalars = st.one_of(strings, numbers, st.sampled_from(["null", "true", "false"]))


def array_of(parts: list[str], space: str) -> str:
    return f"[{space}{','.join(parts)}{space}]"


def member_of(key: str, value: str, space: str) -> str:
    return f"{key}{space}:{space}{value}"


def object_of(parts: list[str], space: str) -> str:
    return f"{{{space}{','.join(parts)}{space}}}"


def array(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(array_of, st.lists(parts, max_size=4), blank)


def members(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(object_of, st.lists(st.builds(member_of, strings, parts, blank), max_size=4), blank)


texts = st.recursive(scalars, lambda parts: st.one_of(array(parts), members(parts)), max_leaves=12)


@settings(max_examples=examples(300))
@given(texts)
def test_strict_json_decode_agrees_with_the_reference_decoder(text: str) -> None:
    body = text.encode()
    assert outcome(strict_json.decode, body) == outcome(reference_decode, body)


@given(texts, st.integers(0, 80), st.booleans())
def test_strict_json_decode_agrees_with_the_reference_decoder_at_every_depth(
    text: str, depth: int, objects: bool
) -> None:
    opening, closing = ('{"d":', "}") if objects else ("[", "]")
    body = (opening * depth + text + closing * depth).encode()
    assert outcome(strict_json.decode, body) == outcome(reference_decode, body)


@given(texts)
def test_strict_json_decode_ignores_surrounding_whitespace(text: str) -> None:
    body = text.encode()
    assert outcome(strict_json.decode, b" " * 4_100 + body + b"\n") == outcome(strict_json.decode, body)


@settings(max_examples=examples(300))
@given(texts, st.integers(0, 200), st.binary(max_size=3))
def test_strict_json_decode_of_damaged_text_agrees_with_the_reference_decoder(
    text: str, position: int, junk: bytes
) -> None:
    body = text.encode()
    position = min(position, len(body))
    damaged = body[:position] + junk + body[position + len(junk) :]
    assert outcome(strict_json.decode, damaged) == outcome(reference_decode, damaged)


@given(st.binary(max_size=200))
def test_strict_json_decode_of_any_bytes_agrees_with_the_reference_decoder(body: bytes) -> None:
    assert outcome(strict_json.decode, body) == outcome(reference_decode, body)


@given(st.binary(max_size=300))
def test_mcp_read_message_of_any_bytes_is_a_message_or_a_decode_error(body: bytes) -> None:
    assert is_read_or_refused(body)


def is_read_or_refused(body: bytes) -> bool:
    try:
        return type(read_message(body)) in (JsonRpcRequest, JsonRpcNotification, JsonRpcResponse)
    except McpDecodeError as error:
        return error.id is None or type(error.id) in (int, str)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=5), parts, max_size=3),
    max_leaves=8,
)
jsonrpc = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": st.integers() | st.text(max_size=3) | values,
        "method": st.sampled_from(["ping", "tools/call"]) | values,
        "params": st.dictionaries(st.text(max_size=3), values, max_size=2) | values,
        "result": values,
        "error": values,
        "extra": values,
    },
)


@settings(max_examples=examples(300))
@given(jsonrpc | values)
def test_mcp_read_message_of_any_json_value_is_a_message_or_a_decode_error(value: Any) -> None:
    assert is_read_or_refused(json.dumps(value).encode())


@given(values)
def test_strict_json_decode_of_encoder_output_agrees_with_the_reference_decoder(value: Any) -> None:
    for written in (json.dumps(value), json.dumps(value, ensure_ascii=False), json.dumps(value, indent=2)):
        body = written.encode("utf-8", "surrogatepass")
        assert outcome(strict_json.decode, body) == outcome(reference_decode, body)
