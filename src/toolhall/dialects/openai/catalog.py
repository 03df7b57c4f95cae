"""OpenAI function tools, for the chat completions and the responses API, strict and not."""

from collections.abc import Callable

import msgspec

from toolhall.dialects.catalog import Loss, Written
from toolhall.dialects.findings import Finding
from toolhall.dialects.functions import description_of, function_names, losses_in, losses_of, placed
from toolhall.dialects.openai.strict import NotStrict, strict_parameters
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.branches import one_object
from toolhall.schema.place import Place
from toolhall.schema.reshape import Reshaped, Reshaping, Target, reshape, whole


class OpenAICatalog(msgspec.Struct, frozen=True):
    """Function tools in one of the shapes that OpenAI knows."""

    name: str
    parameters: Callable[[JsonObject], Reshaped]
    wrap: Callable[[JsonObject], JsonObject]
    grouped: bool = False

    def write(self, tools: tuple[Tool, ...]) -> Written:
        """One definition for each tool, in their order; NotStrict with every reason where there is one."""
        documents: list[JsonObject] = []
        losses: list[list[Loss]] = []
        refused: list[Finding] = []
        for index, (tool, given) in enumerate(zip(tools, function_names(tools), strict=True)):
            try:
                document, lost = self._write(tool, given)
            except NotStrict as error:
                prefix = f"/{index}" if len(tools) > 1 else ""
                refused.extend(msgspec.structs.replace(each, path=prefix + each.path) for each in error.findings)
            else:
                documents.append(document)
                losses.append(lost)
        if refused:
            raise NotStrict(refused)
        return Written(documents, placed(losses))

    def _write(self, tool: Tool, given: str) -> tuple[JsonObject, list[Loss]]:
        reshaped = self.parameters(tool.input)
        function: JsonObject = {"name": given}
        description = description_of(tool, reshaped.notes)
        if description is not None:
            function["description"] = description
        function["parameters"] = reshaped.schema
        return self.wrap(function), [*losses_of(tool, given, self.name), *losses_in(reshaped)]


def _node(reshaping: Reshaping, schema: JsonObject, place: Place) -> JsonObject:
    """Everything as it is; but a list must say what its items are, even if they are anything."""
    kind = schema.get("type")
    if "items" not in schema and (kind == "array" or (isinstance(kind, list) and "array" in kind)):
        schema = {**schema, "items": {}}
    return whole(reshaping, schema, place)


# Only the top level and JSON Schema's own rules are checked where a tool is not strict; references are followed.
LOOSE = Target("openai", _node, one_object, recursion=True)


def loose_parameters(schema: JsonObject) -> Reshaped:
    """The parameters of a function that is not strict."""
    return reshape(schema, LOOSE)


def _chat(function: JsonObject) -> JsonObject:
    return {"type": "function", "function": function}


def _strict_chat(function: JsonObject) -> JsonObject:
    return {"type": "function", "function": {**function, "strict": True}}


def _responses(function: JsonObject) -> JsonObject:
    # Unlike chat completions, the responses API makes a function strict unless it says no.
    return {"type": "function", **function, "strict": False}


def _strict_responses(function: JsonObject) -> JsonObject:
    return {"type": "function", **function, "strict": True}


CHAT = OpenAICatalog("openai", loose_parameters, _chat)
RESPONSES = OpenAICatalog("openai@responses", loose_parameters, _responses)
STRICT = OpenAICatalog("openai@strict", strict_parameters, _strict_chat)
RESPONSES_STRICT = OpenAICatalog("openai@responses-strict", strict_parameters, _strict_responses)
STRICT_DIALECTS = (STRICT.name, RESPONSES_STRICT.name)
CATALOGS = {catalog.name: catalog for catalog in (CHAT, RESPONSES, STRICT, RESPONSES_STRICT)}
