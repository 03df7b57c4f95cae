"""`read_plain_call` returns None, or what the general decoder returns for the same bytes."""

import copy
import json
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.properties.test_strict_json import members, strings, texts, typed
from toolhall.dialects import strict_json
from toolhall.dialects.mcp import protocol, requests
from toolhall.dialects.mcp.protocol import JsonRpcRequest, McpDecodeError, read_message, read_plain_call
from toolhall.model.json import Json, encode

SMALL_BODY = strict_json.SMALL_BODY
REMEMBERED: dict[bytes, tuple[Json, int]] = vars(protocol)["_metas"]
MAX_REMEMBERED: int = vars(protocol)["_MAX_METAS"]
META = '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'


class Refused(NamedTuple):
    """What is said of a message that cannot be read."""

    message: str
    code: int
    id: str | int | None


def read_nothing(body: bytes) -> None:
    """In place of read_plain_call: leaves every message to the general decoder."""


def general(body: bytes) -> JsonRpcRequest | Refused | object:
    """What the general decoder makes of the bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "read_plain_call", read_nothing)
        return read(body)


def read(body: bytes) -> JsonRpcRequest | Refused | object:
    try:
        return read_message(body)
    except McpDecodeError as error:
        return Refused(error.refusal.message, error.refusal.code, error.id)


def exact(message: object) -> Any:
    """A message as a value that tells 1 from 1.0 and from true, and keeps the order of the arguments."""
    if not isinstance(message, JsonRpcRequest):
        return message
    return typed(message.id), message.method, typed(message.params), json.dumps(message.params.get("arguments"))


def check(body: bytes) -> bool:
    """Compare both readers; whether the typed one read the message."""
    plain, expected = read_plain_call(body), general(body)
    assert exact(read(body)) == exact(expected)
    if plain is None:
        return False
    assert isinstance(expected, JsonRpcRequest), expected
    assert exact(plain.to_request()) == exact(expected)
    assert plain.encoded_arguments == encode(expected.params.get("arguments", {}))
    assert bool(plain.raw_meta) == ("_meta" in expected.params)
    if plain.raw_meta:
        assert plain.raw_meta in body
        assert not {"progressToken", "traceparent"} & expected.params["_meta"].keys()
        assert typed(strict_json.decode(plain.raw_meta)) == typed(expected.params["_meta"])
    return True


def call(arguments: str = "{}", meta: str | None = None, **changed: str) -> bytes:
    """A `tools/call`; keywords replace the text of a member."""
    rest = "" if meta is None else f',"_meta":{meta}'
    text = {"jsonrpc": '"2.0"', "id": "7", "method": '"tools/call"', "name": '"pick"'} | changed
    return (
        f'{{"jsonrpc":{text["jsonrpc"]},"id":{text["id"]},"method":{text["method"]},'
        f'"params":{{"name":{text["name"]},"arguments":{arguments}{rest}}}}}'
    ).encode("utf-8", "surrogatepass")


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


LONG_KEY = "k" * (strict_json.MAX_KEY_LENGTH + 1)
IDS = (
    *("0", "-0", "1.0", "1e3", "1E2", "-1", "null", "true", "[]", '""', '"a"', '"a:b"', '":"', '"é"', "1.5"),
    *("9" * 20, "9" * 21, "-" + "9" * 20, "-1" + "0" * 20, "1" + "0" * 20, f'"{"9" * 30}"'),
    *(f'"{"i" * 256}"', f'"{"i" * 257}"', '"\x00"', '"\\u0000"', '"\x7f"', "01", "+1", "NaN", ""),
)
NAMES = ('""', '"a:b"', '"é"', "1", "null", '"a@^1"', f'"{"n" * 300}"', f'"{"9" * 30}"', '"\x01"', '"\ud800"')
ARGUMENTS = (
    *(
        '{"a":1,"a":1}',
        '{"a":{"b":1,"b":2}}',
        '[{"a":1}]',
        "null",
        "1",
        '"x"',
        '{"a:b":":"}',
        '{"":""}',
        '{":":1,":":2}',
    ),
    *('{"a":-0}', '{"a":-0.0}', '{"a":1.0}', '{"a":1e400}', '{"a":1E5}', '{"a":NaN}', '{"a":01}', '{"a":1.}'),
    *(f'{{"a":{"9" * 20}}}', f'{{"a":{"9" * 21}}}', f'{{"a":{"9" * 25}.5}}', f'{{"a":"{"9" * 40}"}}'),
    *(f'{{"a":-{"9" * 21}}}', '{"a":1e30}', f'{{"{"9" * 30}":1}}', '{"a":9007199254740993}'),
    *(f'{{"a":{lists(depth)}}}' for depth in (61, 62, 63, 64, 65, 66, 400)),
    *(f'{{"{LONG_KEY}":{lists(depth)}}}' for depth in (1, 58, 59, 60, 61, 62, 63, 64)),
    *(f'{{"{LONG_KEY}":"{"[" * count}"}}' for count in (58, 60, 61, 62, 63, 64, 65)),
    *('{"a":"\\u0041"}', '{"a":"\\n"}', '{"a":"\x00"}', '{"a":"\x1f"}', '{"a":"\x7f"}', '{"a":"é🎉"}', '{"a":"\\/"}'),
    *('{"a":1,}', '{"a"}', "{a:1}", "{'a':1}", '{"a":1}}', "{", "", " {} ", '{ "a" : [ 1 , 2 ] }', '{"a":\t1}'),
)
METAS = (
    *(META, "{}", "null", "[]", "1", '""', '{"progressToken":1}', '{"progressToken":"a","x":1}', '{"a":1,"a":2}'),
    *('{"traceparent":"00-a-b-01"}', '{"other":{"a":{"a":1}}}', '{"other":{"a":1,"a":1}}', '{"a:b":"c:d"}', "{ }"),
    *(f'{{"a":{"9" * 21}}}', f'{{"a":{lists(62)}}}', f'{{"a":{lists(63)}}}', f'{{"a":{lists(64)}}}', '{"a":NaN}'),
    *(f'{{"{LONG_KEY}":{lists(depth)}}}' for depth in (1, 59, 60, 61, 62, 63)),
    *('{"a":"\x00"}', '{"a":"\\u0041"}', '{"a":1,}', "{", '{"progressToken":null}', '{"a":"\x7f"}', '{"a":-0}'),
)


def test_plain_call_with_any_known_id_name_arguments_and_meta_is_read_as_in_general() -> None:
    for each in IDS:
        check(call(id=each))
        check(call('{"a":1}', META, id=each))
    for each in NAMES:
        check(call(name=each))
    for arguments in ARGUMENTS:
        for meta in (None, *METAS):
            check(call(arguments, meta))


@pytest.mark.parametrize(
    "body",
    [
        call(),
        call('{"a":[1,2,{"b":null}]}'),
        call('{"a":":"}', META),
        call(meta="{}"),
        call(id='"a"'),
        call(id="9" * 20),
        call('{"a":"é🎉"}'),
        call('{"a":1.5,"b":-0.0,"c":1e30}'),
        b" " + call() + b"\n",
    ],
)
def test_plain_call_of_the_usual_shape_is_read_by_its_type(body: bytes) -> None:
    assert check(body)


@pytest.mark.parametrize("key", ["jsonrpc", "id", "method", "params", "name", "arguments", "_meta", "a"])
def test_plain_call_with_a_duplicate_key_at_any_level_is_left_to_the_general_decoder(key: str) -> None:
    body = call('{"a":1}', META)
    start = body.index(f'"{key}":'.encode())
    value = body[start:]
    end = json.JSONDecoder().raw_decode(value.decode(), len(key) + 3)[1]
    member = value[:end]
    doubled = body[:start] + member + b"," + body[start:]
    assert read_plain_call(body) is not None
    assert read_plain_call(doubled) is None
    assert general(doubled) == Refused("an object has the same key twice", protocol.PARSE_ERROR, None)
    assert not check(doubled)


@pytest.mark.parametrize("size", range(SMALL_BODY - 2, SMALL_BODY + 3))
@pytest.mark.parametrize("where", ["arguments", "meta", "blanks", "id"])
def test_plain_call_of_any_size_near_the_limit_is_read_as_in_general(size: int, where: str) -> None:
    def padded(count: int) -> bytes:
        letters = "x" * count
        match where:
            case "arguments":
                return call(f'{{"a":"{letters}"}}', META)
            case "meta":
                return call(meta=f'{{"a":"{letters}"}}')
            case "id":
                return call(id=f'"{letters}"')
            case _:
                return call() + b" " * count

    body = padded(size - len(padded(0)))
    assert len(body) == size
    assert check(body) == (size <= SMALL_BODY and where != "id")


plain_letters = st.sampled_from([*"abAB:{}[],/ 09", "é", "🎉", "\x7f"])
plain_strings = st.lists(plain_letters, max_size=5).map(lambda parts: f'"{"".join(parts)}"')
plain_scalars = st.one_of(
    plain_strings,
    st.integers(-(10**22), 10**22).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["null", "true", "false", "-0", "1E5", "1e-7", LONG_KEY.join('""')]),
)


def plain_object(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(plain_strings, parts), max_size=4, unique_by=lambda pair: pair[0])
    return pairs.map(lambda found: "{" + ",".join(f"{key}:{value}" for key, value in found) + "}")


plain_values = st.recursive(
    plain_scalars,
    lambda parts: st.one_of(st.lists(parts, max_size=4).map(lambda found: f"[{','.join(found)}]"), plain_object(parts)),
    max_leaves=12,
)
any_objects = st.one_of(plain_object(plain_values), st.sampled_from(['{"a":1}', "{}"]), members(texts))
metas = st.one_of(st.none(), st.sampled_from(METAS), st.just(META), plain_object(plain_values), members(texts))


class Members(NamedTuple):
    """The members of an object as text, and how they deviate from the usual ones."""

    pairs: list[tuple[str, str]]

    def text(self, space: str) -> str:
        return "{" + ",".join(f'"{key}"{space}:{value}' for key, value in self.pairs) + "}"


@st.composite
def deviating(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> Members:
    """The members in any order; sometimes one is missing, there twice, unknown, or of another type."""
    found = draw(st.permutations(pairs))
    how = draw(st.sampled_from([*["as it is"] * 20, "missing", "twice", "unknown", "other type"]))
    at = draw(st.integers(0, len(found) - 1))
    match how:
        case "missing":
            found = found[:at] + found[at + 1 :]
        case "twice":
            found = [*found, (found[at][0], draw(st.sampled_from([found[at][1], "1", '"x"'])))]
        case "unknown":
            found = [*found, (draw(st.sampled_from(["extra", "Id", "_Meta", "result", ""])), draw(texts))]
        case "other type":
            found = [*found[:at], (found[at][0], draw(texts)), *found[at + 1 :]]
        case _:
            pass
    return Members(found)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A `tools/call`, usual or nearly so, sometimes with blanks or damaged bytes."""
    space = draw(st.sampled_from(["", "", " "]))
    params = [("name", draw(st.one_of(st.just('"pick"'), plain_strings, strings))), ("arguments", draw(any_objects))]
    meta = draw(metas)
    if meta is not None:
        params.append(("_meta", meta))
    usual_ids = st.one_of(st.integers(-5, 10**6).map(str), plain_strings)
    envelope = [
        ("jsonrpc", '"2.0"'),
        ("id", draw(st.one_of(usual_ids, st.sampled_from(IDS)))),
        ("method", '"tools/call"'),
        ("params", draw(deviating(params)).text(space)),
    ]
    text = draw(deviating(envelope)).text(space)
    body = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 7)) == 0:
        position = draw(st.integers(0, len(body)))
        junk = draw(st.one_of(st.binary(max_size=2), st.sampled_from([b"\x00", b"\xff", b"\\", b'"', b":", b","])))
        body = body[:position] + junk + body[position + len(junk) :]
    return body


