"""Texts of URIs and prompts become the values that a schema wants, or stay texts for the validator to report."""

from enum import Enum, IntEnum
from typing import Any, Literal, Optional

import msgspec
import pytest

from toolhall.model.errors import Problem
from toolhall.model.json import JsonObject, encode
from toolhall.schema.signature import read_signature
from toolhall.schema.text_values import MAX_DIGITS, MAX_JSON_DEPTH, MAX_JSON_MEMBERS, text_reader
from toolhall.schema.validator import Validator


class Size(IntEnum):
    """Numbers with names."""

    SMALL = 1
    LARGE = 2


class Tone(Enum):
    """Texts with names."""

    KIND = "kind"
    FIRM = "firm"


class Node(msgspec.Struct):
    """A class that refers to itself, so that its schema is in `$defs`."""

    name: str
    next: Optional["Node"] = None


SCHEMAS: dict[str, Any] = {
    "text": {"type": "string"},
    "date": {"type": "string", "format": "date"},
    "anything": {},
    "true": True,
    "text or null": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "text or integer": {"type": ["integer", "string"]},
    "pattern": {"type": "string", "pattern": "^[0-9]+$"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "integer or null": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "choice": {"enum": ["open", "closed"]},
    "choice of numbers": {"enum": [1, 2.5, True, None]},
    "choice of both": {"enum": ["auto", "1", 1, 2]},
    "text or a number": {"oneOf": [{"const": "auto"}, {"type": "integer", "minimum": 0}]},
    "reference": {"$ref": "#/$defs/Count"},
    "reference and bound": {"$ref": "#/$defs/Count", "maximum": 3},
    "all of": {"allOf": [{"type": ["integer", "string"]}, {"not": {"type": "string"}, "type": ["integer", "null"]}]},
    "endless": {"$ref": "#/$defs/Endless"},
    "nowhere": {"$ref": "#/$defs/Nowhere"},
    "list": {"type": "array", "items": {"type": "integer"}},
    "object": {"type": "object"},
    "nothing": False,
}
SCHEMA: JsonObject = {
    "type": "object",
    "properties": SCHEMAS,
    "$defs": {"Count": {"type": "integer"}, "Endless": {"$ref": "#/$defs/Endless"}},
}
IN_URI, IN_PROMPT = text_reader(SCHEMA, json=False), text_reader(SCHEMA, json=True)
SAME: list[tuple[str, str, Any]] = [  # in a URI and in a prompt
    *(
        (name, text, text)
        for name in ("text", "date", "anything", "true")
        for text in ("1", "null", "[1]", '"a"', "", " 1")
    ),
    ("text or null", "null", "null"),
    ("text or integer", "17", "17"),
    ("pattern", "17", "17"),
    ("integer", "17", 17),
    ("integer", "-3", -3),
    ("integer", "0", 0),
    ("integer", "9" * MAX_DIGITS, int("9" * MAX_DIGITS)),
    ("number", "17", 17),
    ("number", "-1.5", -1.5),
    ("number", "1e3", 1000.0),
    ("boolean", "true", True),
    ("boolean", "false", False),
    ("integer or null", "17", 17),
    ("choice", "open", "open"),
    ("choice", "1", "1"),
    ("choice", '"open"', '"open"'),
    ("choice of numbers", "1", 1),
    ("choice of numbers", "2.5", 2.5),
    ("choice of numbers", "true", True),
    ("choice of numbers", "null", None),
    ("choice of both", "1", "1"),
    ("choice of both", "2", 2),
    ("choice of both", "auto", "auto"),
    ("text or a number", "auto", "auto"),
    ("text or a number", "5", 5),
    ("reference", "17", 17),
    ("reference and bound", "17", 17),
    ("all of", "17", 17),
    ("endless", "17", "17"),
    ("nowhere", "17", "17"),
    ("nothing", "17", "17"),
    ("undeclared", "17", "17"),
]
LEFT = [  # as texts, in both
    *(
        ("integer", text)
        for text in ("", "x", "07", "+7", "1_000", "1.5", "\u0661\u0667", "--1", "1 2", "9" * 5_000, "true", "0x10")
    ),
    *(("number", text) for text in ("", "nan", "inf", "Infinity", "1e999", ".5", "5.", "1,5", "9" * (MAX_DIGITS + 1))),
    *(("boolean", text) for text in ("", "True", "yes", "1", "0")),
    ("choice of numbers", "2"),
    ("text or a number", "other"),
    ("list", "1,2"),
    ("list", "17"),
    ("object", "{"),
    ("object", "[]"),
]
IN_PROMPT_ONLY: list[tuple[str, str, Any]] = [
    ("integer", " 17\n", 17),
    ("integer or null", "null", None),
    ("list", "[1, 2]", [1, 2]),
    ("list", '["x"]', ["x"]),
    ("object", '{"a": [true]}', {"a": [True]}),
]
UNSAFE = [
    "[" * (MAX_JSON_DEPTH + 1) + "]" * (MAX_JSON_DEPTH + 1),
    "[" * 100_000,
    f"[{','.join('1' * (MAX_JSON_MEMBERS + 1))}]",
    f"[{'9' * (MAX_DIGITS + 1)}]",
    '["\\u0000"]',
    "[NaN]",
]


def problems(schema: JsonObject, values: JsonObject) -> list[Problem]:
    return Validator(schema).problems(values, len(encode(values)))


@pytest.mark.parametrize(("name", "text", "value"), SAME)
def test_reads_a_text_alike_in_uris_and_prompts(name: str, text: str, value: object) -> None:
    for read in (IN_URI, IN_PROMPT):
        seen = read({name: text})[name]
        assert (seen, type(seen)) == (value, type(value))


@pytest.mark.parametrize(("name", "text"), LEFT)
def test_leaves_what_it_cannot_read(name: str, text: str) -> None:
    assert IN_URI({name: text}) == IN_PROMPT({name: text}) == {name: text}
    assert problems({"type": "object", "properties": {name: SCHEMAS[name]}}, {name: text})


@pytest.mark.parametrize(("name", "text", "value"), IN_PROMPT_ONLY)
def test_reads_json_in_prompts_only(name: str, text: str, value: object) -> None:
    assert IN_PROMPT({name: text}) == {name: value}
    assert IN_URI({name: text}) == {name: text}


@pytest.mark.parametrize("text", UNSAFE)
def test_json_in_a_text_is_held_to_the_rules_of_messages(text: str) -> None:
    assert IN_PROMPT({"list": text}) == {"list": text}


def test_reads_each_segment_of_an_exploded_path() -> None:
    assert IN_URI({"list": ["1", "x", "02"]}) == {"list": [1, "x", "02"]}
    assert IN_URI({"text": ["1"], "integer": ["1"], "undeclared": ["1"]}) == {
        "text": ["1"], "integer": ["1"], "undeclared": ["1"],
    }  # fmt: skip


def test_items_are_found_behind_references_and_alternatives() -> None:
    numbers = {"type": "array", "items": {"$ref": "#/$defs/Count"}}
    schema = {
        "properties": {
            "nullable": {"anyOf": [numbers, {"type": "null"}]},
            "reference": {"$ref": "#/$defs/Numbers"},
            "texts": {"anyOf": [numbers, {"type": "array", "items": {"type": "string"}}]},
        },
        "$defs": {"Count": {"type": "integer"}, "Numbers": numbers},
    }
    read = text_reader(schema, json=False)
    assert read({"nullable": ["1"], "reference": ["1"], "texts": ["1"]}) == {
        "nullable": [1], "reference": [1], "texts": ["1"],
    }  # fmt: skip


def test_reads_what_python_types_want() -> None:
    def prompt(size: Size, tone: Tone, grade: Literal["a", 1], days: int | None, node: Node, tags: list[str]) -> str:
        raise NotImplementedError

    signature = read_signature(prompt, 0)
    texts = {"size": "2", "tone": "firm", "grade": "1", "days": "null", "tags": '["1"]'}
    values = text_reader(signature.input, json=True)({**texts, "node": '{"name": "1", "next": {"name": "2"}}'})
    assert values == {
        "size": 2, "tone": "firm", "grade": 1, "days": None, "tags": ["1"],
        "node": {"name": "1", "next": {"name": "2"}},
    }  # fmt: skip
    assert problems(signature.input, values) == []


def test_schemas_that_multiply_take_bounded_work() -> None:
    definitions = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 8} for n in range(40)}
    schema = {"properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**definitions, "d40": {"type": "integer"}}}
    assert text_reader(schema, json=True)({"x": "17"}) in ({"x": "17"}, {"x": 17})
    wide = {"properties": {"x": {"allOf": [{"enum": list(range(5_000))}] * 20}}}
    assert text_reader(wide, json=True)({"x": "17"}) == {"x": 17}
