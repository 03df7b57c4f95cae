"""A function becomes a tool, and stays a function."""

import asyncio
import threading

import pytest

from tests.harness.patience import patience
from toolhall import Toolhall, ToolhallError, tool
from toolhall.testing import Client


async def test_function_becomes_a_tool() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with Client(add) as client:
        assert await client.call(add, a=2, b=3) == 5


async def test_docstring_is_the_description() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async with Client(add) as client:
        (definition,) = await client.list_tools()
    assert (definition.name, definition.description) == ("add", "Add two numbers.")


def test_decorated_function_can_be_called() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    assert add(2, 3) == 5


async def test_decorator_with_and_without_parentheses_makes_tools() -> None:
    @tool
    def bare() -> str:
        return "bare"

    @tool()
    def empty() -> str:
        return "empty"

    @tool(effect="reads")
    def full() -> str:
        return "full"

    async with Client(bare, empty, full) as client:
        said = [await client.call(each) for each in (bare, empty, full)]
    assert said == ["bare", "empty", "full"]


async def test_async_function_runs_in_the_loop() -> None:
    @tool
    async def where() -> bool:
        return asyncio.get_running_loop().is_running() and threading.current_thread() is threading.main_thread()

    async with Client(where) as client:
        assert await client.call(where)


async def test_sync_function_runs_in_a_thread() -> None:
    started, release = threading.Event(), threading.Event()

    @tool
    def slow() -> bool:
        started.set()
        return release.wait(patience())

    @tool
    async def quick() -> str:
        return "quick"

    async with Client(slow, quick) as client:
        waiting = asyncio.create_task(client.call(slow))
        await asyncio.to_thread(started.wait, patience())
        try:
            assert await client.call(quick) == "quick"
            assert not waiting.done()
        finally:
            release.set()
        assert await waiting


async def test_function_toolkit_is_named_after_its_file() -> None:
    @tool
    def add(a: int) -> int:
        return a

    async with Client(add) as client:
        (definition,) = await client.list_tools()
    assert str(definition.id) == "test_tools.add@0.1.0"


async def test_name_option_replaces_the_function_name() -> None:
    @tool(name="get_sum")
    def add(a: int, b: int) -> int:
        return a + b

    async with Client(add) as client:
        (definition,) = await client.list_tools()
        assert (definition.name, definition.id.tool) == ("get_sum", "get_sum")
        assert await client.call(add, a=1, b=1) == 2


async def test_tool_is_called_by_name_or_id() -> None:
    @tool(version="1.2.0")
    def add(a: int) -> int:
        return a + 1

    async with Client(add) as client:
        by_name = await client.call_named("add", {"a": 1})
        by_id = await client.call_named("test_tools.add@1.2.0", {"a": 1})
    assert by_name.encoded == by_id.encoded == b"2"


async def test_unknown_tool_is_refused() -> None:
    async with Client() as client:
        with pytest.raises(ToolhallError, match="unknown tool: nowhere"):
            await client.call_named("nowhere", {})


async def test_tools_are_listed_in_order() -> None:
    @tool
    def second() -> None: ...

    @tool
    def first() -> None: ...

    async with Client(first, second) as client:
        assert [definition.name for definition in await client.list_tools()] == ["first", "second"]


async def test_duplicate_name_is_refused() -> None:
    @tool(name="twin")
    def one() -> None: ...

    @tool(name="Twin")
    def other() -> None: ...

    with (
        Toolhall() as hall,
        pytest.raises(
            ValueError, match=r"test_tools\.Twin@0\.1\.0 would be published as 'Twin'.*test_tools\.twin@0\.1\.0"
        ),
    ):
        hall.add(one, other)


async def test_tools_can_be_added_and_removed_while_open() -> None:
    @tool
    def add(a: int) -> int:
        return a

    async with Client() as client:
        client.hall.add(add)
        assert await client.call(add, a=7) == 7
        assert client.hall.remove("add")
        assert not client.hall.remove("add")
        assert await client.list_tools() == ()


async def test_adding_is_atomic() -> None:
    @tool
    def fine() -> None: ...

    @tool(name="FINE")
    def twin() -> None: ...

    async with Client() as client:
        with pytest.raises(ValueError, match="rename one of them"):
            client.hall.add(fine, twin)
        assert await client.list_tools() == ()