def test_plain_call_of_any_message_is_read_as_in_general() -> None:
    taken: Counter[bool] = Counter()

    @settings(max_examples=examples(2_000))
    @given(messages())
    def compare(body: bytes) -> None:
        usual = check(body)
        event(f"read by its type: {usual}")
        taken[usual] += 1

    compare()
    assert taken[True] * 5 >= taken.total(), f"too few messages were of the usual shape: {taken}"


@settings(max_examples=examples(200))
@given(st.integers(0, 70), st.integers(0, 70), st.booleans(), st.sampled_from(["a", LONG_KEY]))
def test_plain_call_of_any_depth_is_read_as_in_general(inner: int, other: int, in_meta: bool, key: str) -> None:
    deep, rest = f'{{"{key}":{lists(inner)}}}', f'{{"b":{lists(other)}}}'
    check(call(rest, deep) if in_meta else call(deep, rest))


@settings(max_examples=examples(100))
@given(st.lists(messages(), min_size=1, max_size=12), st.sampled_from([META, '{"a":{"b":[1]}}']))
def test_plain_call_meta_that_is_remembered_is_not_changed_by_later_messages(bodies: list[bytes], meta: str) -> None:
    first = read_plain_call(call(meta=meta))
    assert first is not None
    expected = copy.deepcopy(first.to_request().params["_meta"])
    for body in bodies:
        read_plain_call(body)
        read(body)
    again = read_plain_call(call('{"a":1}', meta))
    assert again is not None
    assert typed(again.to_request().params["_meta"]) == typed(expected) == typed(strict_json.decode(meta.encode()))
    assert all(typed(strict_json.decode(raw)) == typed(value) for raw, (value, _) in REMEMBERED.items())
    assert len(REMEMBERED) <= MAX_REMEMBERED


