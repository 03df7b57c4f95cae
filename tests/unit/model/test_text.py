# ruff: noqa: RUF001 - other scripts are what is tested
"""Which characters may stand in a text (threats G1, G3), and that clean texts of every script stay as they are."""

import unicodedata

import pytest

from toolhall.model.json import encode
from toolhall.model.text import (
    MAX_COMBINING_MARKS,
    TextSanitizer,
    clean_json,
    clean_text,
    is_clean_json,
    visible_text,
)

ZWNJ, ZWJ, VS16 = "\u200c", "\u200d", "\ufe0f"
ENGLAND = "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbeng") + "\U000e007f"
PROPER = {
    "arabic": "مرحبا بالعالم، كيف حالك؟",
    "arabic with marks": "بِسْمِ ٱللَّهِ",
    "persian": f"می{ZWNJ}خواهم کتاب{ZWNJ}ها را",
    "hindi": "नमस्ते दुनिया",
    "hindi conjunct": f"क्{ZWJ}ष और क्{ZWNJ}ष",
    "sinhala": f"ශ්{ZWJ}රී ලංකා",
    "malayalam": f"അവന്{ZWJ}റെ",
    "hebrew": "שָׁלוֹם",
    "thai": "ที่นี่",
    "chinese": "漢字。　全角空白",
    "korean": "안녕하세요",
    "vietnamese": "Tiếng Việt",
    "spaces": "10\u00a0km a\u2009b",
    "family": f"👨{ZWJ}👩{ZWJ}👧",
    "firefighter": f"👩🏽{ZWJ}🚒",
    "rainbow": f"🏳{VS16}{ZWJ}🌈",
    "heart": f"❤{VS16} ☎{VS16} ©{VS16}",
    "keycap": f"1{VS16}\u20e3 #{VS16}\u20e3",
    "flag": "🇳🇴 🇯🇵",
    "england": ENGLAND,
    "newer than this Python": "\U0001fae8 \U0001fadf \U00031350",
    "number sign": "\u0600\u0661\u0662 \u06dd",
}


def test_clean_text_proper_text_is_unchanged(subtests: pytest.Subtests) -> None:
    for proper in PROPER.values():
        with subtests.test(repr(proper)):
            text = unicodedata.normalize("NFC", proper)
            sweep = TextSanitizer()
            assert sweep.clean(text) == text
            assert sweep.clean(text * 40 + "\u200b") == text * 40
            assert sweep.removed == 1
            assert sweep.clean_json(encode({text: [text]})) == encode({text: [text]})


def test_clean_text_joiner_out_of_context_is_removed(subtests: pytest.Subtests) -> None:
    rows: list[str] = [
        f"a{ZWJ}b",
        f"a{VS16}b",
        f"1{VS16}2",
        f"👨{ZWJ}",
        f"{ZWJ}👩",
        f"ب{ZWNJ}",
        f"a{ZWNJ}ب",
        f"ب{ZWNJ}क",
        "\U0001f3f4" + ENGLAND[1:-1],
        "a" + ENGLAND[1:],
    ]
    for text in rows:
        with subtests.test(repr(text)):
            assert clean_text(text) == "".join(
                letter for letter in text if letter not in ZWNJ + ZWJ + VS16 + ENGLAND[1:]
            )


def test_clean_text_is_clean_after_removals(subtests: pytest.Subtests) -> None:
    rows: list[tuple[str, str]] = [
        (f"👨{ZWJ}{ZWJ}👩", "👨👩"),
        (f"❤{VS16}{VS16}", f"❤{VS16}"),
        (f"می{ZWNJ}{ZWNJ}خ", "میخ"),
        ("e\u200b\u0301", "é"),
        ("\x1b\u200b[31mred", "[31mred"),
    ]
    for text, clean in rows:
        with subtests.test(repr((text, clean))):
            assert clean_text(text) == clean
            assert clean_text(clean) == clean


def test_clean_text_removes_every_invisible_category() -> None:
    forbidden = [
        letter
        for letter in map(chr, range(0x3000))
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Co", "Cn") and letter not in "\t\n\r"
    ]
    kept = [letter for letter in forbidden if letter in clean_text(f"a{letter}b")]
    assert set(kept) == set("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u0890\u0891\u08e2")  # drawn around numbers


def test_clean_text_caps_combining_marks(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["\u0300", "\u0489", "\u064b", "\u0e49", "\u20dd", "\u1dc0", "\U0001e8d0", "\U00011001"]
    for mark in rows:
        with subtests.test(repr(mark)):
            sweep = TextSanitizer()
            clean = sweep.clean(f"x{mark * 50}y")
            assert clean.count(mark) == MAX_COMBINING_MARKS
            assert clean == f"x{mark * MAX_COMBINING_MARKS}y"
            assert sweep.removed == 50 - MAX_COMBINING_MARKS
            assert sweep.clean(f"x{mark * MAX_COMBINING_MARKS}y") == clean


def test_clean_text_caps_mixed_marks_together() -> None:
    clean = clean_text("x" + "\u0489\U0001e8d0\u20dd" * 20)
    assert len(clean) == 1 + MAX_COMBINING_MARKS


def test_clean_text_is_nfc() -> None:
    sweep = TextSanitizer()
    assert sweep.clean("e\u0301 \u212b") == "é Å"
    assert sweep.removed == 0


def test_sanitizer_counts_removed_characters() -> None:
    sweep = TextSanitizer()
    assert sweep.clean_value({"a\u200b": ["\x1b[31mb", 1, None]}) == {"a": ["b", 1, None]}
    assert sweep.removed == 6


def test_is_clean_json_matches_clean_text(subtests: pytest.Subtests) -> None:
    rows: list[str] = ["text", "C:\\build\\files", "é", "\x85", "\u2028", "\\u0000"]
    for text in rows:
        with subtests.test(repr(text)):
            encoded = encode({"a": text})
            assert clean_json(encoded) == encode({"a": clean_text(text)})
            if is_clean_json(encoded):
                assert clean_text(text) == text


def test_clean_text_clean_text_is_the_same_object() -> None:
    for text in ("plain text", "汉字", "two\nlines\t\r\n", PROPER["family"]):
        assert clean_text(text) == text
    assert clean_text(text := "汉字 and \n text") is text


def test_visible_text_shows_what_cannot_be_seen_as_code_points() -> None:
    assert visible_text("a\u200bb\x1b\n\tc é 搜\u202e\U000e0041") == "a<U+200B>b<U+001B>\n\tc é 搜<U+202E><U+E0041>"
    assert visible_text("plain\n\ntext") == "plain\n\ntext"
