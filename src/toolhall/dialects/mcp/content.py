"""Encodes content blocks as MCP JSON: text, image, audio, resource link and embedded resource."""

from toolhall.dialects.error_details import encode_base64
from toolhall.model.content import Audio, Content, Image, Notes, Resource, ResourceLink, Text
from toolhall.model.json import Json, JsonObject


def write_block(block: Content) -> JsonObject:
    """Encode one block; absent members are left out."""
    match block:
        case Text():  # without a pattern for its fields, which would cost a lookup by name
            wire: JsonObject = {"type": "text", "text": block.text}
        case Image(data, mime_type):
            wire = {"type": "image", "data": encode_base64(data), "mimeType": mime_type}
        case Audio(data, mime_type):
            wire = {"type": "audio", "data": encode_base64(data), "mimeType": mime_type}
        case ResourceLink():
            wire = _resource_link(block)
        case Resource():
            wire = {"type": "resource", "resource": _embedded_resource(block)}
    if block.notes is not None:
        wire["annotations"] = write_annotations(block.notes)
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


def write_contents(resource: Resource) -> JsonObject:
    """Encode what was read of a resource: its text, or its bytes in base64."""
    wire = _embedded_resource(resource)
    if resource.meta is not None:
        wire["_meta"] = resource.meta
    return wire


def _embedded_resource(resource: Resource) -> JsonObject:
    wire: JsonObject = {"uri": resource.uri}
    if resource.mime_type is not None:
        wire["mimeType"] = resource.mime_type
    content = resource.content
    if isinstance(content, str):
        wire["text"] = content
    else:
        wire["blob"] = encode_base64(content)
    return wire


def write_annotations(notes: Notes) -> JsonObject:
    """Encode whom something is for, how important it is, and when it last changed."""
    audience = None if notes.audience is None else list(notes.audience)
    return _without_none((("audience", audience), ("priority", notes.priority), ("lastModified", notes.last_modified)))


def _without_none(stated: tuple[tuple[str, Json], ...]) -> JsonObject:
    return {key: value for key, value in stated if value is not None}
