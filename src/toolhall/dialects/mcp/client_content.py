"""Reads content blocks of an MCP server: text, image, audio, resource link and embedded resource.

Members that are not known are dropped. A block of an unknown kind, or one that cannot be read, becomes its JSON as
text, so that the model sees that there was something.
"""

import base64
import binascii

from toolhall.dialects.mcp.client_messages import number_or_none
from toolhall.dialects.mcp.client_requests import is_protocol_meta_key
from toolhall.model.content import Audience, Audio, Content, Image, Notes, Resource, ResourceLink, Text
from toolhall.model.json import Json, JsonObject, encode

_MEDIA: dict[str, type[Image | Audio]] = {"image": Image, "audio": Audio}


def read_block(block: Json, unknown: list[str]) -> Content:
    """Read one block; the kind of one that becomes text is appended to `unknown`."""
    content = _read_known(block) if isinstance(block, dict) else None
    if content is not None:
        return content
    kind = block.get("type") if isinstance(block, dict) else None
    unknown.append(kind[:64] if isinstance(kind, str) else "")
    return Text(encode(block).decode())


def _read_known(block: JsonObject) -> Content | None:
    """The block, or None if it is of no known kind or lacks what its kind needs."""
    if len(block) == 2 and block.get("type") == "text" and type(text := block.get("text")) is str:
        return Text(text)  # as nearly all are
    notes, meta = read_notes(block.get("annotations")), read_meta(block.get("_meta"))
    content: Content | None = None
    match block:
        case {"type": "text", "text": str(text)}:
            content = Text(text, notes, meta)
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(mime_type)}:
            decoded = _decode_base64(data)
            if decoded is not None:
                content = _MEDIA[kind](decoded, mime_type, notes, meta)
        case {"type": "resource_link", "uri": str(uri)}:
            content = _read_link(block, uri, notes, meta)
        case {"type": "resource", "resource": dict(resource)}:
            content = read_resource(resource, notes, meta)
        case _:
            pass
    return content


def _read_link(block: JsonObject, uri: str, notes: Notes | None, meta: JsonObject | None) -> ResourceLink:
    size = block.get("size")
    return ResourceLink(
        uri=uri,
        name=_text(block.get("name")) or uri,
        title=_text(block.get("title")),
        description=_text(block.get("description")),
        mime_type=_text(block.get("mimeType")),
        size=size if type(size) is int and size >= 0 else None,
        notes=notes,
        meta=meta,
    )


def read_resource(wire: JsonObject, notes: Notes | None, meta: JsonObject | None) -> Resource | None:
    """The text or the bytes of a resource; None if it has no URI or neither of both."""
    uri, text, blob = wire.get("uri"), wire.get("text"), wire.get("blob")
    content = text if isinstance(text, str) else _decode_base64(blob) if isinstance(blob, str) else None
    if not isinstance(uri, str) or content is None:
        return None
    return Resource(uri=uri, content=content, mime_type=_text(wire.get("mimeType")), notes=notes, meta=meta)


def read_notes(wire: Json) -> Notes | None:
    """Annotations; members that are not as they should be are left out."""
    if not isinstance(wire, dict):
        return None
    stated, priority = wire.get("audience"), number_or_none(wire.get("priority"))
    audience: tuple[Audience, ...] | None = None
    if isinstance(stated, list):
        audience = tuple(each for each in stated if each in ("user", "assistant"))
    notes = Notes(
        audience=audience,
        priority=priority if priority is not None and 0 <= priority <= 1 else None,
        last_modified=_text(wire.get("lastModified")),
    )
    return None if notes == Notes() else notes


def read_meta(wire: Json) -> JsonObject | None:
    """`_meta` without the members of the protocol, which say nothing beyond the server that wrote them."""
    if not isinstance(wire, dict):
        return None
    return {key: value for key, value in wire.items() if not is_protocol_meta_key(key)} or None


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _decode_base64(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
