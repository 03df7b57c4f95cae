"""Function definitions of model APIs: the `function` dialect, and names and losses that all vendors share."""

import hashlib
import re
from collections.abc import Iterator
from operator import is_

from toolhall.dialects.base import Loss
from toolhall.dialects.findings import DocumentReader
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import DEFAULT_VERSION, MAX_NAME_LENGTH, ToolId, qualified_name, safe_name
from toolhall.model.tool import Tool, ToolkitInfo
from toolhall.schema.adapt import AdaptedSchema

name = "function"
grouped = False
loss_record_path: tuple[str, ...] = ("x-toolhall",)
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
_UNSTATED_VERSION = "0.1.0"  # the version of a tool whose author states none
FUNCTION_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_LENGTH}}}")


def tools_path(document: JsonObject) -> tuple[str, ...]:  # noqa: ARG001 - the same in every document
    """Empty: a document is one function."""
    return ()


def read(document: Json) -> tuple[Tool, ...]:
    """Read the function of a document; raises BadDocument with every finding."""
    reader = DocumentReader(name)
    document = reader.object(document, "")
    function = reader.object(document["function"], "/function") if "function" in document else document
    path = "/function" if "function" in document else ""
    stated = reader.string(function, "name", path) or ""
    safe = safe_name(stated)
    tool = Tool(
        id=ToolId(safe, safe, DEFAULT_VERSION),
        name=safe,
        stated=stated if stated != safe else None,
        description=reader.string(function, "description", path, required=False) or None,
        input=_read_input(reader, function, path),
    )
    reader.raise_findings()
    return (tool,)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """Write one function."""
    (tool,) = tools
    described = {} if tool.description is None else {"description": tool.description}
    return {"name": tool.name, **described, "parameters": tool.input}


def _read_input(reader: DocumentReader, function: JsonObject, path: str) -> JsonObject:
    for key in ("parameters", "inputSchema", "input_schema"):
        if function.get(key) is not None:
            schema = with_json_types(reader.object(function[key], f"{path}/{key}"))
            return schema if schema.get("type") == "object" else {**schema, "type": "object"}
    return {"type": "object", "properties": _read_arguments(reader, function, f"{path}/arguments")}


def _read_arguments(reader: DocumentReader, function: JsonObject, path: str) -> JsonObject:
    """The properties of an argument list."""
    stated = function.get("arguments")
    items = reader.array([] if stated is None else stated, path)
    reader.check_unique_names(items, path, "arguments")
    properties: JsonObject = {}
    for index, item in enumerate(items):
        argument = reader.object(item, f"{path}/{index}")
        name = reader.string(argument, "name", f"{path}/{index}") or ""
        description = reader.string(argument, "desc", f"{path}/{index}", required=False)
        schema = with_json_types({"type": argument.get("type")})
        properties[name] = schema if description is None else {**schema, "description": description}
    return properties


def function_names(tools: tuple[Tool, ...], allowed: re.Pattern[str] = FUNCTION_NAME) -> list[str]:
    """The function name of each tool, in order; unique, so that a call by name leads back to its tool.

    A name that the API refuses is changed and gets a hash of the original name as suffix, so it does not depend on the
    other tools. Only where two tools have one name (two versions of a tool) does the later one get a hash of its id.
    """
    names: dict[str, None] = {}
    for tool in tools:
        name = (
            tool.name
            if allowed.fullmatch(tool.name)
            else _hashed_name(original := original_name(tool), original, allowed)
        )
        if name in names:
            name = _hashed_name(name, str(tool.id), allowed)
        while name in names:  # the same tool is listed twice
            name = _hashed_name(name, name, allowed)
        names[name] = None
    return list(names)


def tools_by_name(tools: tuple[Tool, ...], allowed: re.Pattern[str] = FUNCTION_NAME) -> dict[str, Tool]:
    """Map function names back to the tools that were written together."""
    return dict(zip(function_names(tools, allowed), tools, strict=True))


def original_name(tool: Tool) -> str:
    """The tool's name in its definition; its published name may be a changed one already."""
    qualified = qualified_name(tool.id.toolkit, tool.id.tool)
    return tool.stated or (qualified if safe_name(qualified) == tool.name else tool.name)


