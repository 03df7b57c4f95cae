"""Words as search compares them."""

import pytest

from toolhall.registry.search import tokenize


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Add two numbers.", ["add", "two", "number"]),
        ("Calculator_Add", ["calculator", "add"]),
        ("files.move-to", ["file", "move", "to"]),
        ("GetEmails", ["get", "email", "getemail"]),
        ("HTTPServer2", ["http", "server2", "httpserver2"]),
        ("parseJSON", ["parse", "json", "parsejson"]),
        ("base64", ["base64"]),
        ("access class", ["access", "class"]),
        ("ÜBER Straße café", ["uber", "strasse", "cafe"]),
        ("ПолучитьПочту", ["получить", "почту", "получитьпочту"]),
        ("天気を", ["天", "気", "を"]),
        ("날씨 검색", ["날", "씨", "검", "색"]),
        ("हिन्दी", ["हिनदी"]),
        ("a\u200bb 🌧 \uff21\uff22", ["a", "b", "ab"]),
        ("x" * 1_000, ["x" * 64]),
    ],
)
def test_tokenize_splits_and_normalizes_words(text: str, found: list[str]) -> None:
    assert tokenize(text) == found
