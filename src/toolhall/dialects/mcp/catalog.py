"""MCP tool definitions: read_tool and write_tool, with the output schema of each revision; members of every definition.

Definitions of resources and prompts are beside this module; McpCatalog in definitions.py reads and writes all three.
"""

import re

import msgspec

from toolhall.dialects.base import DEPRECATED_KEY
from toolhall.dialects.findings import DocumentReader, is_version
from toolhall.dialects.mcp.protocol import Revision
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.names import DEFAULT_VERSION, ToolId, published_name, safe_name, with_published_name
from toolhall.model.tool import LEVELS, Annotations, Deprecation, Icon, Output, Tool

WRAPPER_KEY = "result"
_PLAIN_TEXT = {"type": "string"}
_ROOT_KEYWORDS = ("$schema", "$id", "$defs", "definitions")
ID_KEY = "dev.toolhall/id"
NAME_KEY = "dev.toolhall/name"  # the published name, where it does not follow from the id
LEVEL_KEY = "dev.toolhall/level"
TAGS_KEY = "dev.toolhall/tags"
HINT_NAMES = {
    "title": "title",
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}
_TOOLHALL_KEYS = frozenset({ID_KEY, NAME_KEY, LEVEL_KEY, TAGS_KEY, DEPRECATED_KEY})
_ID_PATTERN = re.compile(r"([^@]+?)\.([^@.]+)@(.+)")


def read_tool(document: Json) -> Tool:
    """Read one definition; raises BadDocument with every finding."""
    reader = DocumentReader("mcp")
    document = reader.object(document, "")
    tool = Tool(
        **read_common(reader, document),
        input=_read_input(reader, document),
        output=_read_output(reader, document),
        annotations=_read_annotations(reader, document),
    )
    reader.raise_findings()
    return tool


def read_common(reader: DocumentReader, document: JsonObject) -> JsonObject:
    """The fields of Tool that the definitions of tools, resources and prompts state alike."""
    # MCP only advises against spaces and non-ASCII letters in names; such a tool is published under a safe name.
    stated = reader.string(document, "name", "") or ""
    name = safe_name(stated)
    meta = document.get("_meta")
    meta = None if meta is None else reader.object(meta, "/_meta")
    ours = _TOOLHALL_KEYS.intersection(meta) if meta else None
    return {
        "id": _read_id(reader, name, meta) if meta and ours else id_from_name(name),
        "name": name,
        "stated": stated if stated != name else None,
        "title": reader.string(document, "title", "", required=False),
        "description": reader.string(document, "description", "", required=False),
        "icons": _read_icons(reader, document) if document.get("icons") is not None else (),
        "tags": reader.strings(meta[TAGS_KEY], _meta_pointer(TAGS_KEY)) if meta and TAGS_KEY in meta else (),
        "meta": _author_meta(meta) if meta and ours else meta,
        "level": _read_level(reader, meta) if meta and LEVEL_KEY in meta else None,
        "deprecation": _read_deprecation(reader, meta) if meta and DEPRECATED_KEY in meta else None,
    }


def write_tool(tool: Tool, revision: Revision) -> JsonObject:
    """Write one definition for this revision."""
    document: JsonObject = {"name": tool.name}
    if tool.title is not None:
        document["title"] = tool.title
    if tool.description is not None:
        document["description"] = tool.description
    document["inputSchema"] = tool.input
    form = output_form(tool, revision)
    if (published := form.published) is not None:
        document["outputSchema"] = published
    if tool.annotations is not None:
        document["annotations"] = _write_annotations(tool.annotations)
    write_icons_and_meta(tool, revision, document)
    return document


