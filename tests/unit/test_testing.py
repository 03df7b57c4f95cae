"""The client for tests."""

import datetime
from typing import Any

import msgspec
import pytest

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.model.content import Image, Reply, Text
from toolhall.model.errors import BadArguments, ToolFailed, Unsupported
from toolhall.model.messages import Filled, Roots
from toolhall.testing import Client


class Point(msgspec.Struct):
    x: int
    y: int = 0


async def test_it_is_used_with_async_with() -> None:
    client = Client()
    with pytest.raises(RuntimeError, match="use the client inside 'async with Client"):
        _ = client.hall
    async with client:
        assert client.hall.registry.snapshot.entries == ()
    with pytest.raises(RuntimeError):
        _ = client.hall


async def test_arguments_travel_as_json() -> None:
    @tool
    async def move(ctx: Context, point: Point, by: datetime.timedelta, *, steps: int = 1) -> Point:
        return Point(point.x + steps * by.days, point.y)

    async with Client(move) as client:
        assert await client.call(move, Point(1), datetime.timedelta(days=2), steps=3) == Point(7)
        assert await client.call(move, point=Point(1), by=datetime.timedelta(days=1)) == Point(2)


async def test_wrong_arguments_are_refused_as_they_would_be_from_outside() -> None:
    @tool
    async def add(a: int) -> int:
        return a

    loose: Any = add
    async with Client(add) as client:
        with pytest.raises(BadArguments):
            await client.call(loose, a="one")
        with pytest.raises(BadArguments):
            await client.call(loose)
        with pytest.raises(TypeError, match="unexpected keyword argument 'b'"):
            await client.call(loose, b=1)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (None, None),
        (str, "text"),
        (str | None, None),
        (Any, [1, {"a": None}]),
        (Text, Text("a")),
        (list[Text], [Text("a")]),
        (list[Text], []),
        (tuple[Text, Image], (Text("a"), Image(b"x"))),
        (tuple[Text, ...], (Text("a"),)),
        (Text | Image, Image(b"x")),
        (Image | None, Image(b"x")),
        (Image | None, None),
        (Point | None, Point(1)),
        (list[Point], [Point(1, 2)]),
        (Reply, Reply((Text("a"),), {"k": 1}, {"m": 2})),
    ],
    ids=str,
)
async def test_the_return_value_is_the_functions_own(hint: Any, value: Any) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = hint
    marked = tool(give)
    async with Client(marked) as client:
        returned = await client.call(marked)
    assert returned == value
    assert type(returned) is type(value)


async def test_an_error_reply_is_raised_with_its_words() -> None:
    @tool
    def fail() -> Reply:
        return Reply((Text("first"), Image(b"x"), Text("second")), is_error=True)

    async with Client(fail) as client:
        with pytest.raises(ToolFailed, match="first; second"):
            await client.call(fail)


async def test_without_answers_nobody_can_be_asked() -> None:
    client = Client()
    assert not client.can("elicitation")
    with pytest.raises(Unsupported):
        await client.ask({"q": Roots()})
    client = Client(answers=lambda _, __: Filled("decline"))
    assert client.can("sampling")
    assert await client.ask({"q": Roots()}) == {"q": Filled("decline")}


async def test_every_call_is_recorded() -> None:
    @tool
    async def add(a: int) -> int:
        return a

    async with Client(add) as client:
        await client.call(add, 1)
        journal: Any = client.hall.journal
        assert [record.dialect for record in journal.records] == ["memory"]


async def test_a_tool_of_another_hall_is_unknown() -> None:
    @tool
    async def add(a: int) -> int:
        return a

    async with Client() as client:
        with pytest.raises(Exception, match="unknown tool: add"):
            await client.call(add, 1)
