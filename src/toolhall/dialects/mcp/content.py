"""Encodes content blocks as MCP JSON: text, image, audio, resource link and embedded resource."""

from toolhall.dialects.error_details import encode_base64
from toolhall.model.content import Audio, Content, Image, Notes, Resource, ResourceLink, Text
from toolhall.model.json import Json, JsonObject


def write_block(block: Content) -> JsonObject:
    """Encode one block; absent members are left out."""
    match block:
        case Text(text):
            wire: JsonObject = {"type": "text", "text": text}
        case Image(data, mime_type):
            wire = {"type": "image", "data": encode_base64(data), "mimeType": mime_type}
        case Audio(data, mime_type):
            wire = {"type": "audio", "data": encode_base64(data), "mimeType": mime_type}
        case ResourceLink():
            wire = _resource_link(block)
        case Resource():
            wire = {"type": "resource", "resource": _embedded_resource(block)}
    if block.notes is not None:
        wire["annotations"] = _annotations(block.notes)
    if block.meta is not None:
        wire["_meta"] = block.meta
    return wire


def _resource_link(link: ResourceLink) -> JsonObject:
    stated = (
        ("title", link.title),
        ("description", link.description),
        ("mimeType", link.mime_type),
        ("size", link.size),
    )
    return {"type": "resource_link", "uri": link.uri, "name": link.name} | _without_none(stated)


def _embedded_resource(resource: Resource) -> JsonObject:
    wire = {"uri": resource.uri} | _without_none((("mimeType", resource.mime_type),))
    if isinstance(resource.content, str):
        return wire | {"text": resource.content}
    return wire | {"blob": encode_base64(resource.content)}


def _annotations(notes: Notes) -> JsonObject:
    return _without_none(
        (("audience", notes.audience), ("priority", notes.priority), ("lastModified", notes.last_modified))
    )


def _without_none(stated: tuple[tuple[str, Json], ...]) -> JsonObject:
    return {key: value for key, value in stated if value is not None}
