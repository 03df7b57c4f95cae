"""Cleans what goes back: nothing in it steers, hides or is a secret, and what foreign tools say is marked as theirs."""

import asyncio
import re
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from toolhall.model.content import Content, Notes, Result
from toolhall.model.json import Json, JsonObject
from toolhall.model.text import Sweep, is_clean_json
from toolhall.pipeline.states import Checked
from toolhall.registry.entry import Entry
from toolhall.runners.redactor import Redactor
from toolhall.schema.types import to_json

OURS = "dev.toolhall/"  # no tool may speak under this name
REMOVED = f"{OURS}removed"
SOURCE = f"{OURS}source"
LINKS = f"{OURS}links"

LARGE = 64 * 1024  # bytes of a result that is searched for secrets in another thread, so that the loop goes on

_CARRIED = ("text", "content", "data")
# A picture in Markdown or HTML: a reader's program may fetch it, and so tell its host whatever is in the address.
_PICTURE = re.compile(
    r"!\[[^\]]{0,512}\]\(\s{0,8}<?https?://|<img\s[^>]{0,512}?\bsrc\s?=\s?\\?[\"']?https?://", re.IGNORECASE
)


class Sanitize:
    """Looks at the encoded bytes first: a clean result is passed on as it is.

    One thread searches the large results for secrets, one after the other: others wait for the interpreter for a few
    milliseconds at most, however many come.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "toolhall-redact")  # starts with the first large result

    def __call__(self, checked: Checked) -> Result | Awaitable[Result]:
        """The result, clean, and without the secrets that the call used; a large one has to be awaited."""
        result, redactor = checked.result, checked.redactor
        encoded = result.encoded
        if result.content or result.meta or encoded is None or not is_clean_json(encoded):
            result = _swept(result)
        if redactor is not None:
            if _size(result) > LARGE:
                return self._large(checked, result, redactor)
            result = _redacted(result, redactor)
        return _with_source(checked, result)

    async def _large(self, checked: Checked, result: Result, redactor: Redactor) -> Result:
        loop = asyncio.get_running_loop()
        return _with_source(checked, await loop.run_in_executor(self._thread, _redacted, result, redactor))


def _with_source(checked: Checked, result: Result) -> Result:
    return _marked(result, _source(checked.entry, result)) if checked.entry.tool.foreign else result


def _size(result: Result) -> int:
    """About how many bytes are searched."""
    size = len(result.encoded or b"")
    if result.content:
        size += sum(len(part) for block in result.content for part in _parts(block).values())
        size += sum(len(to_json(block.meta)) for block in result.content if block.meta)
    return size + len(to_json(result.meta)) if result.meta else size


def _swept(result: Result) -> Result:
    """Without what steers or hides; how many characters that were is told."""
    sweep = Sweep()
    encoded = result.encoded and sweep.json(result.encoded)
    text = result.text if encoded == result.encoded else result.text and Sweep().text(result.text)
    content = tuple(_swept_block(block, sweep) for block in result.content)
    meta = _swept_meta(result.meta, sweep)
    clean = _if_changed(result, Result(encoded, content, text, meta and _without_ours(meta), result.is_error))
    return _marked(clean, {REMOVED: sweep.removed}) if sweep.removed else clean


def _swept_block(block: Content, sweep: Sweep) -> Content:
    texts = {name: sweep.text(value) for name, value in _parts(block).items() if isinstance(value, str)}
    return _changed(block, {**texts, "notes": _swept_notes(block.notes, sweep), "meta": _swept_meta(block.meta, sweep)})


def _swept_notes(notes: Notes | None, sweep: Sweep) -> Notes | None:
    if notes is None or not isinstance(notes.last_modified, str):
        return notes
    return msgspec.structs.replace(notes, last_modified=sweep.text(notes.last_modified))


def _swept_meta(meta: JsonObject | None, sweep: Sweep) -> JsonObject | None:
    encoded = to_json(meta or {})
    return meta if is_clean_json(encoded) else msgspec.json.decode(sweep.json(encoded))


def _redacted(result: Result, redactor: Redactor) -> Result:
    encoded = result.encoded and redactor.json(result.encoded)
    if not (result.content or result.meta) and encoded == result.encoded:
        return result
    # The text is the value itself: what is hidden in the one is hidden in the other.
    text = result.text if encoded == result.encoded or not encoded else result.text and msgspec.json.decode(encoded)
    content = result.content
    # Looked at together: a secret may be spread over blocks.
    if content and redactor.finds(b"".join(map(_bytes, content))):
        content = tuple(_redacted_block(block, redactor) for block in content)
    content = tuple(_redacted_rest(block, redactor) for block in content)
    if content and encoded:
        content, encoded = _redacted_together(content, encoded, redactor)
    return _if_changed(result, Result(encoded, content, text, _redacted_meta(result.meta, redactor), result.is_error))


def _redacted_together(
    content: tuple[Content, ...], encoded: bytes, redactor: Redactor
) -> tuple[tuple[Content, ...], bytes]:
    """A secret may be spread over content and value, whichever is read first."""
    value = msgspec.json.decode(encoded)
    texts: list[Json] = [part for block in content for part in _texts(block).values()]
    if not redactor.spread([texts, value]) and not redactor.spread([value, texts]):
        return content, encoded
    texts, value = redactor.value([texts, value])
    value, texts = redactor.value([value, texts])
    left = iter(texts)
    blocks = tuple(_changed(block, {name: next(left) for name in _texts(block)}) for block in content)
    return blocks, to_json(value)


def _texts(block: Content) -> JsonObject:
    return {name: part for name, part in _parts(block).items() if name in _CARRIED and isinstance(part, str)}


def _redacted_block(block: Content, redactor: Redactor) -> Content:
    carried = {name: value for name, value in _parts(block).items() if name in _CARRIED}
    hidden = {
        name: redactor.next(value) if isinstance(value, str) else redactor.data(value)
        for name, value in carried.items()
    }
    return _changed(block, hidden)


def _redacted_rest(block: Content, redactor: Redactor) -> Content:
    rest = {name: redactor.text(value) for name, value in _parts(block).items() if name not in _CARRIED}
    return _changed(block, {**rest, "meta": _redacted_meta(block.meta, redactor)})


def _redacted_meta(meta: JsonObject | None, redactor: Redactor) -> JsonObject | None:
    if not meta:
        return meta
    encoded = to_json(meta)
    hidden = redactor.json(encoded)
    return meta if hidden == encoded else msgspec.json.decode(hidden)


def _source(entry: Entry, result: Result) -> JsonObject:
    """Whose words these are; and how many pictures in them lead elsewhere, which are not touched."""
    carried = [part for block in result.content for name, part in _parts(block).items() if name in _CARRIED]
    texts = [result.text or (result.encoded or b"").decode(), *(part for part in carried if isinstance(part, str))]
    pictures = sum(len(_PICTURE.findall(text)) for text in texts)
    source = {SOURCE: {"tool": entry.id, "trust": "foreign"}}
    return {**source, LINKS: pictures} if pictures else source


def _marked(result: Result, notes: JsonObject) -> Result:
    return msgspec.structs.replace(result, meta={**(result.meta or {}), **notes})


def _without_ours(meta: JsonObject) -> JsonObject:
    return {key: value for key, value in meta.items() if not key.startswith(OURS)}


def _parts(block: Content) -> JsonObject:
    """Its texts and bytes, by the names of its fields."""
    named = ((name, getattr(block, name)) for name in block.__struct_fields__)
    return {name: value for name, value in named if isinstance(value, str | bytes)}


def _bytes(block: Content) -> bytes:
    carried: list[Json] = [value for name, value in _parts(block).items() if name in _CARRIED]
    return b"".join(value.encode() if isinstance(value, str) else value for value in carried)


def _changed(block: Content, parts: JsonObject) -> Content:
    """The same object where nothing has changed."""
    same = all(getattr(block, name) == value for name, value in parts.items())
    return block if same else msgspec.structs.replace(block, **parts)


def _if_changed(before: Result, after: Result) -> Result:
    return before if before == after else after
