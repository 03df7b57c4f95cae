"""OpenAI function tools (OpenAICatalog): chat completions and responses APIs, strict and not strict."""

from collections.abc import Callable

import msgspec

from toolhall.dialects.base import Loss, WriteResult
from toolhall.dialects.findings import Finding
from toolhall.dialects.model_apis.function import (
    function_description,
    function_losses,
    function_names,
    indexed_losses,
    schema_losses,
)
from toolhall.dialects.model_apis.openai_strict import NotStrict, strict_parameters
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.adapt import (
    AdaptedSchema,
    SchemaAdapter,
    SchemaLocation,
    SchemaTarget,
    adapt_schema,
    adapt_subschemas,
)
from toolhall.schema.combinators import as_single_object


class OpenAICatalog(msgspec.Struct, frozen=True):
    """Function tools in one of OpenAI's formats."""

    name: str
    parameters: Callable[[JsonObject], AdaptedSchema]
    wrap: Callable[[JsonObject], JsonObject]
    grouped: bool = False

    def write(self, tools: tuple[Tool, ...]) -> WriteResult:
        """One definition per tool, in order; raises NotStrict with every reason if a tool cannot be strict."""
        documents: list[JsonObject] = []
        losses: list[list[Loss]] = []
        findings: list[Finding] = []
        for index, (tool, function_name) in enumerate(zip(tools, function_names(tools), strict=True)):
            try:
                document, tool_losses = self._write(tool, function_name)
            except NotStrict as error:
                prefix = f"/{index}" if len(tools) > 1 else ""
                findings.extend(
                    msgspec.structs.replace(finding, path=prefix + finding.path) for finding in error.findings
                )
            else:
                documents.append(document)
                losses.append(tool_losses)
        if findings:
            raise NotStrict(findings)
        return WriteResult(documents, indexed_losses(losses))

    def _write(self, tool: Tool, function_name: str) -> tuple[JsonObject, list[Loss]]:
        adapted = self.parameters(tool.input)
        function: JsonObject = {"name": function_name}
        description = function_description(tool, adapted.notes)
        if description is not None:
            function["description"] = description
        function["parameters"] = adapted.schema
        return self.wrap(function), [*function_losses(tool, function_name, self.name), *schema_losses(adapted)]


def _node(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> JsonObject:
    """Keep the schema, but give every array `items`, which the API requires."""
    kind = schema.get("type")
    if "items" not in schema and (kind == "array" or (isinstance(kind, list) and "array" in kind)):
        schema = {**schema, "items": {}}
    return adapt_subschemas(adapter, schema, location)


# For tools that are not strict, the API checks only the top level and JSON Schema's own rules, and follows references.
LOOSE_TARGET = SchemaTarget("openai", _node, as_single_object, supports_recursion=True)


def loose_parameters(schema: JsonObject) -> AdaptedSchema:
    """The parameters of a function that is not strict."""
    return adapt_schema(schema, LOOSE_TARGET)


def _chat(function: JsonObject) -> JsonObject:
    return {"type": "function", "function": function}


def _strict_chat(function: JsonObject) -> JsonObject:
    return {"type": "function", "function": {**function, "strict": True}}


def _responses(function: JsonObject) -> JsonObject:
    # Unlike chat completions, the responses API makes functions strict by default.
    return {"type": "function", **function, "strict": False}


def _strict_responses(function: JsonObject) -> JsonObject:
    return {"type": "function", **function, "strict": True}


CHAT = OpenAICatalog("openai", loose_parameters, _chat)
RESPONSES = OpenAICatalog("openai@responses", loose_parameters, _responses)
STRICT = OpenAICatalog("openai@strict", strict_parameters, _strict_chat)
RESPONSES_STRICT = OpenAICatalog("openai@responses-strict", strict_parameters, _strict_responses)
STRICT_DIALECTS = (STRICT.name, RESPONSES_STRICT.name)
CATALOGS = {catalog.name: catalog for catalog in (CHAT, RESPONSES, STRICT, RESPONSES_STRICT)}
