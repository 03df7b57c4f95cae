"""Reads MCP tool definitions; the three revisions differ only in what they may say."""

import re

from toolhall.dialects.catalog import DEPRECATED_KEY
from toolhall.dialects.findings import Reading, is_version
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import DEFAULT_VERSION, ToolId, published_name, renamed, safe_name
from toolhall.model.patch import escape
from toolhall.model.tool import LEVELS, Annotations, Deprecation, Icon, Output, Tool

ID_KEY = "dev.toolhall/id"
NAME_KEY = "dev.toolhall/name"  # the published name that the id goes with, where it does not follow from the id
LEVEL_KEY = "dev.toolhall/level"
TAGS_KEY = "dev.toolhall/tags"
HINTS = {
    "title": "title",
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
_OURS = frozenset({ID_KEY, NAME_KEY, LEVEL_KEY, TAGS_KEY, DEPRECATED_KEY})
_ID = re.compile(r"([^@]+?)\.([^@.]+)@(.+)")


def derived_id(name: str) -> ToolId:
    """The id of a tool of which MCP says nothing but its name."""
    return ToolId(name, name, DEFAULT_VERSION)


def stated_id(text: Json) -> ToolId | None:
    """The id that a text states, as our metadata does; None if it states none."""
    found = _ID.fullmatch(text) if isinstance(text, str) else None
    return ToolId(found[1], found[2], found[3]) if found and is_version(found[3]) else None


def id_for(stated: ToolId, name: str) -> ToolId:
    """The stated id, if it goes with this name; else somebody renamed the tool since, and the name wins."""
    return stated if published_name(stated.toolkit, stated.tool) == name else renamed(stated, name)


def read_tool(document: Json) -> Tool:
    """The tool of one definition; BadDocument with every finding."""
    reading = Reading("mcp")
    document = reading.object(document, "")
    # MCP only advises against spaces and other scripts in names: such a tool is published under a safe one.
    stated = reading.text(document, "name", "") or ""
    name = safe_name(stated)
    meta = document.get("_meta")
    meta = None if meta is None else reading.object(meta, "/_meta")
    ours = _OURS.intersection(meta) if meta else None
    tool = Tool(
        id=_id(reading, name, meta) if meta and ours else derived_id(name),
        name=name,
        stated=stated if stated != name else None,
        title=reading.text(document, "title", "", required=False),
        description=reading.text(document, "description", "", required=False),
        input=_input(reading, document),
        output=_output(reading, document),
        annotations=_annotations(reading, document),
        icons=_icons(reading, document) if document.get("icons") is not None else (),
        tags=reading.texts(meta[TAGS_KEY], _place(TAGS_KEY)) if meta and TAGS_KEY in meta else (),
        meta=_own(meta) if meta and ours else meta,
        level=_level(reading, meta) if meta and LEVEL_KEY in meta else None,
        deprecation=_deprecation(reading, meta) if meta and DEPRECATED_KEY in meta else None,
    )
    reading.done()
    return tool


def _own(meta: JsonObject) -> JsonObject | None:
    """Metadata that is the author's, not ours."""
    return {key: value for key, value in meta.items() if key not in _OURS} or None


def _level(reading: Reading, meta: JsonObject) -> int | None:
    level = meta[LEVEL_KEY]
    if type(level) is not int or level not in LEVELS:
        reading.fault(_place(LEVEL_KEY), "level", "give a whole number from 0 to 10")
        return None
    return level


def _deprecation(reading: Reading, meta: JsonObject) -> Deprecation:
    path = _place(DEPRECATED_KEY)
    said = reading.object(meta[DEPRECATED_KEY], path)
    since = said.get("since")
    if since is not None and type(since) is not int:
        reading.fault(f"{path}/since", "since", "give seconds since 1970")
    return Deprecation(
        since=since if isinstance(since, int) else None,
        sunset=reading.text(said, "sunset", path, required=False),
        successor=reading.text(said, "successor", path, required=False),
    )


def _id(reading: Reading, name: str, meta: JsonObject) -> ToolId:
    found = stated_id(meta.get(ID_KEY))
    if found is None and ID_KEY in meta:
        reading.fault(_place(ID_KEY), "id", "write Toolkit.tool@1.2.0, or leave it out")
    if found is None:
        return derived_id(name)
    return found if meta.get(NAME_KEY) == name else id_for(found, name)


def _place(key: str) -> str:
    return f"/_meta/{escape(key)}"


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
    found: list[Icon] = []
    for index, listed in enumerate(reading.items(document["icons"], "/icons")):
        path = f"/icons/{index}"
        icon = reading.object(listed, path)
        sizes, theme = icon.get("sizes"), reading.text(icon, "theme", path, required=False)
        found.append(
            Icon(
                src=reading.text(icon, "src", path) or "",
                mime_type=reading.text(icon, "mimeType", path, required=False),
                sizes=None if sizes is None else reading.texts(sizes, f"{path}/sizes"),
                theme=theme,
            )
        )
    return tuple(found)
