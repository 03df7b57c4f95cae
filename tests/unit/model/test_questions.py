"""Questions and replies."""

import pytest

from toolhall.model.json import Json
from toolhall.model.messages import Sampled


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"type": "text", "text": "one"}, "one"),
        ([{"type": "text", "text": "one "}, {"type": "image", "data": ""}, {"type": "text", "text": "two"}], "one two"),
        ([], ""),
        ("odd", ""),
        ({"type": "image"}, ""),
        ([{"type": "text", "text": 3}], ""),
    ],
)
def test_sampled_text_joins_text_blocks(content: Json, text: str) -> None:
    assert Sampled("assistant", content, "some-model").text == text
