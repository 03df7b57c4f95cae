"""Questions and replies."""

import pytest

from toolhall.model.json import Json
from toolhall.model.messages import Form, Question, Roots, Sample, Sampled, Visit, required_feature


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


@pytest.mark.parametrize(
    ("question", "feature"),
    [
        (Form("Which?", {"type": "object"}), "elicitation"),
        (Visit("Please", "https://example.org", "v1"), "elicitation.url"),
        (Sample(messages=(), max_tokens=5), "sampling"),
        (Roots(), "roots"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_required_feature_by_question(question: Question, feature: str) -> None:
    assert required_feature(question) == feature
