"""The tools, resources and prompts that the official MCP conformance suite asks for, and the tools of accept.py.

Serve them with `toolhall serve tests/conformance/everything.py`. The suite reads only the first page of the list, and
calls the first tool without arguments.
"""

import asyncio
import base64
from pathlib import Path
from typing import Annotated, TypedDict

from msgspec import Meta

from toolhall import Audio, Context, Image, Resource, Skills, Text, ToolFailed, Toolhall, tool
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Form, Roots, Sample

from .accept import accept_tools
from .long_calls import LONG_CALLS
from .resources_and_prompts import RESOURCES_AND_PROMPTS, transient_prompt

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=")
PAUSE = 0.05  # seconds between two notices, so that none is lost in another

NAME_FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK_FORM: JsonObject = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
USER_FORM: JsonObject = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "The user's answer"},
        "email": {"type": "string", "description": "The user's address"},
    },
    "required": ["username", "email"],
}
DEFAULTS_FORM: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
_LEGACY = ["opt1", "opt2", "opt3"]
CHOICES_FORM: JsonObject = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": _OPTIONS},
        "titledSingle": {"type": "string", "oneOf": _TITLED},
        "legacyEnum": {"type": "string", "enum": _LEGACY, "enumNames": ["Option 1", "Option 2", "Option 3"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
    },
}
COLOUR_FORM: JsonObject = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
ADDRESS_SCHEMA: JsonObject = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class Name(TypedDict):
    """One field that most questions ask for."""

    name: str


class Ok(TypedDict):
    """A yes or a no."""

    ok: bool


# --- what a tool can return -------------------------------------------------------------------------------------------


@tool(name="test_simple_text", effect="reads")
async def simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool(name="test_image_content", effect="reads")
async def image_content() -> Image:
    """Return a picture."""
    return Image(PNG)


@tool(name="test_audio_content", effect="reads")
async def audio_content() -> Audio:
    """Return a sound."""
    return Audio(WAV)


@tool(name="test_embedded_resource", effect="reads")
async def embedded_resource() -> Resource:
    """Return a resource, carried in the result."""
    return Resource(uri="test://embedded-resource", content="An embedded resource.", mime_type="text/plain")


@tool(name="test_multiple_content_types", effect="reads")
async def multiple_content_types() -> tuple[Text, Image, Resource]:
    """Return a text, a picture and a resource at once."""
    resource = Resource(uri="test://mixed", content='{"test": "data", "value": 123}', mime_type="application/json")
    return Text("Several kinds of content:"), Image(PNG), resource


@tool(name="test_error_handling", effect="reads")
async def error_handling() -> None:
    """Fail, always."""
    raise ToolFailed("This tool intentionally returns an error for testing")


@tool(name="json_schema_2020_12_tool", effect="reads", input=ADDRESS_SCHEMA)
async def json_schema_2020_12(**arguments: Json) -> str:
    """Take arguments by a schema that uses most of JSON Schema 2020-12."""
    return f"JSON Schema 2020-12: {len(arguments)} arguments"


@tool(name="test_x_mcp_header", effect="reads")
async def x_mcp_header(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})] = "eu") -> str:
    """Take an argument that HTTP clients repeat in a header."""
    return f"region {region}"


# --- what a tool can say while it runs --------------------------------------------------------------------------------


@tool(name="test_tool_with_progress", effect="reads")
async def with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(PAUSE)
    return "done"


@tool(name="test_tool_with_logging", effect="reads")
async def with_logging(ctx: Context) -> str:
    """Write three lines to the client's log."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log(line)
        await asyncio.sleep(PAUSE)
    return "done"


@tool(name="test_logging_tool", effect="reads")
async def logging_tool(ctx: Context) -> str:
    """Write to the client's log, whether or not the client wants to read it."""
    ctx.log("debug detail", "debug")
    ctx.log("something happened")
    ctx.log("something is wrong", "error")
    return "done"


@tool(name="test_reconnection", effect="reads")
async def reconnection(ctx: Context) -> str:
    """Let the client hang up, and finish after that."""
    await ctx.detach(retry_ms=500)
    await asyncio.sleep(2 * PAUSE)
    return "Reconnection test completed"


@tool(name="test_transient", effect="reads")
async def transient() -> str:
    """Is there only for a moment."""
    return "gone in a moment"


@tool(name="test_trigger_tool_change", effect="writes")
async def trigger_tool_change() -> str:
    """Change the list of tools, and change it back."""
    hall.add(transient)
    hall.remove("test_transient")
    return "the list of tools has changed"


@tool(name="test_trigger_prompt_change", effect="writes")
async def trigger_prompt_change() -> str:
    """Change the list of prompts, and change it back."""
    hall.add(transient_prompt)
    hall.remove("resources_and_prompts.test_transient_prompt@0.1.0")
    return "the list of prompts has changed"


# --- what a tool can ask ----------------------------------------------------------------------------------------------


