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


async def test_a_value_comes_back_as_the_declared_type() -> None:
    @tool
    def forecast(city: str) -> Forecast:
        return Forecast(city, 21.5)

    async with Client(forecast) as client:
        assert await client.call(forecast, city="Oslo") == Forecast("Oslo", 21.5)


async def test_the_return_type_becomes_the_output_schema() -> None:
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


async def test_a_pydantic_model_can_be_returned() -> None:
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


async def test_plain_text_is_text() -> None:
    @tool
    def greet() -> str:
        return "hello"

    async with Client(greet) as client:
        assert await client.call(greet) == "hello"
        assert (await client.call_named("greet", {})).text == "hello"


async def test_nothing_can_be_returned() -> None:
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
async def test_a_block_of_content_can_be_returned(block: Any) -> None:
    def give() -> Any:
        return block

    give.__annotations__["return"] = type(block)
    marked = tool(give)
    async with Client(marked) as client:
        (definition,) = await client.list_tools()
        assert definition.output.kind == "unstated"
        assert await client.call(marked) == block


async def test_pictures_and_sounds_have_a_usual_type() -> None:
    assert (Image(PNG).mime_type, Audio(WAV).mime_type) == ("image/png", "audio/wav")


async def test_several_blocks_can_be_returned_at_once() -> None:
    @tool
    def everything() -> list[Text | Image | Audio | ResourceLink | Resource]:
        return BLOCKS

    async with Client(everything) as client:
        assert await client.call(everything) == BLOCKS


async def test_one_of_several_kinds_can_be_returned() -> None:
    @tool
    def either(picture: bool) -> Image | Text:
        return Image(PNG) if picture else Text("none")

    async with Client(either) as client:
        assert await client.call(either, picture=True) == Image(PNG)
        assert await client.call(either, picture=False) == Text("none")


async def test_notes_say_for_whom_how_important_and_how_old() -> None:
    notes = Notes(audience=("user", "assistant"), priority=0.5, last_modified="2026-07-28T12:00:00Z")

    @tool
    def noted() -> Text:
        return Text("hello", notes)

    async with Client(noted) as client:
        assert (await client.call(noted)).notes == notes


async def test_a_reply_says_everything_at_once() -> None:
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


async def test_a_reply_can_be_an_error_that_the_model_reads() -> None:
    @tool
    def fetch() -> Reply:
        return Reply((Text("the page is gone"),), is_error=True)

    async with Client(fetch) as client:
        result = await client.call_named("fetch", {})
        assert result.is_error
        with pytest.raises(ToolhallError, match="the page is gone"):
            await client.call(fetch)


async def test_a_reply_need_not_have_a_value() -> None:
    @tool
    def say() -> Reply:
        return Reply((Text("only words"),))

    async with Client(say) as client:
        reply = await client.call(say)
    assert reply.value is msgspec.UNSET
    assert reply.content == (Text("only words"),)


async def test_an_output_schema_can_be_written_by_hand() -> None:
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


async def test_a_tool_that_breaks_its_promise_is_stopped() -> None:
    @tool
    def count() -> int:
        return "three"  # type: ignore[return-value]

    async with Client(count) as client:
        with pytest.raises(ToolhallError, match="something other than its output schema promises"):
            await client.call(count)


async def test_what_json_cannot_express_is_stopped() -> None:
    def strange() -> object:
        return object()

    del strange.__annotations__["return"]
    tool(strange)
    async with Client(strange) as client:
        with pytest.raises(ToolhallError, match="cannot be written as JSON"):
            await client.call_named("strange", {})


async def test_terminal_escapes_never_reach_the_caller() -> None:
    @tool
    def paint() -> list[str]:
        return ["\x1b[31mred\x1b[0m", "plain\ttab\nline"]

    async with Client(paint) as client:
        assert await client.call(paint) == ["red", "plain\ttab\nline"]
