"""Nothing that steers a terminal reaches a model or a screen (threat G2)."""

import threading
import time
from typing import Any

import pytest

from tests.unit.builders import entry_named
from toolhall.model.content import Audio, Content, Image, Resource, ResourceLink, Result, Text
from toolhall.model.json import encode
from toolhall.model.secret import Secret
from toolhall.model.text import clean_text
from toolhall.pipeline.sanitize import LARGE_RESULT_BYTES, Sanitize
from toolhall.pipeline.states import Checked
from toolhall.redaction.redactor import Redactor
from toolhall.redaction.secret_patterns import REDACTED


def sanitize(result: Result) -> Result:
    clean = Sanitize()(Checked(entry_named(), result))
    assert isinstance(clean, Result)
    return clean


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[38;5;196mred\x1b[m", "red"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b]8;;http://evil.example\x07click\x1b]8;;\x07", "click"),
        ("\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]52;c;aGVsbG8=\x07text", "text"),
        ("\x1bPdevice control\x1b\\text", "text"),
        ("\x1b_application\x1b\\text", "text"),
        ("\x1b^privacy\x1b\\text", "text"),
        ("\x1bXstring\x1b\\text", "text"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x9d0;title\x9ctext", "text"),
        ("\x90device\x9ctext", "text"),
        ("\x1bcreset", "reset"),
        ("\x1b(Btext", "text"),
        ("\x1b\x1b[31mred", "red"),
        ("\x1b", ""),
        ("text\x1b", "text"),
        ("\x1b[", ""),
        ("bell\x07 back\x08space null\x00 delete\x7f", "bell backspace null delete"),
        ("vertical\x0b form\x0c shift\x0e\x0f", "vertical form shift"),
        ("\x80\x85\x9f", ""),
        ("file \udce9 name \ud83d", "file  name "),
        ("tab\t line\n return\r\n", "tab\t line\n return\r\n"),
        ("æøå 漢字 🎉 👨‍👩‍👧 नमस्ते مرحبا", "æøå 漢字 🎉 👨‍👩‍👧 नमस्ते مرحبا"),
        ("\\u001b[31m and [31m are only text", "\\u001b[31m and [31m are only text"),
        ("", ""),
    ],
)
def test_clean_text_removes_escape_sequences_and_control_characters(dirty: str, clean: str) -> None:
    assert clean_text(dirty) == clean
    assert clean_text(clean) == clean


@pytest.mark.parametrize("code", [*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), *range(0x7F, 0xA0)], ids=hex)
def test_sanitize_removes_every_control_character_from_a_value(code: int) -> None:
    dirty = f"a{chr(code)}"
    result = sanitize(Result(encode({dirty: [dirty]}), text=dirty))
    assert result.encoded is not None
    assert chr(code) not in result.encoded.decode()
    assert b"\\" not in result.encoded
    assert result.encoded.startswith(b'{"a')
    assert result.text is not None
    assert chr(code) not in result.text


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True, "text", {"b": '\t\n\r"\\/'}]},
        {"big": 2**60, "small": 1e-300, "path": "C:\\build\\files", "text": "\\u001b"},
        "æøå 漢字 🎉",
        [],
        0,
    ],
    ids=str,
)
def test_sanitize_returns_a_clean_value_byte_for_byte(value: Any) -> None:
    encoded = encode(value)
    assert sanitize(Result(encoded)).encoded == encoded


def test_sanitize_returns_a_clean_result_as_the_same_object() -> None:
    result = Result(b'{"a":"text"}', (Text("text"), Image(b"\x1b[31m")), meta={"a": "text"})
    assert sanitize(result) is result


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        (Text("\x1b[31mred"), Text("red")),
        (Text("red", meta={"a\x07": ["\x1b[31mred"]}), Text("red", meta={"a": ["red"]})),
        (Resource(uri="file:///a\x07", content="\x1b[31mred"), Resource(uri="file:///a", content="red")),
        (Resource(uri="x:a", content="red", mime_type="b\x07"), Resource(uri="x:a", content="red", mime_type="b")),
        (Resource(uri="file:///a", content=b"\x1b[31m"), Resource(uri="file:///a", content=b"\x1b[31m")),
        (
            ResourceLink(uri="x:\x07", name="\x1b[1ma", title="\x1b[1mb", description="\x1b[1mc", mime_type="d\x00"),
            ResourceLink(uri="x:", name="a", title="b", description="c", mime_type="d"),
        ),
        (Image(b"\x1b[31m"), Image(b"\x1b[31m")),
        (Audio(b"\x00", meta={"a": "\x07b"}), Audio(b"\x00", meta={"a": "b"})),
    ],
    ids=repr,
)
def test_sanitize_removes_escape_sequences_from_content_blocks(dirty: Content, clean: Content) -> None:
    assert sanitize(Result(None, (dirty,))).content == (clean,)


def test_sanitize_cleans_meta_and_reports_the_number_of_removed_characters() -> None:
    dirty = Result(b'"a"', (Text("b"),), "a", {"k": "\x1b[31mred"}, is_error=True)
    meta = {"k": "red", "dev.toolhall/removed": 5}
    assert sanitize(dirty) == Result(b'"a"', (Text("b"),), "a", meta, is_error=True)


def test_clean_text_takes_linear_time_on_hostile_text() -> None:
    hostile = "\x1b]" * 200_000 + "\x1b[0" * 200_000 + "\x9d" * 200_000
    start = time.process_time()
    assert len(clean_text(hostile)) < len(hostile)
    assert time.process_time() - start < 2


class ThreadRecordingRedactor(Redactor):
    """A redactor that records the threads in which it ran."""

    threads: list[int]

    def redact_json(self, encoded: bytes) -> bytes:
        self.threads = [threading.get_ident()]
        return super().redact_json(encoded)


@pytest.mark.threat("F7")
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
async def test_sanitize_redacts_a_large_result_in_another_thread(large: bool) -> None:
    """The loop goes on meanwhile, whatever the result holds; a small one is not even awaited."""
    text = f"{'x' * LARGE_RESULT_BYTES * large} KEY-0123456789-abc"
    redactor = ThreadRecordingRedactor((), Secret("KEY-0123456789-abc"))
    clean = Sanitize()(Checked(entry_named(), Result(encode(text), text=text), redactor))
    if isinstance(clean, Result):
        assert not large
    else:
        assert large
        clean = await clean
    left = f"{'x' * LARGE_RESULT_BYTES * large} {REDACTED}"
    assert (clean.encoded, clean.text) == (encode(left), left)
    assert redactor.count == 1  # hidden once, though it is both value and text
    assert (redactor.threads == [threading.get_ident()]) is not large
