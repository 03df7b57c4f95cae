"""MCP prompts: definitions with their arguments, messages, and completions of arguments."""

from toolhall.dialects.findings import DocumentReader
from toolhall.dialects.mcp.catalog import read_common, write_icons_and_meta
from toolhall.dialects.mcp.content import write_block
from toolhall.dialects.mcp.protocol import Revision
from toolhall.model.content import Result
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Completion
from toolhall.model.tool import PromptInfo, Tool


def read_prompt(document: Json) -> Tool:
    """Read the definition of a prompt; raises BadDocument with every finding."""
    reader = DocumentReader("mcp")
    document = reader.object(document, "")
    common = read_common(reader, document)
    schema = _read_arguments(reader, document)
    reader.raise_findings()
    return Tool(**common, input=schema, effect="reads", prompt=PromptInfo())


def write_prompt(tool: Tool, revision: Revision) -> JsonObject:
    """Write the definition of one prompt."""
    document: JsonObject = {"name": tool.name}
    stated = (("title", tool.title), ("description", tool.description))
    document |= {key: value for key, value in stated if value is not None}
    required = tool.input.get("required", [])
    arguments = [
        _write_argument(name, schema, required=name in required)
        for name, schema in tool.input.get("properties", {}).items()
    ]
    if arguments:
        document["arguments"] = arguments
    write_icons_and_meta(tool, revision, document)
    return document


def write_prompt_result(tool: Tool, result: Result) -> JsonObject:
    """Write the messages of a prompt."""
    messages = [
        {"role": role, "content": write_block(block)} for role, block in zip(result.roles, result.content, strict=True)
    ]
    document: JsonObject = {"messages": messages}
    if tool.description is not None:
        document["description"] = tool.description
    if result.meta:
        document["_meta"] = result.meta
    return document


def write_completion(completion: Completion) -> JsonObject:
    """Write completions, and how many there are in all."""
    values, total = list(completion.values), completion.total
    return {"completion": {"values": values, "total": total, "hasMore": total > len(values)}}


def _write_argument(name: str, schema: Json, *, required: bool) -> JsonObject:
    """Write one argument; MCP has no types for them, so the type is left out."""
    document: JsonObject = {"name": name}
    for key in ("title", "description"):
        if isinstance(schema, dict) and isinstance(text := schema.get(key), str):
            document[key] = text
    return document | ({"required": True} if required else {})


def _read_arguments(reader: DocumentReader, document: JsonObject) -> JsonObject:
    """The input schema of a prompt: MCP has no types for arguments, they are texts."""
    stated = document.get("arguments")
    items = [] if stated is None else reader.array(stated, "/arguments")
    reader.check_unique_names(items, "/arguments", "arguments")
    properties: JsonObject = {}
    required: list[Json] = []
    for index, item in enumerate(items):
        path = f"/arguments/{index}"
        argument = reader.object(item, path)
        name = reader.string(argument, "name", path) or ""
        texts = {key: reader.string(argument, key, path, required=False) for key in ("title", "description")}
        properties[name] = {"type": "string"} | {key: text for key, text in texts.items() if text is not None}
        if not isinstance(argument.get("required", False), bool):
            reader.add_error(f"{path}/required", "required", "write true or false")
        elif argument.get("required"):
            required.append(name)
    schema: JsonObject = {"type": "object", "properties": properties}
    return schema | ({"required": required} if required else {}) | {"additionalProperties": False}
