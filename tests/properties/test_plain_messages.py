"""The plain readers of OXP, hub and Machine Context return None, or what the general readers return for the bytes."""

import json
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.properties.test_plain_call import ARGUMENTS, IDS, NAMES, any_objects, deviating, plain_strings
from tests.properties.test_strict_json import strings, texts, typed
from toolhall.dialects import strict_json
from toolhall.dialects.hub import messages as hub
from toolhall.dialects.machine import messages as machine
from toolhall.dialects.oxp import messages as oxp
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, encode

Members = list[tuple[str, str]]
TEXT = "x" * strict_json.MAX_ID_LENGTH
TEXTS = ('"a"', '"a:b"', '"é"', '""', f'"{TEXT}"', f'"{TEXT}x"', "null", "1", "[]", '"\\u0041"', f'"{"9" * 30}"')


class Dialect(NamedTuple):
    """How a dialect reads its calls, and where they have their arguments."""

    module: ModuleType
    plain_reader: str
    read: Callable[[bytes], Any]
    decode_error: type[Exception]
    envelope: Callable[[str, Callable[[Members], str]], str]  # writes each object of a call with the given function
    arguments: Callable[[Any], tuple[Json, bytes | None]]

    def read_plain(self, body: bytes) -> Any:
        """What the reader of the usual shape makes of the bytes."""
        return getattr(self.module, self.plain_reader)(body)

    def read_in_general(self, body: bytes) -> Any:
        """What the general reader makes of the bytes, or how it refuses them."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.module, self.plain_reader, read_nothing)
            return self.read_or_refuse(body)

    def read_or_refuse(self, body: bytes) -> Any:
        """The message, or what is said of one that cannot be read."""
        try:
            return self.read(body)
        except self.decode_error as refused:
            return {key: getattr(value, "message", value) for key, value in vars(refused).items()}


def read_nothing(body: bytes) -> None:
    """In place of a plain reader: leaves every message to the general one."""


def text_of(members: Members) -> str:
    return "{" + ",".join(f'"{key}":{value}' for key, value in members) + "}"


def oxp_envelope(arguments: str, write: Callable[[Members], str]) -> str:
    return write([("request", write([("tool_id", '"Kit.pick@1.0.0"'), ("input", arguments)]))])


def hub_envelope(arguments: str, write: Callable[[Members], str]) -> str:
    names = [("tool", '"kit"'), ("method", '"pick"')]
    return write([("type", '"tool_request"'), ("id", '"7"'), *names, ("params", arguments)])


def machine_envelope(arguments: str, write: Callable[[Members], str]) -> str:
    header = [("version", '"1.0"'), ("messageId", '"m-1"'), ("messageType", '"request"'), ("source", '"me"')]
    tool = [("id", '"kit"'), ("capability", '"pick"'), ("parameters", arguments)]
    return write([("header", write(header)), ("payload", write([("tool", write(tool))]))])


def oxp_arguments(request: oxp.OxpCallRequest) -> tuple[Json, bytes | None]:
    return request.input, request.encoded_input


def hub_arguments(request: hub.HubToolRequest) -> tuple[Json, bytes | None]:
    return request.params, request.encoded_params


def machine_arguments(message: machine.MachineMessage) -> tuple[Json, bytes | None]:
    assert isinstance(message.payload, machine.ExecuteRequest)
    return message.payload.parameters, message.payload.encoded_parameters


OXP = Dialect(oxp, "read_plain_call", oxp.read_call, oxp.OxpDecodeError, oxp_envelope, oxp_arguments)
HUB = Dialect(hub, "read_plain_request", hub.read_message, hub.HubDecodeError, hub_envelope, hub_arguments)
MACHINE = Dialect(
    machine,
    "read_plain_execution",
    machine.read_message,
    machine.MachineDecodeError,
    machine_envelope,
    machine_arguments,
)
# Members that a message may have besides the usual ones, each beside the member that is named first.
MORE: list[tuple[Dialect, str, str]] = [
    *((OXP, "tool_id", f'"{key}":{text}') for key in ("call_id", "trace_id", "inputs", "other") for text in TEXTS),
    *((OXP, "request", f'"$schema":{text}') for text in (*TEXTS, *map(json.dumps, oxp.SUPPORTED_SCHEMAS))),
    *((OXP, "tool_id", f'"context":{text}') for text in ("{}", "null", '{"user_id":"a"}', '{"secrets":[]}')),
    *((HUB, "type", f'"{key}":{text}') for key in ("action", "version", "other") for text in TEXTS),
    *((HUB, "type", f'"metadata":{text}') for text in ("{}", "null", '{"version":"^1"}', '{"version":1}')),
    *((MACHINE, "version", f'"{key}":{text}') for key in ("timestamp", "destination", "x") for text in TEXTS),
    (MACHINE, "version", '"timestamp":"2026-01-01T00:00:00Z"'),
    *((MACHINE, "tool", f'"context":{{"{key}":{text}}}') for key in ("request_id", "user_id", "x") for text in TEXTS),
    *((MACHINE, "tool", f'"security":{{"token":{text}}}') for text in TEXTS),
    *((MACHINE, "tool", f'"security":{text}') for text in ("{}", "null", '{"permissions":["read"]}')),
    *((MACHINE, "tool", f'"{key}":{text}') for key in ("discover", "register", "cancel") for text in ("{}", "null")),
    *((MACHINE, "header", f'"metadata":{text}') for text in ("{}", "null", '{"trace":"t:1"}')),
]
DIALECTS = (OXP, HUB, MACHINE)
in_every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=["oxp", "hub", "machine"])


def call(dialect: Dialect, arguments: str = "{}") -> bytes:
    """A call of the usual shape."""
    return dialect.envelope(arguments, text_of).encode("utf-8", "surrogatepass")


def exact(message: Any) -> Any:
    """A message as a value that tells 1 from 1.0 and from true, without the encoded arguments."""
    if isinstance(message, dict):
        return {key: exact(value) for key, value in message.items()}
    if not isinstance(message, msgspec.Struct):
        return typed(message) if isinstance(message, list | str | int | float | None) else repr(message)
    fields = {key: value for key, value in msgspec.structs.asdict(message).items() if not key.startswith("encoded_")}
    fields |= {"error": getattr(fields.get("error"), "message", None)}
    arguments = [fields[key] for key in ("input", "params", "parameters") if key in fields]
    return type(message).__name__, exact(fields), json.dumps(arguments)  # in their order


def check(dialect: Dialect, body: bytes) -> bool:
    """Compare both readers; whether the plain one read the message."""
    plain, expected = dialect.read_plain(body), dialect.read_in_general(body)
    assert exact(dialect.read_or_refuse(body)) == exact(expected)
    if plain is None:
        return False
    assert exact(plain) == exact(expected)
    arguments, encoded = dialect.arguments(plain)
    assert encoded == encode(dialect.arguments(expected)[0]) == encode(arguments)
    return True


@in_every_dialect
def test_plain_message_with_any_known_arguments_is_read_as_in_general(dialect: Dialect) -> None:
    taken = [check(dialect, call(dialect, arguments)) for arguments in ARGUMENTS]
    assert any(taken)
    assert not all(taken)


@in_every_dialect
def test_plain_message_with_any_known_name_or_id_is_read_as_in_general(dialect: Dialect) -> None:
    usual = call(dialect).decode()
    for name in ('"Kit.pick@1.0.0"', '"7"', '"kit"', '"pick"', '"m-1"', '"me"', '"1.0"', '"request"', '"tool_request"'):
        for other in (*NAMES, *TEXTS, *IDS, '"Kit.pick"', '"Kit.pick@2"', '"Kit.pick@^1"', '"1.1"', '"response"'):
            check(dialect, usual.replace(name, other).encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("count", [1, 2])
def test_plain_message_with_optional_members_is_read_as_in_general(count: int) -> None:
    taken: Counter[bool] = Counter()
    for dialect, beside, more in MORE:
        usual = call(dialect, '{"a":1}').decode()
        body = usual.replace(f'"{beside}":', f'{",".join([more] * count)},"{beside}":', 1).encode()
        taken[check(dialect, body)] += 1
    assert taken[True] >= (20 if count == 1 else 0)
    assert count == 1 or not taken[True], "a member that is there twice was overlooked"


@in_every_dialect
@pytest.mark.parametrize("space", ["", " "])
def test_plain_message_of_the_usual_shape_is_read_by_its_type(dialect: Dialect, space: str) -> None:
    for arguments in ("{}", '{"a":[1,2,{"b":null}]}', '{"a":":"}', '{"a":"é🎉"}', '{"a":1.5,"b":-0.0,"c":1e30}'):
        assert check(dialect, call(dialect, arguments).replace(b",", f",{space}".encode()))


@in_every_dialect
def test_plain_message_with_a_duplicate_key_is_left_to_the_general_reader(dialect: Dialect) -> None:
    body = call(dialect, '{"a":1}').decode()
    for start in (at + 1 for at, letter in enumerate(body) if letter in "{,"):
        key, at = json.JSONDecoder().raw_decode(body, start)
        end = json.JSONDecoder().raw_decode(body, at + 1)[1]
        doubled = f"{body[:start]}{body[start:end]},{body[start:]}".encode()
        assert dialect.read_plain(doubled) is None, key
        assert not check(dialect, doubled)


@in_every_dialect
@pytest.mark.parametrize("size", range(strict_json.SMALL_BODY - 1, strict_json.SMALL_BODY + 2))
def test_plain_message_of_any_size_near_the_limit_is_read_as_in_general(dialect: Dialect, size: int) -> None:
    letters = "x" * (size - len(call(dialect, '{"a":""}')))
    assert check(dialect, call(dialect, f'{{"a":"{letters}"}}')) == (size <= strict_json.SMALL_BODY)


@st.composite
def bodies(draw: st.DrawFn, dialect: Dialect) -> bytes:
    """A call, usual or nearly so, sometimes with blanks or damaged bytes."""
    space = draw(st.sampled_from(["", "", " "]))

    def write(members: Members) -> str:
        names = st.one_of(st.just(""), st.just(""), st.just(""), plain_strings, strings)
        changed = [(key, value if value[0] != '"' else draw(names) or value) for key, value in members]
        return draw(deviating(changed)).text(space)

    body = dialect.envelope(draw(any_objects), write).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 7)) == 0:
        position = draw(st.integers(0, len(body)))
        junk = draw(st.one_of(st.binary(max_size=2), st.sampled_from([b"\x00", b"\xff", b"\\", b'"', b":", b","])))
        body = body[:position] + junk + body[position + len(junk) :]
    return body


@in_every_dialect
def test_plain_message_of_any_bytes_is_read_as_in_general(dialect: Dialect) -> None:
    taken: Counter[bool] = Counter()

    @settings(max_examples=examples(500))
    @given(st.one_of(bodies(dialect), any_objects.map(lambda arguments: call(dialect, arguments))))
    def compare(body: bytes) -> None:
        usual = check(dialect, body)
        event(f"read by its type: {usual}")
        taken[usual] += 1

    compare()
    assert taken[True] * 10 >= taken.total(), f"too few messages were of the usual shape: {taken}"


@settings(max_examples=examples(100))
@given(texts)
def test_decode_and_encode_returns_the_encoding_of_the_value(text: str) -> None:
    try:
        value, encoded = strict_json.decode_and_encode(text.encode("utf-8", "surrogatepass"))
    except Malformed:
        return
    assert encoded == encode(value)
