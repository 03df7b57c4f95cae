"""The sanitize stage: removes control characters and secrets from results, and marks those of foreign tools."""

import asyncio
import re
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import msgspec

from toolhall.model.content import CONTENT_TYPES, Content, Notes, Resource, Result, Text
from toolhall.model.json import Json, JsonObject
from toolhall.model.text import TextSanitizer, is_clean_json, is_clean_text
from toolhall.pipeline.states import Checked
from toolhall.redaction.redactor import Redactor
from toolhall.schema.types import to_json

OWN_PREFIX = "dev.toolhall/"  # reserved: members of this prefix are removed from what tools return
REMOVED = f"{OWN_PREFIX}removed"
SOURCE = f"{OWN_PREFIX}source"
LINKS = f"{OWN_PREFIX}links"
LARGE_RESULT_BYTES = 64 * 1024  # larger results are searched for secrets in another thread, so that the loop goes on
_PAYLOAD_FIELDS = ("text", "content", "data")
_TEXT_TYPES = (str, bytes)
_TEXT_FIELDS = {
    kind: tuple(name for name in kind.__struct_fields__ if name not in {"size", "notes", "meta"})
    for kind in CONTENT_TYPES
}
# An image in Markdown or HTML: a client may fetch it, and thereby send its host whatever the URL contains.
_REMOTE_IMAGE = re.compile(
    r"!\[[^\]]{0,512}\]\(\s{0,8}<?https?://|<img\s[^>]{0,512}?\bsrc\s?=\s?\\?[\"']?https?://", re.IGNORECASE
)


class Sanitize:
    """Cleans results; one whose encoded bytes are clean is passed on unchanged.

    One thread searches large results for secrets, one after the other, so that the event loop waits for the interpreter
    lock for a few milliseconds at most, however many large results come.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "toolhall-redact")  # starts with the first large result

    def __call__(self, checked: Checked) -> Result | Awaitable[Result]:
        """Return the result without control characters and secrets of the call; a large one must be awaited."""
        result, redactor = checked.result, checked.redactor
        encoded = result.encoded
        # Most results are plain: without a backslash JSON escapes no control character. (`find`, because `in` with
        # bytes raises and drops an exception inside CPython.)
        is_plain = encoded is not None and encoded.isascii() and encoded.find(b"\\") < 0 and encoded.find(b"\x7f") < 0
        if result.meta or not ((is_plain or _has_clean_value(result)) and all(map(_is_clean_block, result.content))):
            info = checked.entry.tool.resource
            if info is None or not info.exact:
                result = _clean_result(result)
        if redactor is not None:
            if _size(result) > LARGE_RESULT_BYTES:
                return self._redact_large(checked, result, redactor)
            result = _redacted(result, redactor)
        return _with_source(checked, result) if checked.entry.tool.foreign else result

    async def _redact_large(self, checked: Checked, result: Result, redactor: Redactor) -> Result:
        loop = asyncio.get_running_loop()
        return _with_source(checked, await loop.run_in_executor(self._thread, _redacted, result, redactor))


def _with_source(checked: Checked, result: Result) -> Result:
    """Return a foreign result with its tool, and the number of remote images, which are left in."""
    if not checked.entry.tool.foreign:
        return result
    encoded, source = result.encoded, _source(checked.entry.id)
    meta = {**result.meta, **source} if result.meta else {**source}
    if result.content or result.text or encoded is None or encoded.find(b"![") >= 0 or encoded.find(b"<") >= 0:
        images = _count_images(result)
        if images:
            meta[LINKS] = images
    return Result(encoded, result.content, result.text, meta, result.is_error, result.roles)


def _size(result: Result) -> int:
    """Return about how many bytes are searched."""
    size = len(result.encoded or b"")
    if result.content:
        size += sum(len(part) for block in result.content for part in _text_fields(block).values())
        size += sum(len(to_json(block.meta)) for block in result.content if block.meta)
    return size + len(to_json(result.meta)) if result.meta else size


def _clean_result(result: Result) -> Result:
    """Remove control and hidden characters, and note their number in the result's meta."""
    sanitizer = TextSanitizer()
    encoded = result.encoded and sanitizer.clean_json(result.encoded)
    text = result.text if encoded == result.encoded else result.text and TextSanitizer().clean(result.text)
    content = tuple(_clean_block(block, sanitizer) for block in result.content)
    meta = _clean_meta(result.meta, sanitizer)
    meta = meta and _without_own_meta(meta)
    clean = _if_changed(result, Result(encoded, content, text, meta, result.is_error, result.roles))
    return _with_meta(clean, {REMOVED: sanitizer.removed}) if sanitizer.removed else clean


def _has_clean_value(result: Result) -> bool:
    return result.text is None if result.encoded is None else is_clean_json(result.encoded)


def _is_clean_block(block: Content) -> bool:
    """Whether the block is a text or a text resource, of which nothing has to be removed; as most are."""
    if block.notes is not None or block.meta is not None:
        return False
    if type(block) is Text:
        return is_clean_text(block.text)
    if type(block) is Resource and type(block.content) is str:
        return is_clean_text(block.content) and is_clean_text(block.uri) and is_clean_text(block.mime_type or "")
    return False


