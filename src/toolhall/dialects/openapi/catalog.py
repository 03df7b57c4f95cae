"""OpenAPI 3.1: all tools in one document, each an operation `POST /tools/{toolkit}/{tool}`."""

import re
from urllib.parse import quote

import msgspec

from toolhall.dialects.catalog import Loss, Written
from toolhall.dialects.functions import exact_name, function_names, losses_in, placed, unsaid, unsaid_of_toolkit
from toolhall.dialects.openapi.responses import DIALECT, ERROR, RESPONSES, VERSION, responses_of
from toolhall.model.json import JsonObject
from toolhall.model.tool import About, Tool
from toolhall.schema.bounds import BadSchema
from toolhall.schema.reshape import Reshaped, Target, reshape, whole
from toolhall.schema.validator import Validator

name = "openapi"
grouped = True

INPUT = ".input"  # ends the name of every component that describes arguments
_SIMPLE = frozenset({"$schema", "type", "title", "description", "properties", "required", "additionalProperties"})
_ANY_NAME = re.compile(r".+", re.DOTALL)
# Every keyword is known; references stay where they recur, and are told where the schema stands.
TARGET = Target(name, whole, recursion=True)


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """What the document says of the whole interface."""

    title: str = "Toolhall"
    version: str = "1"
    description: str | None = None
    servers: tuple[str, ...] = ()


def write(tools: tuple[Tool, ...], info: Info = Info()) -> Written:  # noqa: B008 - immutable
    """One document with an operation for each tool; of two with the same path, the first."""
    paths: JsonObject = {}
    schemas: JsonObject = {"Error": ERROR}
    losses: list[list[Loss]] = []
    for tool, given in zip(tools, function_names(tools, _ANY_NAME), strict=True):
        path = f"/tools/{quote(tool.id.toolkit, safe='')}/{quote(tool.id.tool, safe='')}"
        if path in paths:
            losses.append([Loss("", "another version of this tool has its path; call this one by its version")])
            continue
        key = _free_key(given, schemas)
        taken = _component(tool.input, key + INPUT, schemas)
        returned = None if tool.output.schema is None else _component(tool.output.schema, f"{key}.output", schemas)
        paths[path] = {"post": _operation(tool, given, key)}
        losses.append(_losses(tool, given, taken, returned))
    document: JsonObject = {
        "openapi": "3.1.1",
        "info": _info(info),
        **({"servers": [{"url": url} for url in info.servers]} if info.servers else {}),
        "tags": _tags(tools),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": RESPONSES,
            "parameters": {"version": VERSION, "dialect": DIALECT},
        },
    }
    return Written([document], placed(losses))


def _info(info: Info) -> JsonObject:
    described = {} if info.description is None else {"description": info.description}
    return {"title": info.title, "version": info.version, **described}


def _tags(tools: tuple[Tool, ...]) -> list[JsonObject]:
    tags: dict[str, JsonObject] = {}
    for tool in tools:
        about = tool.about.description or tool.about.title
        tags.setdefault(tool.id.toolkit, {"name": tool.id.toolkit, **({"description": about} if about else {})})
    return list(tags.values())


def _free_key(given: str, schemas: JsonObject) -> str:
    """A name under which components may stand (letters, digits, . - _), not taken yet."""
    key = plain = re.sub(r"[^A-Za-z0-9._-]", "_", given)
    count = 2
    while key + INPUT in schemas:
        key, count = f"{plain}_{count}", count + 1
    return key


def _component(schema: JsonObject, key: str, schemas: JsonObject) -> Reshaped:
    reshaped = reshape(schema, TARGET, f"#/components/schemas/{key}")
    schemas[key] = reshaped.schema
    return reshaped


def _operation(tool: Tool, given: str, key: str) -> JsonObject:
    operation: JsonObject = {"operationId": given, "tags": [tool.id.toolkit]}
    if tool.title is not None:
        operation["summary"] = tool.title
    if tool.description is not None:
        operation["description"] = tool.description
    if tool.deprecation is not None:
        operation["deprecated"] = True
        said = msgspec.to_builtins(tool.deprecation)
        operation |= {f"x-{key}": said[key] for key in ("sunset", "successor") if key in said}
    operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in ("version", "dialect")]
    operation["requestBody"] = {
        "required": _needs_body(tool.input),
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{key}{INPUT}"}}},
    }
    operation["responses"] = responses_of(tool.output, f"#/components/schemas/{key}.output")
    return operation


def _needs_body(schema: JsonObject) -> bool:
    """Whether a call without arguments, which is one without a body, is refused."""
    if _SIMPLE.issuperset(schema):
        return bool(schema.get("required"))
    try:
        return not Validator(schema).accepts({})
    except BadSchema:
        return True


def _losses(tool: Tool, given: str, taken: Reshaped, returned: Reshaped | None) -> list[Loss]:
    found = list(unsaid(tool, name))
    exact = exact_name(tool)
    if given != exact:
        found.append(Loss("/name", f"the operationId is the published name; written as {given} for {exact[:128]!r}"))
    if tool.tags:
        found.append(Loss("/tags", "openapi's tags are the toolkits"))
    about = tool.about
    said = About(title=None if about.description else about.title, description=about.description)
    found.extend(loss for loss in unsaid_of_toolkit(about, name) if getattr(said, loss.path.rpartition("/")[2]) is None)
    found.extend(losses_in(taken))
    found.extend(losses_in(returned, "/outputSchema") if returned is not None else ())
    return found
