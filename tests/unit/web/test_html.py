"""What cannot be seen, or looks like something else, is written out; everything else stays as it is."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhall.web.html import mark_hidden, reveal_hidden

VECTORS = json.loads((Path(__file__).parents[3] / "console/test/hidden.json").read_text())

PLAIN = [
    "plain text",
    "caf\u00e9 na\u00efve \u00df \u0142",
    "привет",
    "日本語",
    "한국어",
    "हिन्दी",
    "العربية",
    "1 \u00d7 3 \u20ac",
    "a\nb",
]
MARKED = {
    "a\u200bb": "a<U+200B>b",
    "\U000e0041": "<U+E0041>",
    "\u202ex": "<U+202E>x",
    "p\u0430ypal": "p<U+0430>ypal",
    "\u0441\u043e\u0440": "<U+0441><U+043E><U+0440>",
    "\u03b1lpha": "<U+03B1>lpha",
    "\uff41": "<U+FF41>",
    "e\u0301": "e<U+0301>",
    "rm \u2013rf": "rm <U+2013>rf",
    "a\tb\x1b[0m": "a<U+0009>b<U+001B>[0m",
    "\u00a0": "<U+00A0>",
    "\u3164": "<U+3164>",
}


@pytest.mark.parametrize("text", PLAIN)
def test_reveal_hidden_keeps_readable_text(text: str) -> None:
    assert reveal_hidden(text) == text


@pytest.mark.parametrize("text", MARKED)
def test_reveal_hidden_marks_deceptive_characters(text: str) -> None:
    assert reveal_hidden(text) == MARKED[text]


@given(st.text())
def test_mark_hidden_is_reversible_and_printable(text: str) -> None:
    pieces = list(mark_hidden(text))
    back = "".join(chr(int(piece[3:-1], 16)) if hidden else piece for piece, hidden in pieces)
    assert back == text
    assert all(letter.isprintable() or letter == "\n" for letter in reveal_hidden(text))


@pytest.mark.parametrize("vector", VECTORS, ids=[ascii(each["text"]) for each in VECTORS])
def test_the_console_marks_the_same_characters(vector: dict[str, Any]) -> None:
    """console/test/hidden.test.ts reads the same vectors."""
    assert [{"text": text, "hidden": hidden} for text, hidden in mark_hidden(vector["text"])] == vector["pieces"]
