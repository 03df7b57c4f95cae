"""What a resource reads and what a prompt says: functions that turn return values into Results.

A resource returns text, bytes, a value (as JSON), a Resource or several. None, and an empty list, mean that there is no
such resource. A prompt returns text, blocks, or Messages.
"""

from collections.abc import Callable

import msgspec

from toolhall.model.content import Audio, Image, Message, Resource, ResourceLink, Result, Text
from toolhall.model.errors import BadOutput
from toolhall.model.json import JsonObject
from toolhall.model.page import PAGE_META, PAGE_SCHEME, PAGE_TYPE
from toolhall.model.tool import Tool
from toolhall.pipeline.find import not_found
from toolhall.registry.snapshot import Entry

JSON_TYPE = "application/json"


def text_result(text: str, entry: Entry, uri: str | None) -> Result:
    """Return the text that a resource or a prompt returned."""
    info = entry.tool.resource
    if info is None:
        return Result(None, (Text(text),), roles=("user",))
    meta = None if entry.tool.meta is None else _page_meta(entry.tool)
    return Result(None, (Resource(uri=uri or info.uri, content=text, mime_type=info.mime_type, meta=meta),))


def resource_result(value: object, entry: Entry, uri: str, write_json: Callable[[object], bytes]) -> Result:
    """Return the contents of a resource; raises NotFound if there is none by this URI."""
    if value is None:
        raise not_found("resource", uri)
    declared = None if entry.tool.resource is None else entry.tool.resource.mime_type
    meta = None if entry.tool.meta is None else _page_meta(entry.tool)
    if isinstance(value, bytes):
        return Result(None, (Resource(uri=uri, content=value, mime_type=declared, meta=meta),))
    if isinstance(value, Resource):
        return Result(None, (value if meta is None else _with_meta(value, meta),))
    if isinstance(value, list | tuple) and all(isinstance(part, Resource) for part in value):
        if not value:
            raise not_found("resource", uri)
        return Result(None, tuple(value))
    text = write_json(value).decode()
    return Result(None, (Resource(uri=uri, content=text, mime_type=declared or JSON_TYPE),))


def _page_meta(tool: Tool) -> JsonObject | None:
    """Return what a page states about itself, which MCP Apps repeats in what is read; None for other resources."""
    if tool.meta is None or tool.resource is None or not tool.resource.uri.startswith(PAGE_SCHEME):
        return None
    return {PAGE_META: tool.meta[PAGE_META]} if PAGE_META in tool.meta else None


def _with_meta(page: Resource, meta: JsonObject) -> Resource:
    """Return a page that the author built, with what its declaration states; its own words win."""
    mime_type = PAGE_TYPE if page.mime_type is None else page.mime_type
    return msgspec.structs.replace(page, mime_type=mime_type, meta={**meta, **(page.meta or {})})


def prompt_result(value: object) -> Result:
    """Return the messages of a prompt; what is no Message is said by the user."""
    parts = value if isinstance(value, list | tuple) else [value]
    messages = [_message(part) for part in parts]
    if not messages:
        raise BadOutput("the prompt returned no message")
    return Result(None, tuple(each.content for each in messages), roles=tuple(each.role for each in messages))


def _message(part: object) -> Message:
    match part:
        # Structs are not checked when an author makes them.
        case Message(role="user" | "assistant", content=Text() | Image() | Audio() | ResourceLink() | Resource()):
            return part
        case str():
            return Message("user", Text(part))
        case Text() | Image() | Audio() | ResourceLink() | Resource():
            return Message("user", part)
        case _:
            raise BadOutput("the prompt returned something other than text, blocks of content and Messages")
