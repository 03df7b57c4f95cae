"""What a tool returned, against what it promises."""

import logging
from typing import Any

import msgspec
import pytest

from tests.unit.builders import entry_named
from toolhall.model.content import Audio, Content, Image, Reply, Resource, ResourceLink, Result, Text
from toolhall.model.errors import BadOutput
from toolhall.model.json import JsonObject
from toolhall.pipeline.states import Raw
from toolhall.pipeline.validate import Check

LINK = ResourceLink(uri="file:///a", name="a")
INTEGER: JsonObject = {"type": "integer"}


def check(value: object, returns: JsonObject | None = None, max_bytes: int = 1_000) -> Result:
    return Check(max_bytes)(Raw(entry_named(returns=returns), value)).result


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, Result(None)),
        ("text", Result(None, (Text("text"),))),
        (Text("text"), Result(None, (Text("text"),))),
        (Image(b"x"), Result(None, (Image(b"x"),))),
        ([Text("a"), Image(b"x")], Result(None, (Text("a"), Image(b"x")))),
        ((LINK, Audio(b"x")), Result(None, (LINK, Audio(b"x")))),
        ([], Result(b"[]")),
        ([Text("a"), 3], Result(b'[{"text":"a","notes":null,"meta":null},3]')),
        (3, Result(b"3")),
        ({"a": [1.5, None]}, Result(b'{"a":[1.5,null]}')),
        (Reply((Text("a"),)), Result(None, (Text("a"),))),
        (Reply((Text("a"),), 3, {"k": 1}), Result(b"3", (Text("a"),), meta={"k": 1})),
        (Reply(value="text"), Result(b'"text"', text="text")),
        (Reply((Text("no"),), is_error=True), Result(None, (Text("no"),), is_error=True)),
        (Reply(value=None), Result(b"null")),
    ],
    ids=repr,
)
def test_check_without_output_schema_accepts_every_json_value_and_content(value: object, result: Result) -> None:
    assert check(value) == result


@pytest.mark.parametrize(
    ("value", "returns", "result"),
    [
        (3, INTEGER, Result(b"3")),
        (None, {"type": "null"}, Result(b"null")),
        ("text", {"type": "string"}, Result(b'"text"', text="text")),
        ([], {"type": "array"}, Result(b"[]")),
        (Reply((Text("three"),), 3), INTEGER, Result(b"3", (Text("three"),))),
        (Reply((Text("no"),), is_error=True), INTEGER, Result(None, (Text("no"),), is_error=True)),
    ],
    ids=repr,
)
def test_check_accepts_a_value_that_matches_the_output_schema(
    value: object, returns: JsonObject, result: Result
) -> None:
    assert check(value, returns) == result


@pytest.mark.parametrize(
    "value", ["hunter2", 1.5, None, {"n": 1}, Reply(value="hunter2"), Reply((Text("hunter2"),), [])], ids=repr
)
def test_check_value_that_violates_the_output_schema_raises_bad_output_and_logs_no_value(
    value: object, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(BadOutput) as caught:
        check(value, INTEGER)
    assert caught.value.message == "the tool returned something other than its output schema promises"
    assert "tool Kit.pick@1.0.0 broke its output schema: /: the value is not of type" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("value", [Text("three"), [Image(b"x")], Reply((Text("three"),)), Reply()], ids=repr)
def test_check_content_without_a_value_raises_bad_output_when_an_output_schema_exists(value: object) -> None:
    with pytest.raises(BadOutput, match="the tool returned no value, and its output schema promises one"):
        check(value, INTEGER)


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {"a": object()},
        {object(): 1},
        CYCLE,
        "\ud800",
        {"\ud800": 1},
        Reply(value=object()),
        Reply(meta={"a": object()}),
    ],
    ids=["object", "inside", "key", "cycle", "surrogate", "surrogate key", "in a reply", "in meta"],
)
def test_check_value_that_is_not_json_serializable_raises_bad_output(value: object) -> None:
    returns = {"type": "string"} if isinstance(value, str) else None
    with pytest.raises(BadOutput, match="the tool returned something that cannot be written as JSON"):
        check(value, returns)


