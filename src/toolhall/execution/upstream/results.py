"""Results of upstreams: `read_call_result`, `read_contents`, `read_messages`, `read_completion`.

Content passes as it came. A block of an unknown kind becomes its JSON as text, unknown members of known blocks are left
out, and one block that cannot be read does not lose the others.
"""

import base64
import binascii
import logging
from typing import Any

import msgspec

from toolhall.model.content import Audio, Content, Image, Message, Notes, Reply, Resource, ResourceLink, Text, TextOnlyReply
from toolhall.model.errors import BadOutput, ToolFailed
from toolhall.model.json import Json, JsonObject
from toolhall.schema.validator import Validator

MAX_BLOCKS = 10_000
_PROTOCOL_META = "io.modelcontextprotocol/"
_OWN_META = "dev.toolhall/"
_EMPTY: tuple[msgspec.Raw, ...] = ()
_log = logging.getLogger("toolhall.upstreams")


class WireCallResult(msgspec.Struct, rename="camel"):
    """The result of `tools/call` in every revision, also one that is a question or a task."""

    content: tuple[msgspec.Raw, ...] = _EMPTY
    structured_content: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    is_error: bool = False
    meta: JsonObject | None = msgspec.field(default=None, name="_meta")
    result_type: str | None = None  # 2026-07-28
    input_requests: Json = None
    request_state: Json = None
    task: JsonObject | None = None  # 2025-11-25
    task_id: str | None = None  # 2026-07-28, the extension
    status: str | None = None
    poll_interval_ms: float | None = None


class _Block(msgspec.Struct, rename="camel"):
    """Every member that a block may have."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    size: int | None = None
    resource: "_Embedded | None" = None
    annotations: Json = None
    meta: JsonObject | None = msgspec.field(default=None, name="_meta")


class _Embedded(msgspec.Struct, rename="camel"):
    """The contents of a resource."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None
    meta: JsonObject | None = msgspec.field(default=None, name="_meta")


class _WireMessage(msgspec.Struct):
    role: Any
    content: msgspec.Raw


_decode_call = msgspec.json.Decoder(WireCallResult).decode
_decode_block = msgspec.json.Decoder(_Block).decode
_decode_json = msgspec.json.Decoder().decode


def decode_call_result(raw: bytes | msgspec.Raw) -> WireCallResult:
    """Decode a result; raises BadOutput."""
    try:
        result = _decode_call(raw)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadOutput("the upstream returned a result that cannot be read", detail=str(error)) from None
    if len(result.content) > MAX_BLOCKS:
        raise BadOutput(f"the upstream returned more than {MAX_BLOCKS} blocks of content")
    return result


def reply_of(result: WireCallResult, validator: Validator | None = None) -> Reply:
    """What a tool returned. With a validator (the upstream is `lenient`), a value that breaks it is left out."""
    blocks, meta = tuple(map(read_block, result.content)), foreign_meta(result.meta)
    if result.structured_content is msgspec.UNSET or bytes(result.structured_content) == b"null":
        return _without_value(result, blocks, meta, validator)
    if result.is_error:
        return Reply(blocks or (Text(bytes(result.structured_content).decode()),), meta=meta, is_error=True)
    value = _decode_json(result.structured_content)
    if validator is not None and not validator.accepts(value):
        return TextOnlyReply(blocks or (Text(bytes(result.structured_content).decode()),), meta=meta)
    return Reply(blocks, value, meta)


def _without_value(
    result: WireCallResult, blocks: tuple[Content, ...], meta: JsonObject | None, validator: Validator | None
) -> Reply:
    if result.is_error:
        return Reply(blocks or (Text(ToolFailed.message),), meta=meta, is_error=True)
    return Reply(blocks, meta=meta) if validator is None else TextOnlyReply(blocks, meta=meta)


def read_block(raw: bytes | msgspec.Raw) -> Content:
    """A block of content; what is unknown, or cannot be read, becomes its JSON as text."""
    try:
        return _known_block(_decode_block(raw)) or _as_text(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _as_text(raw)


def _known_block(block: _Block) -> Content | None:
    notes, meta = _notes(block.annotations), foreign_meta(block.meta)
    match block.type:
        case "text":
            return Text(block.text, notes, meta)
        case "image":
            return Image(_bytes_of(block.data), block.mime_type or "image/png", notes, meta)
        case "audio":
            return Audio(_bytes_of(block.data), block.mime_type or "audio/wav", notes, meta)
        case "resource_link":
            stated = {name: getattr(block, name) for name in ("uri", "title", "description", "mime_type", "size")}
            return ResourceLink(name=block.name or block.uri, **stated, notes=notes, meta=meta)
        case "resource" if block.resource is not None:
            return _resource(block.resource, notes, meta)
        case _:
            return None


def _resource(inner: _Embedded, notes: Notes | None, meta: JsonObject | None) -> Resource:
    content = _bytes_of(inner.blob) if inner.blob is not None else inner.text or ""
    meta = meta or foreign_meta(inner.meta)
    return Resource(uri=inner.uri, content=content, mime_type=inner.mime_type, notes=notes, meta=meta)


def _as_text(raw: bytes | msgspec.Raw) -> Text:
    _log.warning("an upstream returned a block of content of an unknown kind; it is passed on as text")
    return Text(bytes(raw).decode(errors="replace"))


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _notes(stated: Json) -> Notes | None:
    """The annotations of a block; those that are no annotations are left out."""
    if not isinstance(stated, dict):
        return None
    audience, priority, changed = (stated.get(name) for name in ("audience", "priority", "lastModified"))
    try:
        return msgspec.convert({"audience": audience, "priority": priority, "last_modified": changed}, Notes)
    except msgspec.ValidationError:
        return None


def foreign_meta(meta: JsonObject | None) -> JsonObject | None:
    """What an upstream says in `_meta`, without the keys of the protocol and of halls."""
    if not meta:
        return None
    return {key: each for key, each in meta.items() if not key.startswith((_PROTOCOL_META, _OWN_META))} or None


def read_contents(raw: bytes | msgspec.Raw, upstream_uri: str, uri: str) -> list[Resource]:
    """What a resource reads; what the upstream calls `upstream_uri` is known as `uri` here. Raises BadOutput."""
    try:
        listed = msgspec.json.decode(raw, type=_WireContents).contents
        read = [_resource(each, None, None) for each in listed]
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BadOutput("the upstream answered a read with something other than contents", detail=str(error)) from None
    return [msgspec.structs.replace(each, uri=uri) if each.uri == upstream_uri else each for each in read]


def read_messages(raw: bytes | msgspec.Raw) -> list[Message]:
    """What a prompt says; raises BadOutput."""
    try:
        listed = msgspec.json.decode(raw, type=_WireMessages).messages
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BadOutput("the upstream answered a prompt with something other than messages", detail=str(error)) from None
    if not listed or any(each.role not in ("user", "assistant") for each in listed):
        raise BadOutput("the upstream answered a prompt without messages of the user or the assistant")
    return [Message(each.role, read_block(each.content)) for each in listed]


def read_completion(raw: bytes | msgspec.Raw) -> list[str]:
    """The completions of an argument; none if they cannot be read, because a client only waits for help."""
    try:
        values = msgspec.json.decode(raw, type=_WireCompletion).completion.get("values")
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


class _WireContents(msgspec.Struct):
    contents: list[_Embedded]


class _WireMessages(msgspec.Struct):
    messages: list[_WireMessage]


class _WireCompletion(msgspec.Struct):
    completion: JsonObject
