"""The resources and prompts that the official MCP conformance suite reads and gets, for `everything.py`."""

from typing import Any

from toolhall import Context, Image, Message, Resource, prompt, resource
from toolhall.model.json import JsonObject

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108020000009077"
    "53de0000000c49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)
CONTEXT_FORM: JsonObject = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}


@resource("test://static-text", mime_type="text/plain", fresh=60, shared=True)
async def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """A picture of one pixel."""
    return PIXEL


@resource("test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A text whose changes can be subscribed to."""
    return "Watched resource content"


@resource("test://template/{id}/data", mime_type="application/json")
async def template_data(id: str) -> dict[str, Any]:  # noqa: A002 - as the suite calls it
    """Data of one id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@prompt(name="test_simple_prompt")
async def simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@prompt(name="test_prompt_with_arguments")
async def prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt that repeats its arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt_with_arguments.complete("arg1")
async def first_arguments() -> list[str]:
    return ["testing", "testValue1", "another"]


@prompt(name="test_prompt_with_embedded_resource")
async def prompt_with_embedded_resource(resourceUri: str) -> list[Message]:  # noqa: N803 - as the suite calls it
    """A prompt that carries a resource."""
    carried = Resource(uri=resourceUri, content="Embedded resource content for testing.", mime_type="text/plain")
    return [Message.user(carried), Message.user("Please process the embedded resource above.")]


@prompt(name="test_prompt_with_image")
async def prompt_with_image() -> list[Message]:
    """A prompt that carries a picture."""
    return [Message.user(Image(PIXEL)), Message.user("Please analyze the image above.")]


@prompt(name="test_input_required_result_prompt")
async def input_required_prompt(ctx: Context) -> str:
    """A prompt that asks before it is written."""
    given = await ctx.ask("What is the context?", CONTEXT_FORM, key="user_context")
    return f"Context: {given.value['context'] if given.accepted else 'none'}"


@prompt(name="test_transient_prompt")
async def transient_prompt() -> str:
    """Is there only for a moment."""
    return "gone in a moment"


RESOURCES_AND_PROMPTS = (
    static_text,
    static_binary,
    watched_resource,
    template_data,
    simple_prompt,
    prompt_with_arguments,
    prompt_with_embedded_resource,
    prompt_with_image,
    input_required_prompt,
)