@tool(name="test_sampling", effect="reads")
async def sampling(ctx: Context, prompt: str) -> str:
    """Let the client's model answer a prompt."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


async def _asked(ctx: Context, message: str, form: JsonObject) -> str:
    given = await ctx.ask(message, form)
    return f"action={given.action}, content={given.value if given.accepted else {}}"


@tool(name="test_elicitation", effect="reads")
async def elicitation(ctx: Context, message: str) -> str:
    """Ask the user something."""
    return await _asked(ctx, message, USER_FORM)


@tool(name="test_elicitation_sep1034_defaults", effect="reads")
async def elicitation_defaults(ctx: Context) -> str:
    """Ask with a default for every kind of field."""
    return await _asked(ctx, "Please review these values.", DEFAULTS_FORM)


@tool(name="test_elicitation_sep1330_enums", effect="reads")
async def elicitation_enums(ctx: Context) -> str:
    """Ask with every kind of choice."""
    return await _asked(ctx, "Please choose.", CHOICES_FORM)


@tool(name="test_streaming_elicitation", effect="reads")
async def streaming_elicitation(ctx: Context) -> str:
    """Ask in the middle of the work."""
    ctx.progress(1, 2)
    return await _asked(ctx, "Shall it go on?", OK_FORM)


@tool(name="test_missing_capability", effect="reads")
async def missing_capability(ctx: Context) -> str:
    """Refuse a client that has no model to lend."""
    ctx.need("sampling")
    return "the client can sample"


@tool(name="test_input_required_result_elicitation", effect="reads")
async def input_elicitation(ctx: Context) -> str:
    """Greet the user by name."""
    given = await ctx.ask("What is your name?", Name, key="user_name")
    return f"Hello, {given.value['name']}!" if given.accepted else "Hello, whoever you are!"


@tool(name="test_input_required_result_sampling", effect="reads")
async def input_sampling(ctx: Context) -> str:
    """Ask the client's model one thing."""
    sampled = await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")
    return f"The model said: {sampled.text}"


@tool(name="test_input_required_result_list_roots", effect="reads")
async def input_list_roots(ctx: Context) -> str:
    """Name the client's folders."""
    return ", ".join(root.uri for root in await ctx.roots(key="client_roots")) or "no folders"


@tool(name="test_input_required_result_request_state", effect="reads")
async def input_request_state(ctx: Context) -> str:
    """Ask for a confirmation, with the state carried by the client."""
    given = await ctx.ask("Please confirm.", Ok, key="confirm")
    return f"state-ok: {given.action}"


@tool(name="test_input_required_result_multiple_inputs", effect="reads")
async def input_multiple(ctx: Context) -> str:
    """Ask the user, the client's model and the client at once."""
    prompt = {"role": "user", "content": {"type": "text", "text": "Greet someone."}}
    answers = await ctx.ask_all(
        {
            "user_name": Form("What is your name?", NAME_FORM),
            "greeting": Sample(messages=(prompt,), max_tokens=50),
            "client_roots": Roots(),
        }
    )
    return f"answered: {', '.join(answers)}"


@tool(name="test_input_required_result_multi_round", effect="reads")
async def input_multi_round(ctx: Context) -> str:
    """Ask two things, one after the other."""
    first = await ctx.ask("Step 1: what is your name?", Name, key="step1")
    second = await ctx.ask("Step 2: what is your favourite colour?", COLOUR_FORM, key="step2")
    return f"{first.action}, then {second.action}"


@tool(name="test_input_required_result_tampered_state", effect="reads")
async def input_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation; a state that was changed on the way is refused."""
    given = await ctx.ask("Please confirm.", Ok, key="confirm")
    return f"untouched: {given.action}"


@tool(name="test_input_required_result_capabilities", effect="reads")
async def input_capabilities(ctx: Context) -> str:
    """Ask only what the client can answer."""
    if ctx.can("sampling"):
        return (await ctx.sample("Say something.", max_tokens=50, key="thought")).text
    if ctx.can("elicitation"):
        return (await ctx.ask("Say something.", Name, key="user_name")).action
    return "nobody to ask"


hall = Toolhall(
    simple_text,
    image_content,
    audio_content,
    embedded_resource,
    multiple_content_types,
    error_handling,
    json_schema_2020_12,
    x_mcp_header,
    with_progress,
    with_logging,
    logging_tool,
    reconnection,
    trigger_tool_change,
    trigger_prompt_change,
    sampling,
    elicitation,
    elicitation_defaults,
    elicitation_enums,
    streaming_elicitation,
    missing_capability,
    input_elicitation,
    input_sampling,
    input_list_roots,
    input_request_state,
    input_multiple,
    input_multi_round,
    input_tampered_state,
    input_capabilities,
    *LONG_CALLS,
    *RESOURCES_AND_PROMPTS,
    Skills(Path(__file__).with_name("skills")),
)
hall.add(*accept_tools(hall))
