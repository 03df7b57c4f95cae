"""Function-calling definitions of model APIs: what OpenAI, Anthropic and Gemini share, and the plain `function` dialect."""

import hashlib
import re
from collections.abc import Iterator
from operator import is_

from toolhall.dialects.base import Loss
from toolhall.dialects.findings import DocumentReader
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import MAX_NAME_LENGTH, ToolId, qualified_name, safe_name
from toolhall.model.tool import Tool, ToolkitInfo
from toolhall.model.versions import DEFAULT_VERSION
from toolhall.schema.adapt import AdaptedSchema

_UNSTATED_VERSION = "0.1.0"  # what a tool gets whose author states none
FUNCTION_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_LENGTH}}}")


def function_names(tools: tuple[Tool, ...], allowed: re.Pattern[str] = FUNCTION_NAME) -> list[str]:
    """The name of each tool, in their order, so that a call by name leads back to its tool; no two are equal.

    A name that the API refuses is changed and ends with a hash of the whole name: always the same, whatever else is
    listed. Only of two tools with one name (two versions of a tool) does the later one get a hash of its id.
    """
    names: dict[str, None] = {}
    for tool in tools:
        name = tool.name if allowed.fullmatch(tool.name) else _hashed_name(whole := original_name(tool), whole, allowed)
        if name in names:
            name = _hashed_name(name, str(tool.id), allowed)
        while name in names:  # the very same tool once more
            name = _hashed_name(name, name, allowed)
        names[name] = None
    return list(names)


def tools_by_name(tools: tuple[Tool, ...], allowed: re.Pattern[str] = FUNCTION_NAME) -> dict[str, Tool]:
    """The way back from a call: which of the tools a written name means, where all of them were written together."""
    return dict(zip(function_names(tools, allowed), tools, strict=True))


def original_name(tool: Tool) -> str:
    """What the tool is called where it was defined: its published name may be a changed one already."""
    whole = qualified_name(tool.id.toolkit, tool.id.tool)
    return tool.stated or (whole if safe_name(whole) == tool.name else tool.name)


