"""Types: anything that JSON can express arrives as the type that was declared."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import uuid
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from toolhall import Context, ToolhallError, tool
from toolhall.model.errors import BadArguments
from toolhall.testing import Client


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(msgspec.Struct):
    x: int
    y: int = 0


@dataclasses.dataclass
class Line:
    start: Point
    end: Point
    colour: Colour = Colour.RED


class Options(TypedDict):
    width: int
    dashed: NotRequired[bool]


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1)
    born: datetime.date | None = None


class Tree(msgspec.Struct):
    name: str
    parts: "list[Tree]" = []


class Circle(msgspec.Struct, tag=True):
    radius: float


class Square(msgspec.Struct, tag=True):
    side: float


@tool
def bytes_length(data: bytes) -> int:
    return len(data)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (bool, True),
        (int, -7),
        (float, 2.5),
        (str, "æøå 🎉"),
        (list[int], [1, 2]),
        (dict[str, int], {"a": 1}),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (Colour, Colour.BLUE),
        (Literal["a", "b"], "b"),
        (Literal[1, 2], 2),
        (int | str, 3),
        (int | str, "three"),
        (int | None, None),
        (Point, Point(1, 2)),
        (list[Point], [Point(1), Point(2, 3)]),
        (Line, Line(Point(1), Point(2), Colour.BLUE)),
        (Options, {"width": 1}),
        (Options, {"width": 1, "dashed": True}),
        (Person, Person(name="Ada", born=datetime.date(1815, 12, 10))),
        (Person | None, None),
        (list[Person], [Person(name="Ada")]),
        (Tree, Tree("root", [Tree("leaf")])),
        (Circle | Square, Square(2.0)),
        (datetime.datetime, datetime.datetime(2026, 7, 28, 12, 30, tzinfo=datetime.UTC)),
        (datetime.date, datetime.date(2026, 7, 28)),
        (datetime.time, datetime.time(12, 30)),
        (datetime.timedelta, datetime.timedelta(hours=1)),
        (decimal.Decimal, decimal.Decimal("1.10")),
        (uuid.UUID, uuid.UUID(int=7)),
        (bytes, b"\x00\xff"),
    ],
    ids=str,
)
async def test_value_round_trips_through_its_type(hint: Any, value: object) -> None:
    seen: list[object] = []

    def same(value: Any) -> Any:
        seen.append(value)
        return value

    same.__annotations__ = {"value": hint, "return": hint}
    marked = tool(same)
    async with Client(marked) as client:
        assert await client.call(marked, value) == value
    assert seen == [value]
    assert type(seen[0]) is type(value)


async def test_tagged_union_is_decoded() -> None:
    @tool
    def area(shape: Circle | Square) -> float:
        return shape.side**2 if isinstance(shape, Square) else 3 * shape.radius**2

    async with Client(area) as client:
        assert await client.call(area, Square(3)) == 9
        assert await client.call(area, Circle(1)) == 3


async def test_enum_lists_its_choices() -> None:
    @tool
    def paint(colour: Colour = Colour.RED) -> str:
        return colour.name

    async with Client(paint) as client:
        (definition,) = await client.list_tools()
        assert definition.input["properties"]["colour"]["enum"] == ["blue", "red"]
        assert definition.input["properties"]["colour"]["default"] == "red"
        assert await client.call(paint) == "RED"
        with pytest.raises(ToolhallError, match='/colour: the value is not one of "blue" or "red"'):
            await client.call_named("paint", {"colour": "green"})


async def test_nested_types_are_inlined() -> None:
    @tool
    def draw(line: Line) -> None: ...

    async with Client(draw) as client:
        (definition,) = await client.list_tools()
    assert "$ref" not in str(definition.input)
    assert definition.input["properties"]["line"]["properties"]["start"]["properties"]["x"] == {"type": "integer"}


async def test_recursive_type_has_references() -> None:
    @tool
    def depth(tree: Tree) -> int:
        return 1 + max((depth(part) for part in tree.parts), default=0)

    async with Client(depth) as client:
        (definition,) = await client.list_tools()
        assert definition.input["properties"]["tree"] == {"$ref": "#/$defs/Tree"}
        assert await client.call(depth, Tree("a", [Tree("b", [Tree("c")])])) == 3


async def test_pydantic_validators_apply() -> None:
    class Even(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def is_even(cls, number: int) -> int:
            if number % 2:
                raise ValueError("an odd number has no half")
            return number

    @tool
    def half(even: Even) -> int:
        return even.number // 2

    async with Client(half) as client:
        assert await client.call(half, Even(number=4)) == 2
        with pytest.raises(ToolhallError, match="/even/number: an odd number has no half") as caught:
            await client.call_named("half", {"even": {"number": 4711}})
    assert "4711" not in caught.value.message


async def test_schema_and_type_problems_are_reported_together() -> None:
    class Code(pydantic.BaseModel):
        code: str
        count: int = pydantic.Field(gt=3)

        @pydantic.field_validator("code")
        @classmethod
        def is_code(cls, code: str) -> str:
            raise ValueError("a code begins with SKU-")

    class Size(enum.Enum):
        SMALL = "s"
        LARGE = "l"

    @tool
    def order(code: Code, day: datetime.date, size: Size | None = None) -> None: ...

    async with Client(order) as client:
        with pytest.raises(BadArguments) as caught:
            await client.call_named("order", {"code": {"code": "x", "count": 1}, "day": "x", "size": "hunter2"})
    assert {str(problem) for problem in caught.value.problems} == {
        "/code/count: the value is less than or equal to the minimum of 3",
        "/code/code: a code begins with SKU-",
        "/day: Invalid RFC3339 encoded date; write it like 2026-12-01",
        '/size: the value is not one of "l" or "s"',
    }


async def test_validator_message_masks_the_value() -> None:
    class Key(pydantic.BaseModel):
        key: str

        @pydantic.field_validator("key")
        @classmethod
        def refuse(cls, key: str) -> str:
            raise ValueError(f"hunter2-hunter2 is better than {key}")

    @tool(secrets=["password"])
    def unlock(ctx: Context, key: Key) -> None: ...

    async with Client(unlock, supplies={"password": "hunter2-hunter2"}) as client:
        with pytest.raises(BadArguments, match="is better than x") as caught:
            await client.call_named("unlock", {"key": {"key": "x"}})
    assert "hunter2" not in f"{caught.value} {caught.value.problems}"


async def test_invalid_datetime_is_refused_with_its_path() -> None:
    @tool
    def book(start: datetime.datetime) -> None: ...

    async with Client(book) as client:
        (definition,) = await client.list_tools()
        assert definition.input["properties"]["start"] == {"type": "string", "format": "date-time"}
        with pytest.raises(
            ToolhallError, match="/start: Invalid RFC3339 encoded datetime; write it like 2026-12-01T12:00:00Z"
        ):
            await client.call_named("book", {"start": "tomorrow"})


async def test_bytes_are_base64() -> None:
    async with Client(bytes_length) as client:
        assert (await client.call_named("bytes_length", {"data": "AAEC"})).encoded == b"3"


async def test_path_is_decoded_as_a_path() -> None:
    @tool
    def parent(
        file: Annotated[pathlib.Path, "Where it is"],
        others: list[pathlib.Path] | None = None,
        root: pathlib.Path = pathlib.Path("/srv"),
        pure: pathlib.PurePosixPath | None = None,
    ) -> pathlib.Path:
        assert all(isinstance(each, pathlib.Path) for each in (file, root, *(others or ())))
        assert pure is None or type(pure) is pathlib.PurePosixPath
        return root / file.parent

    async with Client(parent) as client:
        (definition,) = await client.list_tools()
        given = definition.input["properties"]
        assert given["file"] == {"type": "string", "format": "path", "description": "Where it is"}
        assert given["root"]["default"] == "/srv"
        assert definition.output.schema == {"type": "string", "format": "path"}
        assert await client.call(parent, pathlib.Path("a/b.txt")) == pathlib.Path("/srv/a")
        found = await client.call_named("parent", {"file": "a/b", "others": ["c"], "root": "/", "pure": "d"})
        assert found.encoded == b'"/a"'
        with pytest.raises(
            BadArguments, match="/file: a path cannot contain a NUL character; /others/0: a path cannot contain a NUL"
        ):
            await client.call_named("parent", {"file": "a\0b", "others": ["\0"]})


async def test_types_of_the_same_name_are_decoded_separately() -> None:
    def make(field: str) -> Any:
        return msgspec.defstruct("Node", [(field, int), ("next", "Node | None", None)], module=field)

    first, second = make("a"), make("b")
    for each, module in ((first, "a"), (second, "b")):
        each.__annotations__["next"] = each | None
        each.__module__ = module

    def both(one: Any, other: Any) -> str:
        return f"{one.a} {other.b}"

    both.__annotations__ = {"one": first, "other": second, "return": str}
    marked = tool(both)
    async with Client(marked) as client:
        assert (await client.call_named("both", {"one": {"a": 1}, "other": {"b": 2}})).text == "1 2"
        with pytest.raises(ToolhallError, match='/other/b: "b" is a required property'):
            await client.call_named("both", {"one": {"a": 1}, "other": {"a": 2}})