def _clean_block(block: Content, sanitizer: TextSanitizer) -> Content:
    texts = {name: sanitizer.clean(value) for name, value in _text_fields(block).items() if isinstance(value, str)}
    return _replaced(
        block, {**texts, "notes": _clean_notes(block.notes, sanitizer), "meta": _clean_meta(block.meta, sanitizer)}
    )


def _clean_notes(notes: Notes | None, sanitizer: TextSanitizer) -> Notes | None:
    if notes is None or not isinstance(notes.last_modified, str):
        return notes
    return msgspec.structs.replace(notes, last_modified=sanitizer.clean(notes.last_modified))


def _clean_meta(meta: JsonObject | None, sanitizer: TextSanitizer) -> JsonObject | None:
    encoded = to_json(meta or {})
    return meta if is_clean_json(encoded) else msgspec.json.decode(sanitizer.clean_json(encoded))


def _redacted(result: Result, redactor: Redactor) -> Result:
    encoded = result.encoded and redactor.redact_json(result.encoded)
    if not (result.content or result.meta) and encoded == result.encoded:
        return result
    # The text is the decoded value: what is redacted in the one is redacted in the other.
    text = result.text if encoded == result.encoded or not encoded else result.text and msgspec.json.decode(encoded)
    content = result.content
    # All payloads together, because a secret may be spread over several blocks.
    if content and redactor.contains_secret(b"".join(map(_payload_bytes, content))):
        content = tuple(_redacted_block(block, redactor) for block in content)
    content = tuple(_redacted_rest(block, redactor) for block in content)
    if content and encoded:
        content, encoded = _redacted_together(content, encoded, redactor)
    meta = _redacted_meta(result.meta, redactor)
    return _if_changed(result, Result(encoded, content, text, meta, result.is_error, result.roles))


def _redacted_together(
    content: tuple[Content, ...], encoded: bytes, redactor: Redactor
) -> tuple[tuple[Content, ...], bytes]:
    """Redact content and value together, because a secret may be spread over both, in either order."""
    value = msgspec.json.decode(encoded)
    texts: list[Json] = [part for block in content for part in _payload_texts(block).values()]
    if not redactor.contains_spread_secret([texts, value]) and not redactor.contains_spread_secret([value, texts]):
        return content, encoded
    texts, value = redactor.redact_value([texts, value])
    value, texts = redactor.redact_value([value, texts])
    left = iter(texts)
    blocks = tuple(_replaced(block, {name: next(left) for name in _payload_texts(block)}) for block in content)
    return blocks, to_json(value)


def _payload_texts(block: Content) -> dict[str, str]:
    return {
        name: part for name, part in _text_fields(block).items() if name in _PAYLOAD_FIELDS and isinstance(part, str)
    }


def _redacted_block(block: Content, redactor: Redactor) -> Content:
    payload = {name: value for name, value in _text_fields(block).items() if name in _PAYLOAD_FIELDS}
    hidden = {
        name: redactor.redact_next(value) if isinstance(value, str) else redactor.redact_bytes(value)
        for name, value in payload.items()
    }
    return _replaced(block, hidden)


def _redacted_rest(block: Content, redactor: Redactor) -> Content:
    rest = {
        name: redactor.redact_text(value) for name, value in _text_fields(block).items() if name not in _PAYLOAD_FIELDS
    }
    return _replaced(block, {**rest, "meta": _redacted_meta(block.meta, redactor)})


def _redacted_meta(meta: JsonObject | None, redactor: Redactor) -> JsonObject | None:
    if not meta:
        return meta
    encoded = to_json(meta)
    hidden = redactor.redact_json(encoded)
    return meta if hidden == encoded else msgspec.json.decode(hidden)


@lru_cache(1_000)
def _source(tool_id: str) -> Mapping[str, Json]:
    """Return what marks the results of a foreign tool; one object for all of them, which nobody changes."""
    return {SOURCE: {"tool": tool_id, "trust": "foreign"}}


def _count_images(result: Result) -> int:
    texts = [result.text or (result.encoded or b"").decode()]
    for block in result.content:
        texts += (block.text,) if type(block) is Text else _payload_texts(block).values()
    return sum([len(_REMOTE_IMAGE.findall(text)) for text in texts if "![" in text or "<" in text])


def _with_meta(result: Result, notes: JsonObject) -> Result:
    return msgspec.structs.replace(result, meta={**(result.meta or {}), **notes})


def _without_own_meta(meta: JsonObject) -> JsonObject:
    return {key: value for key, value in meta.items() if not key.startswith(OWN_PREFIX)}


def _text_fields(block: Content) -> JsonObject:
    """Return the texts and bytes of a block by field name."""
    named = [(name, getattr(block, name)) for name in _TEXT_FIELDS[type(block)]]
    return {name: value for name, value in named if isinstance(value, _TEXT_TYPES)}


def _payload_bytes(block: Content) -> bytes:
    payload: list[Json] = [value for name, value in _text_fields(block).items() if name in _PAYLOAD_FIELDS]
    return b"".join(value.encode() if isinstance(value, str) else value for value in payload)


def _replaced(block: Content, parts: JsonObject) -> Content:
    """Return the block with these fields, or the same object if nothing changes."""
    same = all(getattr(block, name) == value for name, value in parts.items())
    return block if same else msgspec.structs.replace(block, **parts)


def _if_changed(before: Result, after: Result) -> Result:
    return before if before == after else after
