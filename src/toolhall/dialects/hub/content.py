"""Content blocks, questions and answers in the messages between a hall and a tool server."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec

from toolhall.model.content import Audio, Content, Image, Notes, Resource, ResourceLink, Text
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Answered, Filled, Form, Question, Rooted, Roots, Sample, Sampled, Visit

_QUESTION_TYPES: dict[str, type] = {"form": Form, "visit": Visit, "sample": Sample, "roots": Roots}
_ANSWER_TYPES: dict[str, type] = {"filled": Filled, "sampled": Sampled, "rooted": Rooted}
_KIND_NAMES = {kind: name for name, kind in (_QUESTION_TYPES | _ANSWER_TYPES).items()}


class _Notes(msgspec.Struct, rename="camel"):
    audience: tuple[Any, ...] | None = None
    priority: float | None = None
    last_modified: str | None = None


class _Embedded(msgspec.Struct, rename="camel"):
    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class _Block(msgspec.Struct, rename="camel"):
    """Every member that a block may have; which of them are required depends on its type."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    size: int | None = None
    resource: _Embedded | None = None
    annotations: _Notes | None = None
    meta: JsonObject | None = msgspec.field(default=None, name="_meta")


def read_blocks(listed: list[Json]) -> tuple[Content, ...]:
    """Read content blocks in MCP's form; raises Malformed for anything else."""
    try:
        return tuple(_read_block(msgspec.convert(each, _Block)) for each in listed)
    except (msgspec.ValidationError, binascii.Error, ValueError) as error:
        raise Malformed(f"a block of content cannot be read: {error}") from None


def _read_block(block: _Block) -> Content:
    notes, meta = _notes(block.annotations), block.meta
    match block.type:
        case "text":
            return Text(block.text, notes, meta)
        case "image":
            return Image(_decode_base64(block.data), block.mime_type or "image/png", notes, meta)
        case "audio":
            return Audio(_decode_base64(block.data), block.mime_type or "audio/wav", notes, meta)
        case "resource_link":
            stated = {
                name: getattr(block, name) for name in ("uri", "name", "title", "description", "mime_type", "size")
            }
            return ResourceLink(**stated, notes=notes, meta=meta)
        case "resource" if block.resource is not None:
            inner = block.resource
            content = _decode_base64(inner.blob) if inner.blob is not None else inner.text or ""
            return Resource(uri=inner.uri, content=content, mime_type=inner.mime_type, notes=notes, meta=meta)
        case _:
            raise ValueError(f"there is no block of type {block.type[:32]!r}")


def _notes(stated: _Notes | None) -> Notes | None:
    return None if stated is None else msgspec.convert(msgspec.structs.asdict(stated), Notes)


def _decode_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def write_questions_or_answers(values: Mapping[str, Question] | Mapping[str, Answered]) -> JsonObject:
    """Encode questions, or the answers to them, by their keys."""
    return {key: {"kind": _KIND_NAMES[type(value)], **msgspec.to_builtins(value)} for key, value in values.items()}


def read_questions(stated: Mapping[str, Json]) -> dict[str, Question]:
    """Decode questions; raises Malformed for anything else."""
    return _read_by_kind(stated, _QUESTION_TYPES)


def read_answers(stated: Mapping[str, Json]) -> dict[str, Answered]:
    """Decode answers; raises Malformed for anything else."""
    return _read_by_kind(stated, _ANSWER_TYPES)


def _read_by_kind(stated: Mapping[str, Json], kinds: Mapping[str, type]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in stated.items():
        kind = kinds.get(str(value.get("kind"))) if isinstance(value, dict) else None
        if kind is None:
            raise Malformed(f"{key[:64]!r} must be an object whose kind is one of {', '.join(kinds)}")
        try:
            values[key] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise Malformed(f"{key[:64]!r} cannot be read: {error}") from None
    return values
