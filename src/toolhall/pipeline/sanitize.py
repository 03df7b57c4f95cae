"""Cleans what goes back: no control characters or terminal escape sequences reach a model or a screen."""

import re

import msgspec

from toolhall.model.content import Content, Resource, ResourceLink, Result, Text
from toolhall.model.json import Json, encode
from toolhall.pipeline.states import Checked

# In JSON bytes a C0 control is written \u00XX, or short (tab, newline and return may stay), a C1 control as C2 80-9F.
_SUSPECT = re.compile(rb"\\u00[01]|\\[bf]|\x7f|\xc2[\x80-\x9f]")
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
# Lone surrogates (file names that are not UTF-8) cannot be written as JSON at all.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


class Sanitize:
    """Looks at the encoded bytes first: a clean result is passed on as it is."""

    def __call__(self, checked: Checked) -> Result:
        """The result, clean."""
        result = checked.result
        encoded, text = result.encoded, result.text
        if encoded is not None and _SUSPECT.search(encoded):
            encoded = clean_json(encoded)
            text = text and clean_text(text)
        content = tuple(map(_clean_block, result.content)) if result.content else ()
        meta = _clean(result.meta)
        if encoded is result.encoded and content == result.content and meta == result.meta:
            return result
        return Result(encoded, content, text, meta, result.is_error)


def clean_text(text: str) -> str:
    """Text without terminal escape sequences and control characters."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def clean_json(encoded: bytes) -> bytes:
    """The same JSON with clean texts."""
    return encode(_clean(msgspec.json.decode(encoded))) if _SUSPECT.search(encoded) else encoded


def _clean(value: Json) -> Json:
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_text(key): _clean(part) for key, part in value.items()}
        case list():
            return [_clean(part) for part in value]
        case _:
            return value


def _clean_block(block: Content) -> Content:
    match block:
        case Text():
            changes = {"text": block.text}
        case Resource():
            changes = {"uri": block.uri} | ({"content": block.content} if isinstance(block.content, str) else {})
        case ResourceLink():
            stated = ("uri", "name", "title", "description", "mime_type")
            changes = {field: value for field in stated if (value := getattr(block, field)) is not None}
        case _:
            changes = {}
    return msgspec.structs.replace(block, **_clean(changes), meta=_clean(block.meta))