def test_check_content_block_with_unserializable_meta_raises_bad_output() -> None:
    with pytest.raises(BadOutput, match="cannot be written as JSON"):
        check(Text("a", meta={"a": object()}))


def untyped(value: object) -> Any:
    """What an author without a type checker might pass."""
    return value


@pytest.mark.parametrize(
    "value",
    [
        Text(untyped(None)),
        [Text("fine"), Text(untyped(3))],
        Image(untyped("text")),
        ResourceLink(uri=untyped(None), name="a"),
        ResourceLink(uri="a", name=untyped(None)),
        Resource(uri="a", content=untyped(None)),
        Text("a", notes=untyped({"priority": 1})),
        Text("a", meta=untyped(["k"])),
        Reply(untyped(("not a block",))),
        Reply((Text("fine"),), meta=untyped(["k"])),
        Reply((Text("fine"),), 3, meta=untyped("k")),
    ],
    ids=repr,
)
def test_check_content_block_with_a_member_of_the_wrong_type_raises_bad_output(value: object) -> None:
    with pytest.raises(BadOutput, match="the tool returned content that cannot be written"):
        check(value)


BIG = "x" * 101
LARGE: list[Any] = [
    BIG,
    [BIG],
    {"a": BIG},
    Text(BIG),
    [Text("x" * 51), Text("x" * 50)],
    Image(BIG.encode()),
    Audio(BIG.encode()),
    Resource(uri="file:///a", content=BIG),
    Resource(uri="file:///a", content=BIG.encode()),
    Reply((Text(BIG),)),
    Reply((Text(BIG),), 3),
    Reply(value=BIG),
    Reply(meta={"a": BIG}),
    Text("a", meta={"a": BIG}),
]


@pytest.mark.parametrize("value", LARGE, ids=[f"{number}" for number in range(len(LARGE))])
def test_check_result_above_max_bytes_raises_bad_output(value: object) -> None:
    with pytest.raises(BadOutput, match="the tool returned more than 100 bytes"):
        check(value, max_bytes=100)


@pytest.mark.parametrize(
    "value", ["x" * 100, Text("x" * 100), Image(b"x" * 100), ["x" * 96], Reply((Text("x" * 99),), 3)]
)
def test_check_accepts_a_result_of_exactly_max_bytes(value: object) -> None:
    check(value, max_bytes=100)


def test_check_returns_content_blocks_unchanged() -> None:
    blocks: tuple[Content, ...] = (Text("a"), LINK)
    assert check(list(blocks)).content == blocks


def test_check_validates_and_returns_the_json_encoding_of_a_struct() -> None:
    class Point(msgspec.Struct):
        x: int

    assert check(Point(1), {"type": "object", "required": ["x"]}).encoded == b'{"x":1}'


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "returns", "said"),
    [
        ("hunter2", INTEGER, '/: the value is not of type "integer"; it is of type "string"'),
        (
            {"a/b": [1, {"c": None}]},
            {"properties": {"a/b": {"items": INTEGER}}},
            '/a~1b/1: the value is not of type "integer"; it is of type "object"',
        ),
        ({}, {"required": ["a"]}, '/a: "a" is a required property'),
        ({"a": Odd()}, None, "Odd cannot be written as JSON"),
    ],
    ids=["root", "nested", "missing", "not JSON"],
)
def test_check_error_explains_the_mismatch_only_when_explain_is_set(
    value: object, returns: JsonObject | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw = Raw(entry_named(returns=returns), value)
    with pytest.raises(BadOutput) as local:
        Check(1_000, explain=True)(raw)
    assert local.value.message.endswith(f": {said}")
    with caplog.at_level(logging.ERROR), pytest.raises(BadOutput) as server:
        Check(1_000)(raw)
    assert said not in server.value.message
    assert said in caplog.text
    assert "hunter2" not in local.value.message + caplog.text
