"""Values from words, text in which nothing hides, forms field by field."""

from typing import Any

import pytest

from toolhall.cli.arguments import coerce_argument, read_arguments
from toolhall.cli.call_ui import prompt_form
from toolhall.cli.errors import UsageError
from toolhall.cli.output import visible, visible_json

ROOT: dict[str, Any] = {"$defs": {"count": {"type": "integer"}, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}]}}}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("1", {"type": "string"}, "1"),
        ("null", {"type": "string"}, "null"),
        ("1", {"type": "integer"}, 1),
        ("1", {"type": "number"}, 1),
        ("1.5", {"type": "number"}, 1.5),
        ("2.0", {"type": "integer"}, 2.0),
        ("1.5", {"type": "integer"}, "1.5"),
        ("NaN", {"type": "number"}, "NaN"),
        ("true", {"type": "boolean"}, True),
        ("yes", {"type": "boolean"}, "yes"),
        ("null", {"type": ["string", "null"]}, None),
        ("5", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 5),
        ("5", {"$ref": "#/$defs/count"}, 5),
        ("5", {"$ref": "#/$defs/loop"}, "5"),
        ("[1]", {"type": "array"}, [1]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("a", {"enum": ["a", 1]}, "a"),
        ("1", {"enum": ["a", 1]}, 1),
        ("1", {"enum": ["1", 1]}, "1"),
        ("3", {"const": 3}, 3),
        ("3", {}, 3),
        ("three", {}, "three"),
        ("", {"type": "string"}, ""),
        ("a=b", {"type": "string"}, "a=b"),
    ],
)
def test_word_value_is_read_by_its_schema(text: str, schema: dict[str, Any], value: object) -> None:
    read = coerce_argument(text, schema, ROOT)
    assert (read, type(read)) == (value, type(value))


def test_word_arguments_of_an_open_schema_take_any_name() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert read_arguments(["a=1", "b:=[2]"], '{"c": 3}', schema) == {"a": 1, "b": [2], "c": 3}
    with pytest.raises(UsageError, match="it takes none"):
        read_arguments(["a=1"], None, {"type": "object", "additionalProperties": False})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü 漢 😀", "plain ü 漢 😀"),
        ("\x1b[31m", "<U+001B>[31m"),
        ("a\nb", "a<U+000A>b"),
        ("\u200b\u202e\u2066\ufeff", "<U+200B><U+202E><U+2066><U+FEFF>"),
        ("\u3164\u2800\ufe0f\U000e0041", "<U+3164><U+2800><U+FE0F><U+E0041>"),
        ("\u2028\u00a0\x85", "<U+2028><U+00A0><U+0085>"),
    ],
)
def test_text_with_hidden_characters_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible_json({text: [text]}) == f'{{"{shown}":["{shown}"]}}'


def test_text_with_kept_newlines_keeps_them() -> None:
    assert visible("a\nb\t\x07", keep="\n\t") == "a\nb\t<U+0007>"


def filled(schema: dict[str, Any], *typed: str | None) -> tuple[dict[str, Any], str]:
    """The reply to a form, and everything that was shown on the way."""
    steps = prompt_form({"message": "Say", "requestedSchema": schema})
    lines, shown = iter(typed), next(steps)
    seen = shown
    while True:
        try:
            shown = steps.send(None if shown.endswith("\n") else next(lines))
        except StopIteration as finished:
            return finished.value, seen
        seen += shown


def test_form_with_every_kind_of_field_is_filled() -> None:
    schema = {
        "properties": {
            "name": {"type": "string", "minLength": 2, "title": "Your name"},
            "age": {"type": "integer", "minimum": 0},
            "score": {"type": "number", "default": 9.5},
            "fresh": {"type": "boolean"},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
            "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["Ay", "Bee"]},
            "some": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "Ex"}, {"const": "y"}]}},
            "more": {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}},
            "note": {"type": "string"},
        },
        "required": ["name", "age"],
    }
    reply, seen = filled(schema, "", "A", "Ada", "-1", "36", "", "no", "m", "l", "a", "x, y", "q", "")
    assert reply == {
        "action": "accept",
        "content": {
            "name": "Ada",
            "age": 36,
            "score": 9.5,
            "fresh": False,
            "size": "l",
            "old": "a",
            "some": ["x", "y"],
            "more": ["q"],
        },
    }
    assert 'one of "s" (Small), "l" (Large)' in seen
    assert 'some of "x" (Ex), "y", with commas between' in seen
    assert "this one is needed" in seen


def test_form_at_the_end_of_input_declines() -> None:
    assert filled({"properties": {"a": {"type": "string"}}}, None)[0] == {"action": "decline"}


def test_form_without_fields_is_accepted() -> None:
    assert filled({})[0] == {"action": "accept", "content": {}}


@pytest.mark.parametrize(("typed", "action"), [("y", "accept"), ("", "decline"), (None, "decline")])
def test_form_with_a_url_shows_it_and_never_opens_it(typed: str | None, action: str) -> None:
    steps = prompt_form({"mode": "url", "message": "Log in", "url": "https://example.org/\u202e"})
    assert "Log in" in next(steps)
    assert "https://example.org/<U+202E>" in steps.send(None)
    with pytest.raises(StopIteration) as finished:
        steps.send(typed)
    assert finished.value.value == {"action": action}