def write_icons_and_meta(tool: Tool, revision: Revision, document: JsonObject) -> None:
    """Add the icons, and `_meta` with the author's members and Toolhall's own, to a definition."""
    if tool.task is not None and revision.core_tasks:
        document["execution"] = {"taskSupport": "required" if tool.task.required else "optional"}
    if tool.icons and revision.icons:
        document["icons"] = [_write_icon(icon) for icon in tool.icons]
    meta = dict(tool.meta or {})
    # Leave out an id that would be read back as a different one.
    if tool.id != id_from_name(tool.name) and parse_tool_id(stated := str(tool.id)) == tool.id:
        meta[ID_KEY] = stated
        is_file = tool.resource is not None and tool.resource.template is not None  # whose name is its path
        if id_for_name(tool.id, tool.name) != tool.id and not is_file:
            meta[NAME_KEY] = tool.name
    if tool.level is not None:
        meta[LEVEL_KEY] = tool.level
    if tool.tags:
        meta[TAGS_KEY] = list(tool.tags)
    if tool.deprecation is not None:
        meta[DEPRECATED_KEY] = msgspec.to_builtins(tool.deprecation)
    if meta or tool.meta is not None:
        document["_meta"] = meta


def id_from_name(name: str) -> ToolId:
    """The id of a tool whose definition states none."""
    return ToolId(name, name, DEFAULT_VERSION)


def parse_tool_id(text: Json) -> ToolId | None:
    """Parse `Toolkit.tool@1.2.0`; None if it is not an id."""
    match = _ID_PATTERN.fullmatch(text) if isinstance(text, str) else None
    return ToolId(match[1], match[2], match[3]) if match and is_version(match[3]) else None


def id_for_name(stated: ToolId, name: str) -> ToolId:
    """The stated id if it fits the name; otherwise the tool was renamed, and the name wins."""
    return stated if published_name(stated.toolkit, stated.tool) == name else with_published_name(stated, name)


def _author_meta(meta: JsonObject) -> JsonObject | None:
    """The metadata without Toolhall's own members."""
    return {key: value for key, value in meta.items() if key not in _TOOLHALL_KEYS} or None


def _read_level(reader: DocumentReader, meta: JsonObject) -> int | None:
    level = meta[LEVEL_KEY]
    if type(level) is not int or level not in LEVELS:
        reader.add_error(_meta_pointer(LEVEL_KEY), "level", "give a whole number from 0 to 10")
        return None
    return level


def _read_deprecation(reader: DocumentReader, meta: JsonObject) -> Deprecation:
    path = _meta_pointer(DEPRECATED_KEY)
    members = reader.object(meta[DEPRECATED_KEY], path)
    since = members.get("since")
    if since is not None and type(since) is not int:
        reader.add_error(f"{path}/since", "since", "give seconds since 1970")
    return Deprecation(
        since=since if isinstance(since, int) else None,
        sunset=reader.string(members, "sunset", path, required=False),
        successor=reader.string(members, "successor", path, required=False),
    )


def _read_id(reader: DocumentReader, name: str, meta: JsonObject) -> ToolId:
    tool_id = parse_tool_id(meta.get(ID_KEY))
    if tool_id is None and ID_KEY in meta:
        reader.add_error(_meta_pointer(ID_KEY), "id", "write Toolkit.tool@1.2.0, or leave it out")
    if tool_id is None:
        return id_from_name(name)
    return tool_id if meta.get(NAME_KEY) == name else id_for_name(tool_id, name)


def _meta_pointer(key: str) -> str:
    return f"/_meta/{escape_pointer(key)}"


def _read_input(reader: DocumentReader, document: JsonObject) -> JsonObject:
    schema = document.get("inputSchema")
    if not isinstance(schema, dict):
        reader.add_error("/inputSchema", "missing", 'give the input schema as an object, {"type": "object"} at least')
        return {"type": "object"}
    if schema.get("type") != "object":
        reader.add_error("/inputSchema/type", "root", 'the root of an input schema has the type "object"')
    return schema


def _read_output(reader: DocumentReader, document: JsonObject) -> Output:
    if document.get("outputSchema") is None:
        return Output()
    return Output("schema", reader.object(document["outputSchema"], "/outputSchema"))