def _hashed_name(name: str, hashed: str, allowed: re.Pattern[str]) -> str:
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if not allowed.fullmatch(safe[:1]):
        safe = f"_{safe}"
    digest = hashlib.sha256(hashed.encode(errors="replace")).hexdigest()[:8]
    return f"{safe[: MAX_NAME_LENGTH - 9]}_{digest}"


def function_description(tool: Tool, notes: list[str]) -> str | None:
    """The tool's description, followed by notes on what its schema cannot express."""
    parts = [tool.description or tool.title or "", " ".join(notes)]
    return "\n\n".join(part for part in parts if part) or None


def function_losses(tool: Tool, name: str, dialect: str) -> Iterator[Loss]:
    """What no function definition expresses: everything but name, description and parameters."""
    original = original_name(tool)
    if name != original:
        yield Loss("/name", f"{dialect} refuses this name, or it is taken; written as {name} for {original[:128]!r}")
    if tool.title is not None and tool.description:
        yield Loss("/title", f"{dialect} has no titles")
    if tool.output.kind != "unstated" or tool.output.description is not None:
        yield Loss("/outputSchema", f"{dialect} does not describe what a tool returns")
    yield from unsupported_members(tool, dialect)
    if tool.tags:
        yield Loss("/tags", f"{dialect} has no place for this")
    yield from unsupported_toolkit_members(tool.about, dialect)
    if tool.id.version != _UNSTATED_VERSION:
        yield Loss("/version", f"{dialect} has no versions")


def unsupported_members(tool: Tool, dialect: str) -> Iterator[Loss]:
    """Losses for members that neither model APIs nor OpenAPI have."""
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
    for path, is_stated in stated:
        if is_stated:
            yield Loss(path, f"{dialect} has no place for this")


def unsupported_toolkit_members(about: ToolkitInfo, dialect: str) -> Iterator[Loss]:
    """Losses for members of the toolkit."""
    for field in about.__struct_fields__:
        if getattr(about, field) is not None:
            yield Loss(f"/toolkit/{field}", f"{dialect} has no place for this")


def schema_losses(adapted: AdaptedSchema, prefix: str = "/inputSchema") -> Iterator[Loss]:
    """Losses of an adapted schema, by pointer."""
    for loss in adapted.losses:
        yield Loss(prefix + loss.path, loss.reason)


def losses_by_tool(losses: list[Loss], count: int) -> Iterator[tuple[int, Loss]]:
    """Reverse indexed_losses: yields the tool's index and the loss."""
    for loss in losses:
        index, slash, rest = ("0", "", loss.path) if count == 1 else loss.path[1:].partition("/")
        yield int(index), Loss(slash + rest, loss.reason)


def indexed_losses(losses: list[list[Loss]]) -> list[Loss]:
    """Join the losses of several tools, with the tool's index as prefix; those of one tool stay as they are."""
    if len(losses) == 1:
        return losses[0]
    return [
        Loss(f"/{index}{loss.path}", loss.reason) for index, tool_losses in enumerate(losses) for loss in tool_losses
    ]


def with_json_types(schema: Json) -> JsonObject:
    """The schema with JSON Schema's type names; unknown types are removed."""
    if not isinstance(schema, dict):
        return {}
    converted = schema
    for key in _SUBSCHEMA_KEYWORDS.intersection(schema):
        part = _with_json_types_in(key, schema[key])
        if part is not schema[key]:
            converted = {**converted, key: part}
    kind = schema.get("type")
    if kind in _JSON_TYPES or "type" not in schema:
        return converted
    json_type = _json_type(kind)
    return (
        {**converted, "type": json_type}
        if json_type is not None
        else {key: converted[key] for key in converted if key != "type"}
    )


def _with_json_types_in(key: str, value: Json) -> Json:
    """Convert the subschemas of a keyword; the same object if nothing changes."""
    if not isinstance(value, dict):
        return value
    if key != "properties":
        return with_json_types(value)
    parts = {name: with_json_types(part) for name, part in value.items()}
    return value if all(map(is_, parts.values(), value.values())) else parts


def _json_type(kind: Json) -> Json:
    if isinstance(kind, list):
        types = [known for each in kind if (known := _json_type(each)) is not None]
        return types or None
    known = _TYPE_ALIASES.get(kind.lower(), kind) if isinstance(kind, str) else None
    return known if known in _JSON_TYPES else None
