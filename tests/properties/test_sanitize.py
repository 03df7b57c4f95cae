"""Cleaning is complete, happens once, and leaves clean text alone."""

import json
import re
import unicodedata
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.unit.builders import entry_named
from toolhall.model.content import Content, Resource, ResourceLink, Result, Text
from toolhall.model.json import encode
from toolhall.model.text import clean_text
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.states import Checked

CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
ENTRY = entry_named()

pieces = st.sampled_from(
    [
        "\x1b",
        "\x1b[",
        "\x1b]",
        "\x1bP",
        "\x9b",
        "\x9d",
        "\x07",
        "\x1b\\",
        "\x9c",
        "31m",
        ";",
        "0",
        "text",
        "\n",
        "\t",
        "\x00",
        "é",
        "\x7f",
        "\x85",
        "\x08",
        "\x0c",
        "\u200b",
        "\u200c",
        "\u200d",
        "\ufe0f",
        "\u202e",
        "\u0301",
        "\u0489" * 9,
        "\U000e0067",
        "\U000e007f",
        "\U0001f3f4",
        "👩",
        "❤",
        "ب",
        "क",
        "e",
        "\u3164",
    ]
)
dirty = st.lists(pieces, max_size=12).map("".join) | st.text(max_size=20)
UNSEEN = "\u115f\u1160\u2800\u3164\uffa0"  # letters and symbols that are blank
clean = st.text(
    st.characters(exclude_categories=["C", "Mn", "Me"], exclude_characters=UNSEEN) | st.sampled_from("\t\n\r"),
    max_size=20,
).map(lambda text: unicodedata.normalize("NFC", text))
keys = st.text(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | clean,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(clean, parts, max_size=3),
    max_leaves=8,
)
encodable = st.lists(pieces, max_size=8).map("".join)
dirty_values = st.recursive(
    encodable | st.integers(-9, 9),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(encodable, parts, max_size=3),
    max_leaves=6,
)


def sanitize(result: Result) -> Result:
    clean = Sanitize()(Checked(ENTRY, result))
    assert isinstance(clean, Result)
    return clean


@settings(max_examples=examples(500))
@given(dirty)
def test_clean_text_removes_all_control_characters_and_is_idempotent(text: str) -> None:
    once = clean_text(text)
    assert not CONTROLS.search(once)
    assert clean_text(once) == once
    assert unicodedata.is_normalized("NFC", once)


@given(clean)
def test_clean_text_leaves_clean_text_unchanged(text: str) -> None:
    assert clean_text(text) == text


@given(dirty, clean)
def test_clean_text_keeps_plain_text_after_an_escape_sequence(text: str, following: str) -> None:
    assert clean_text(f"{text}\x1b\\\x07.{following}").endswith(f".{following}")


@given(values)
def test_sanitize_clean_value_is_unchanged_byte_for_byte(value: Any) -> None:
    encoded = encode(value)
    assert sanitize(Result(encoded)).encoded == encoded


@settings(max_examples=examples(300))
@given(dirty_values)
def test_sanitize_value_holds_no_control_characters(value: Any) -> None:
    once = sanitize(Result(encode(value)))
    assert once.encoded is not None
    assert not CONTROLS.search(everything(json.loads(once.encoded)))
    assert sanitize(once).encoded == once.encoded


def everything(value: Any) -> str:
    """All text in a value, keys included."""
    match value:
        case str():
            return value
        case dict():
            return "".join(key + everything(part) for key, part in value.items())
        case list():
            return "".join(map(everything, value))
        case _:
            return ""


blocks: st.SearchStrategy[Content] = st.one_of(
    st.builds(Text, dirty, meta=st.none() | st.dictionaries(keys, dirty, max_size=2)),
    st.builds(Resource, uri=dirty, content=dirty),
    st.builds(ResourceLink, uri=dirty, name=dirty, title=st.none() | dirty, description=st.none() | dirty),
)


@given(st.lists(blocks, max_size=3), st.none() | st.dictionaries(keys, dirty, max_size=2))
def test_sanitize_content_blocks_hold_no_control_characters_and_are_encodable(
    content: list[Content], meta: Any
) -> None:
    once = sanitize(Result(None, tuple(content), meta=meta))
    encode((once.content, once.meta))
    said = [str(getattr(block, field)) for block in once.content for field in block.__struct_fields__]
    assert not CONTROLS.search("".join(said))
    assert sanitize(once).content == once.content
