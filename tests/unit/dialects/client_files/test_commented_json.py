"""JSON with comments and trailing commas has the value of the JSON without them, in linear time."""

import json
import time

from hypothesis import given
from hypothesis import strategies as st

from toolhall.dialects.client_files.commented_json import (
    WHITESPACE_AND_COMMENTS,
    line_and_column,
    parse_commented_json,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
GAPS = st.sampled_from(["", " ", "\n", "\t", "/* { */", "// ] \n", "/**/ //\n", "\ufeff"])


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_text_without_comments_has_the_value_that_json_reads(
    value: object, indent: int | None, ascii_only: bool
) -> None:
    assert parse_commented_json(json.dumps(value, indent=indent, ensure_ascii=ascii_only)).value == value


@given(st.lists(JSON, min_size=1, max_size=4), st.lists(GAPS, min_size=6, max_size=6))
def test_comments_and_trailing_commas_change_no_value(values: list[object], gaps: list[str]) -> None:
    one, two, three, four, five, six = gaps
    items = f"{one},{two}".join(json.dumps(each) for each in values)
    text = f'{one}{{{two}"a"{three}:{four}[{five}{items}{six},{one}]{two},{three}}}{four}'
    assert parse_commented_json(text).value == {"a": values}


def test_positions_are_those_of_the_text() -> None:
    text = '{\n  // servers\n  "a": [1, 2]\n}'
    (member,) = parse_commented_json(text).members or []
    assert line_and_column(text, member.start) == (3, 3)
    assert text[member.value.start : member.value.end] == "[1, 2]"


def test_blanks_and_open_comments_take_linear_time() -> None:
    began = time.process_time()
    for text in (" " * 100_000 + "x", "//" * 50_000 + "\nx", "/*" * 50_000, '"' + "\\" * 99_999):
        assert WHITESPACE_AND_COMMENTS.fullmatch(text) is None
    assert time.process_time() - began < 10
