"""A call's result for dialects that know values only: blocks of content become text and data URIs."""

import base64

from toolhall.model.content import Audio, Content, Image, Resource, ResourceLink, Text
from toolhall.model.exchange import Finished
from toolhall.model.json import encode

NOTHING = b"null"


def value_of(finished: Finished) -> bytes:
    """The value as JSON; `null` for a tool that returned nothing."""
    result = finished.result
    if result.encoded is not None:
        return result.encoded
    parts = [_text(block) for block in result.content]
    if not parts:
        return NOTHING
    return encode(parts[0] if len(parts) == 1 else parts)


def object_of(finished: Finished) -> bytes:
    """The value as a JSON object: what is not declared as one is wrapped, whatever it looks like."""
    output = finished.tool.output
    if output.kind == "none":
        return b"{}"
    value = value_of(finished)
    if output.schema is not None and output.schema.get("type") == "object":
        return value
    # What a tool server declares in the hub's own words returns objects, and nobody has to say so.
    if finished.tool.foreign and output.kind == "unstated" and value.startswith(b"{"):
        return value
    return b'{"result":' + value + b"}"


def text_of(finished: Finished) -> str:
    """What a failed result says, as one text."""
    return "\n".join(_text(block) for block in finished.result.content) or "the tool failed"


def _text(block: Content) -> str:
    match block:
        case Text(text):
            return text
        case Image(data, mime_type) | Audio(data, mime_type):
            return _data_uri(data, mime_type)
        case ResourceLink():
            return block.uri
        case Resource(content=str(text)):
            return text
        case Resource(content=bytes(data)):
            return _data_uri(data, block.mime_type or "application/octet-stream")
        case _:
            raise TypeError(f"{type(block).__name__} is not a block of content")


def _data_uri(data: bytes, mime_type: str) -> str:
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
