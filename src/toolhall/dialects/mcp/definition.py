"""Reads MCP tool definitions; the three revisions differ only in what they may say."""

import re

from toolhall.dialects.findings import Reading
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import DEFAULT_VERSION, ToolId, safe_name
from toolhall.model.tool import LEVELS, Annotations, Icon, Output, Tool

ID_KEY = "dev.toolhall/id"
LEVEL_KEY = "dev.toolhall/level"
TAGS_KEY = "dev.toolhall/tags"
HINTS = {
    "title": "title",
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
_ID = re.compile(r"([^@]+?)\.([^@.]+)@(.+)")


def derived_id(name: str) -> ToolId:
    """The id of a tool of which MCP says nothing but its name."""
    return ToolId(name, name, DEFAULT_VERSION)


def read_tool(document: Json) -> Tool:
    """The tool of one definition; BadDocument with every finding."""
    reading = Reading("mcp")
    document = reading.object(document, "")
    # MCP only advises against spaces and other scripts in names: such a tool is published under a safe one.
    name = safe_name(reading.text(document, "name", "") or "")
    meta = document.get("_meta")
    meta = None if meta is None else reading.object(meta, "/_meta")
    tags = (meta or {}).get(TAGS_KEY)
    tool = Tool(
        id=_id(name, meta),
        name=name,
        title=reading.text(document, "title", "", required=False),
        description=reading.text(document, "description", "", required=False),
        input=_input(reading, document),
        output=_output(reading, document),
        annotations=_annotations(reading, document),
        icons=_icons(reading, document),
        tags=tuple(tags) if isinstance(tags, list) else (),
        meta=_own(meta),
        level=_level(meta),
    )
    reading.done()
    return tool


def _own(meta: JsonObject | None) -> JsonObject | None:
    """Metadata that is the author's, not ours."""
    if meta is None:
        return None
    own = {key: value for key, value in meta.items() if key not in (ID_KEY, LEVEL_KEY, TAGS_KEY)}
    return own if own or not meta else None


def _level(meta: JsonObject | None) -> int | None:
    level = (meta or {}).get(LEVEL_KEY)
    return level if type(level) is int and level in LEVELS else None


def _id(name: str, meta: JsonObject | None) -> ToolId:
    stated = (meta or {}).get(ID_KEY)
    found = _ID.fullmatch(stated) if isinstance(stated, str) else None
    return ToolId(found[1], found[2], found[3]) if found else derived_id(name)


def _input(reading: Reading, document: JsonObject) -> JsonObject:
    schema = document.get("inputSchema")
    if not isinstance(schema, dict):
        reading.fault("/inputSchema", "missing", 'give the input schema as an object, {"type": "object"} at least')
        return {"type": "object"}
    if schema.get("type") != "object":
        reading.fault("/inputSchema/type", "root", 'the root of an input schema has the type "object"')
    return schema


def _output(reading: Reading, document: JsonObject) -> Output:
    if document.get("outputSchema") is None:
        return Output()
    return Output("schema", reading.object(document["outputSchema"], "/outputSchema"))


def _annotations(reading: Reading, document: JsonObject) -> Annotations | None:
    if document.get("annotations") is None:
        return None
    stated = reading.object(document["annotations"], "/annotations")
    known = {field: stated.get(hint) for field, hint in HINTS.items()}
    for field, value in known.items():
        if not (value is None or isinstance(value, str if field == "title" else bool)):
            reading.fault(f"/annotations/{HINTS[field]}", "hint", "write true or false (a text for the title)")
    return Annotations(**known)


def _icons(reading: Reading, document: JsonObject) -> tuple[Icon, ...]:
    found = []
    for index, listed in enumerate(reading.items(document.get("icons", []), "/icons")):
        icon = reading.object(listed, f"/icons/{index}")
        src = reading.text(icon, "src", f"/icons/{index}")
        sizes = icon.get("sizes")
        found.append(
            Icon(
                src=src or "",
                mime_type=icon.get("mimeType"),
                sizes=tuple(sizes) if isinstance(sizes, list) else None,
                theme=icon.get("theme"),
            )
        )
    return tuple(found)