def _hashed_name(name: str, whole: str, allowed: re.Pattern[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if not allowed.fullmatch(plain[:1]):
        plain = f"_{plain}"
    digest = hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:8]
    return f"{plain[: MAX_NAME_LENGTH - 9]}_{digest}"


def function_description(tool: Tool, notes: list[str]) -> str | None:
    """The tool's description, and below it what its schema cannot say."""
    parts = [tool.description or tool.title or "", " ".join(notes)]
    return "\n\n".join(part for part in parts if part) or None


def function_losses(tool: Tool, name: str, dialect: str) -> Iterator[Loss]:
    """What no definition of a function says: everything but name, description and parameters."""
    exact = original_name(tool)
    if name != exact:
        yield Loss("/name", f"{dialect} refuses this name, or it is taken; written as {name} for {exact[:128]!r}")
    if tool.title is not None and tool.description:
        yield Loss("/title", f"{dialect} has no titles")
    if tool.output.kind != "unstated" or tool.output.description is not None:
        yield Loss("/outputSchema", f"{dialect} does not say what a tool returns")
    yield from unsupported_members(tool, dialect)
    if tool.tags:
        yield Loss("/tags", f"{dialect} has no place for this")
    yield from unsupported_toolkit_members(tool.about, dialect)
    if tool.id.version != _UNSTATED_VERSION:
        yield Loss("/version", f"{dialect} has no versions")


def unsupported_members(tool: Tool, dialect: str) -> Iterator[Loss]:
    """What neither model APIs nor OpenAPI have a place for."""
    stated = (
        ("/annotations", tool.annotations is not None),
        ("/effect", tool.effect is not None and tool.annotations is None),
        ("/icons", bool(tool.icons)),
        ("/level", tool.level is not None),
        ("/requirements", tool.requirements is not None),
        ("/permissions", tool.permissions is not None),
        ("/timeout", tool.timeout is not None),
        ("/_meta", tool.meta is not None),
        ("/deprecation", tool.deprecation is not None and dialect != "openapi"),
    )
    for path, said in stated:
        if said:
            yield Loss(path, f"{dialect} has no place for this")


def unsupported_toolkit_members(about: ToolkitInfo, dialect: str) -> Iterator[Loss]:
    """What is stated of the toolkit as a whole."""
    for field in about.__struct_fields__:
        if getattr(about, field) is not None:
            yield Loss(f"/toolkit/{field}", f"{dialect} has no place for this")


def schema_losses(reshaped: AdaptedSchema, prefix: str = "/inputSchema") -> Iterator[Loss]:
    """What a schema lost on its way, by pointer."""
    for lost in reshaped.losses:
        yield Loss(prefix + lost.path, lost.reason)


def losses_by_tool(losses: list[Loss], count: int) -> Iterator[tuple[int, Loss]]:
    """The opposite of `placed`: which of so many tools lost what."""
    for loss in losses:
        number, slash, rest = ("0", "", loss.path) if count == 1 else loss.path[1:].partition("/")
        yield int(number), Loss(slash + rest, loss.reason)


def indexed_losses(losses: list[list[Loss]]) -> list[Loss]:
    """The losses of several tools: pointers into the list of tools; of one tool, into the tool itself."""
    if len(losses) == 1:
        return losses[0]
    return [Loss(f"/{index}{loss.path}", loss.reason) for index, listed in enumerate(losses) for loss in listed]


_TYPE_ALIASES = {
    "dict": "object",
    "hashmap": "object",
    "float": "number",
    "double": "number",
    "long": "integer",
    "int": "integer",
    "str": "string",
    "char": "string",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "arraylist": "array",
}
_SUBSCHEMA_KEYWORDS = frozenset({"properties", "items", "additionalProperties"})
_JSON_TYPES = ("object", "number", "integer", "string", "boolean", "array", "null")


def with_json_types(schema: Json) -> JsonObject:
    """The schema with types that JSON Schema knows; a type that stands for anything is left out."""
    if not isinstance(schema, dict):
        return {}
    plain = schema
    for key in _SUBSCHEMA_KEYWORDS.intersection(schema):
        part = _with_json_types_in(key, schema[key])
        if part is not schema[key]:
            plain = {**plain, key: part}
    kind = schema.get("type")
    if kind in _JSON_TYPES or "type" not in schema:
        return plain
    known = _json_type(kind)
    return {**plain, "type": known} if known is not None else {key: plain[key] for key in plain if key != "type"}


def _with_json_types_in(key: str, value: Json) -> Json:
    """What a schema holds, itself where nothing in it has to change."""
    if not isinstance(value, dict):
        return value
    if key != "properties":
        return with_json_types(value)
    parts = {name: with_json_types(part) for name, part in value.items()}
    return value if all(map(is_, parts.values(), value.values())) else parts


def _json_type(kind: Json) -> Json:
    if isinstance(kind, list):
        found = [known for each in kind if (known := _json_type(each)) is not None]
        return found or None
    known = _TYPE_ALIASES.get(kind.lower(), kind) if isinstance(kind, str) else None
    return known if known in _JSON_TYPES else None


name = "function"
grouped = False
loss_record_path: tuple[str, ...] = ("x-toolhall",)


def tools_path(document: JsonObject) -> tuple[str, ...]:  # noqa: ARG001 - the same in every document
    """A document is one function itself."""
    return ()


def read(document: Json) -> tuple[Tool, ...]:
    """The one function of a document; BadDocument with every finding."""
    reading = DocumentReader(name)
    document = reading.object(document, "")
    function = reading.object(document["function"], "/function") if "function" in document else document
    path = "/function" if "function" in document else ""
    stated = reading.string(function, "name", path) or ""
    own = safe_name(stated)
    tool = Tool(
        id=ToolId(own, own, DEFAULT_VERSION),
        name=own,
        stated=stated if stated != own else None,
        description=reading.string(function, "description", path, required=False) or None,
        input=_read_input(reading, function, path),
    )
    reading.raise_findings()
    return (tool,)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """One function."""
    (tool,) = tools
    described = {} if tool.description is None else {"description": tool.description}
    return {"name": tool.name, **described, "parameters": tool.input}


def _read_input(reading: DocumentReader, function: JsonObject, path: str) -> JsonObject:
    for key in ("parameters", "inputSchema", "input_schema"):
        if function.get(key) is not None:
            schema = with_json_types(reading.object(function[key], f"{path}/{key}"))
            return schema if schema.get("type") == "object" else {**schema, "type": "object"}
    return {"type": "object", "properties": _read_arguments(reading, function, f"{path}/arguments")}


def _read_arguments(reading: DocumentReader, function: JsonObject, path: str) -> JsonObject:
    """The properties that a list of arguments stands for."""
    given = function.get("arguments")
    listed = reading.array([] if given is None else given, path)
    reading.check_unique_names(listed, path, "arguments")
    properties: JsonObject = {}
    for index, each in enumerate(listed):
        argument = reading.object(each, f"{path}/{index}")
        own = reading.string(argument, "name", f"{path}/{index}") or ""
        description = reading.string(argument, "desc", f"{path}/{index}", required=False)
        schema = with_json_types({"type": argument.get("type")})
        properties[own] = schema if description is None else {**schema, "description": description}
    return properties
