"""What a tool may hand back: values, text, pictures, sounds, links, resources, and all of them at once."""

import dataclasses
from typing import Any

import msgspec
import pydantic
import pytest

from toolhall import Audio, Image, Notes, Reply, Resource, ResourceLink, Text, ToolhallError, tool
from toolhall.testing import Client


@dataclasses.dataclass
class Forecast:
    city: str
    degrees: float


async def test_value_is_returned_as_the_declared_type() -> None:
    @tool
    def forecast(city: str) -> Forecast:
        return Forecast(city, 21.5)

    async with Client(forecast) as client:
        assert await client.call(forecast, city="Oslo") == Forecast("Oslo", 21.5)


async def test_return_type_is_the_output_schema() -> None:
    @tool
    def forecast(city: str) -> Forecast:
        return Forecast(city, 21.5)

    async with Client(forecast) as client:
        (definition,) = await client.list_tools()
    assert definition.output.kind == "schema"
    assert definition.output.schema == {
        "title": "Forecast",
        "type": "object",
        "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
        "required": ["city", "degrees"],
    }


async def test_pydantic_model_can_be_returned() -> None:
    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(serialization_alias="fullName")

    @tool
    def whoami() -> Person:
        return Person(name="Ada")

    async with Client(whoami) as client:
        result = await client.call_named("whoami", {})
        (definition,) = await client.list_tools()
    assert result.encoded == b'{"fullName":"Ada"}'
    assert definition.output.schema is not None
    assert definition.output.schema["required"] == ["fullName"]


async def test_string_is_sent_as_text() -> None:
    @tool
    def greet() -> str:
        return "hello"

    async with Client(greet) as client:
        assert await client.call(greet) == "hello"
        assert (await client.call_named("greet", {})).text == "hello"


async def test_none_can_be_returned() -> None:
    @tool
    def ring() -> None: ...

    async with Client(ring) as client:
        (definition,) = await client.list_tools()
        result = await client.call_named("ring", {})
    assert definition.output.kind == "none"
    assert (result.encoded, result.content) == (None, ())


PNG, WAV = b"\x89PNG", b"RIFF"
BLOCKS: list[Text | Image | Audio | ResourceLink | Resource] = [
    Text("hello"),
    Image(PNG),
    Image(PNG, "image/jpeg"),
    Audio(WAV),
    ResourceLink(uri="file:///a.txt", name="a.txt", title="A", description="a file", mime_type="text/plain", size=3),
    Resource(uri="file:///a.txt", content="text", mime_type="text/plain"),
    Resource(uri="file:///a.bin", content=b"\x00"),
]


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
async def test_content_block_can_be_returned(block: Any) -> None:
    def give() -> Any:
        return block

    give.__annotations__["return"] = type(block)
    marked = tool(give)
    async with Client(marked) as client:
        (definition,) = await client.list_tools()
        assert definition.output.kind == "unstated"
        assert await client.call(marked) == block


async def test_images_and_audio_have_default_types() -> None:
    assert (Image(PNG).mime_type, Audio(WAV).mime_type) == ("image/png", "audio/wav")


async def test_several_blocks_can_be_returned() -> None:
    @tool
    def everything() -> list[Text | Image | Audio | ResourceLink | Resource]:
        return BLOCKS

    async with Client(everything) as client:
        assert await client.call(everything) == BLOCKS


async def test_union_of_blocks_can_be_returned() -> None:
    @tool
    def either(picture: bool) -> Image | Text:
        return Image(PNG) if picture else Text("none")

    async with Client(either) as client:
        assert await client.call(either, picture=True) == Image(PNG)
        assert await client.call(either, picture=False) == Text("none")


async def test_notes_of_a_text_are_returned_with_audience_priority_and_date() -> None:
    notes = Notes(audience=("user", "assistant"), priority=0.5, last_modified="2026-07-28T12:00:00Z")

    @tool
    def noted() -> Text:
        return Text("hello", notes)

    async with Client(noted) as client:
        assert (await client.call(noted)).notes == notes


async def test_reply_has_content_value_and_meta() -> None:
    @tool(returns=Forecast)
    def forecast() -> Reply:
        return Reply((Text("mild"),), Forecast("Oslo", 12), {"example.org/source": "yr"})

    async with Client(forecast) as client:
        (definition,) = await client.list_tools()
        result = await client.call_named("forecast", {})
        reply = await client.call(forecast)
    assert definition.output.schema is not None
    assert definition.output.schema["required"] == ["city", "degrees"]
    assert result.encoded == b'{"city":"Oslo","degrees":12}'
    assert reply == Reply((Text("mild"),), {"city": "Oslo", "degrees": 12}, {"example.org/source": "yr"})


async def test_reply_can_be_an_error() -> None:
    @tool
    def fetch() -> Reply:
        return Reply((Text("the page is gone"),), is_error=True)

    async with Client(fetch) as client:
        result = await client.call_named("fetch", {})
        assert result.is_error
        with pytest.raises(ToolhallError, match="the page is gone"):
            await client.call(fetch)


async def test_reply_without_value_has_an_unset_value() -> None:
    @tool
    def say() -> Reply:
        return Reply((Text("only words"),))

    async with Client(say) as client:
        reply = await client.call(say)
    assert reply.value is msgspec.UNSET
    assert reply.content == (Text("only words"),)


async def test_output_option_publishes_the_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}

    @tool(output=schema)
    def count(n: int) -> dict[str, int]:
        return {"n": n}

    async with Client(count) as client:
        (definition,) = await client.list_tools()
        assert definition.output.schema == schema
        assert await client.call(count, 3) == {"n": 3}
        with pytest.raises(ToolhallError, match="something other than its output schema promises"):
            await client.call(count, -1)


async def test_result_that_violates_the_schema_is_refused() -> None:
    @tool
    def count() -> int:
        return "three"  # type: ignore[return-value]

    async with Client(count) as client:
        with pytest.raises(ToolhallError, match="something other than its output schema promises"):
            await client.call(count)


async def test_unencodable_result_is_refused() -> None:
    def strange() -> object:
        return object()

    del strange.__annotations__["return"]
    tool(strange)
    async with Client(strange) as client:
        with pytest.raises(ToolhallError, match="cannot be written as JSON"):
            await client.call_named("strange", {})


async def test_result_has_no_terminal_escapes() -> None:
    @tool
    def paint() -> list[str]:
        return ["\x1b[31mred\x1b[0m", "plain\ttab\nline"]

    async with Client(paint) as client:
        assert await client.call(paint) == ["red", "plain\ttab\nline"]