def _read_annotations(reader: DocumentReader, document: JsonObject) -> Annotations | None:
    if document.get("annotations") is None:
        return None
    stated = reader.object(document["annotations"], "/annotations")
    known = {field: stated.get(hint) for field, hint in HINT_NAMES.items()}
    for field, value in known.items():
        if not (value is None or isinstance(value, str if field == "title" else bool)):
            reader.add_error(f"/annotations/{HINT_NAMES[field]}", "hint", "write true or false (a text for the title)")
    return Annotations(**known)


def _read_icons(reader: DocumentReader, document: JsonObject) -> tuple[Icon, ...]:
    icons: list[Icon] = []
    for index, item in enumerate(reader.array(document["icons"], "/icons")):
        path = f"/icons/{index}"
        icon = reader.object(item, path)
        sizes, theme = icon.get("sizes"), reader.string(icon, "theme", path, required=False)
        icons.append(
            Icon(
                src=reader.string(icon, "src", path) or "",
                mime_type=reader.string(icon, "mimeType", path, required=False),
                sizes=None if sizes is None else reader.strings(sizes, f"{path}/sizes"),
                theme=theme,
            )
        )
    return tuple(icons)


def _write_annotations(annotations: Annotations) -> JsonObject:
    stated = ((hint, getattr(annotations, field)) for field, hint in HINT_NAMES.items())
    return {hint: value for hint, value in stated if value is not None}


def _write_icon(icon: Icon) -> JsonObject:
    sizes = None if icon.sizes is None else list(icon.sizes)
    stated = (("src", icon.src), ("mimeType", icon.mime_type), ("sizes", sizes), ("theme", icon.theme))
    return {key: value for key, value in stated if value is not None}


class OutputForm(msgspec.Struct, frozen=True):
    """The tool's output schema (None: none), and whether a value is sent as structured content, and wrapped."""

    schema: JsonObject | None
    structured: bool
    wrapped: bool = False

    @property
    def published(self) -> JsonObject | None:
        """The output schema that clients see."""
        return _wrapped_schema(self.schema) if self.wrapped and self.schema is not None else self.schema


_NO_OUTPUT = OutputForm(None, structured=False)
_UNDECLARED_OUTPUT = OutputForm(None, structured=True)


def output_form(tool: Tool, revision: Revision) -> OutputForm:
    """How results are sent: decided from the tool's declaration, never from the shape of a value."""
    schema = tool.output.schema
    if tool.output.kind == "none" or schema == _PLAIN_TEXT:
        return _NO_OUTPUT  # plain text is sent once, as a text block
    if schema is None:
        return _UNDECLARED_OUTPUT
    if revision.any_output or schema.get("type") == "object":
        return OutputForm(schema, structured=True)
    # MCP 2025-06-18 and 2025-11-25: the root of an output schema must be an object.
    return OutputForm(schema, structured=True, wrapped=True)


def _wrapped_schema(schema: JsonObject) -> JsonObject:
    """An object schema that holds the value; keywords of the document's root stay at the root."""
    inner = {key: _rebased(part, key) for key, part in schema.items() if key not in _ROOT_KEYWORDS}
    outer = {key: _rebased(part, key) for key, part in schema.items() if key in _ROOT_KEYWORDS}
    return {"type": "object", "properties": {WRAPPER_KEY: inner}, "required": [WRAPPER_KEY], **outer}


def _rebased(part: Json, key: str) -> Json:
    """Prefix references whose target moved into the wrapper."""
    match part:
        case str() if key in ("$ref", "$dynamicRef", "$recursiveRef") and part.partition("/")[0] == "#":
            stays = part.startswith(tuple(f"#/{name}/" for name in _ROOT_KEYWORDS))
            return part if stays else f"#/properties/{WRAPPER_KEY}{part[1:]}"
        case dict():
            return {name: _rebased(value, name) for name, value in part.items()}
        case list():
            return [_rebased(value, "") for value in part]
        case _:
            return part
