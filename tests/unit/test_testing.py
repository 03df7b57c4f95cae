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
from toolhall.model.tool import Task
from toolhall.testing import Client


class Point(msgspec.Struct):
    x: int
    y: int = 0


async def test_client_hall_outside_async_with_raises_runtime_error() -> None:
    client = Client()
    with pytest.raises(RuntimeError, match="use the client inside 'async with Client"):
        _ = client.hall
    async with client:
        assert client.hall.registry.snapshot.entries == ()
    with pytest.raises(RuntimeError):
        _ = client.hall


async def test_client_call_encodes_arguments_as_json() -> None:
    @tool
    async def move(ctx: Context, point: Point, by: datetime.timedelta, *, steps: int = 1) -> Point:
        return Point(point.x + steps * by.days, point.y)

    async with Client(move) as client:
        assert await client.call(move, Point(1), datetime.timedelta(days=2), steps=3) == Point(7)
        assert await client.call(move, point=Point(1), by=datetime.timedelta(days=1)) == Point(2)


async def test_client_call_with_wrong_arguments_raises_bad_arguments() -> None:
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
async def test_client_call_returns_the_declared_type_of_the_function(hint: Any, value: Any) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = hint
    marked = tool(give)
    async with Client(marked) as client:
        returned = await client.call(marked)
    assert returned == value
    assert type(returned) is type(value)


async def test_client_call_raises_an_error_reply_with_its_texts() -> None:
    @tool
    def fail() -> Reply:
        return Reply((Text("first"), Image(b"x"), Text("second")), is_error=True)

    async with Client(fail) as client:
        with pytest.raises(ToolFailed, match="first; second"):
            await client.call(fail)


async def test_client_without_answers_does_not_support_questions() -> None:
    client = Client()
    assert not client.can("elicitation")
    with pytest.raises(Unsupported):
        await client.ask({"q": Roots()})
    client = Client(answers=lambda _, __: Filled("decline"))
    assert client.can("sampling")
    assert await client.ask({"q": Roots()}) == {"q": Filled("decline")}


async def test_client_call_is_recorded_in_the_audit_journal() -> None:
    @tool
    async def add(a: int) -> int:
        return a

    async with Client(add) as client:
        await client.call(add, 1)
        journal: Any = client.hall.journal
        assert [record.dialect for record in journal.records] == ["memory"]


async def test_client_call_of_a_tool_that_is_not_served_is_unknown() -> None:
    @tool
    async def add(a: int) -> int:
        return a

    async with Client() as client:
        with pytest.raises(Exception, match="unknown tool: add"):
            await client.call(add, 1)


async def test_client_task_waits_for_its_result_and_answers_its_questions() -> None:
    @tool(effect="writes", task=Task(required=True))
    async def greet(ctx: Context, greeting: str) -> str:
        given = await ctx.ask("Name?", {"type": "object", "properties": {"name": {"type": "string"}}}, key="name")
        return f"{greeting}, {given.value['name']}, {ctx.task_id is not None}"

    @tool(task=True)
    async def fails() -> None:
        raise ToolFailed("no luck")

    async with Client(greet, fails, answers=lambda key, question: Filled("accept", {"name": "Ada"})) as client:
        assert (await client.task("greet", {"greeting": "Hello"})).text == "Hello, Ada, True"
        assert await client.call(greet, "Hello") == "Hello, Ada, False", "a test waits, so it may call it in line too"
        with pytest.raises(ToolFailed, match="no luck"):
            await client.task("fails")
        with pytest.raises(BadArguments):
            await client.task("greet", {"greeting": 5})
        assert await client.task(greet, "Hello") == "Hello, Ada, True", "by its function, with its own parameters"
        assert await client.task(greet, greeting="Hi") == "Hi, Ada, True"
        with pytest.raises(ToolFailed, match="no luck"):
            await client.task(fails)


async def test_client_task_by_function_returns_the_functions_own_type() -> None:
    @tool(task=True)
    async def move(point: Point, by: int = 1) -> Point:
        return Point(point.x + by, point.y)

    async with Client(move) as client:
        assert await client.task(move, Point(1, 2), by=3) == Point(4, 2)