def test_plain_call_remembers_a_bounded_number_of_metas() -> None:
    known: dict[bytes, object] = vars(requests)["_request_metas"]
    for number in range(3 * MAX_REMEMBERED):
        plain = read_plain_call(call(meta=f'{META[:-1]},"n":{number}}}'))
        assert plain is not None
        message = plain.to_request()
        assert message.params["_meta"]["n"] == number
        requests.read_request_meta(message)
        assert len(REMEMBERED) <= MAX_REMEMBERED
        assert len(known) <= MAX_REMEMBERED


@pytest.mark.parametrize("key", ["progressToken", "traceparent"])
def test_plain_call_meta_that_differs_in_every_request_is_not_remembered(key: str) -> None:
    before = set(REMEMBERED)
    assert all(read_plain_call(call(meta=f'{{"{key}":{number}}}')) is None for number in range(5))
    assert set(REMEMBERED) == before


@settings(max_examples=examples(300))
@given(uri=texts, request_id=st.integers() | texts, meta=st.sampled_from([None, META, "{}", "7"]), again=st.booleans())
def test_plain_read_is_what_the_general_decoder_reads(
    uri: str, request_id: int | str, meta: str | None, again: bool
) -> None:
    member = f'"uri":{json.dumps(uri, ensure_ascii=False)}'
    rest = "" if meta is None else f',"_meta":{meta}'
    twice = f",{member}" if again else ""
    said = json.dumps(request_id, ensure_ascii=False)
    body = f'{{"jsonrpc":"2.0","id":{said},"method":"resources/read","params":{{{member}{twice}{rest}}}}}'
    plain = check(body.encode(errors="replace"))
    event(f"plain: {plain}")
    assert not (plain and again), "a duplicate key is refused"


@settings(max_examples=examples(300))
@given(name=texts, arguments=st.none() | st.dictionaries(texts, texts | st.integers(), max_size=4), again=st.booleans())
def test_plain_prompt_is_what_the_general_decoder_reads(
    name: str, arguments: dict[str, str | int] | None, again: bool
) -> None:
    members = [f'"name":{json.dumps(name, ensure_ascii=False)}']
    if arguments is not None:
        members += [f'"arguments":{json.dumps(arguments, ensure_ascii=False)}'] * (1 + again)
    params = ",".join([*members, f'"_meta":{META}'])
    body = f'{{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{{{params}}}}}'
    event(f"plain: {check(body.encode(errors='replace'))}")


def test_usual_reads_and_prompts_are_plain() -> None:
    for method, params in (
        ("resources/read", '"uri":"shop://orders/17"'),
        ("prompts/get", '"name":"refund"'),
        ("prompts/get", '"name":"refund","arguments":{"number":"17"}'),
    ):
        assert check(f'{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params},"_meta":{META}}}}}'.encode())
