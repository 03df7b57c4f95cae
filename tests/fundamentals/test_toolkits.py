"""A toolkit: tools that ship, are versioned and configured together."""

import types

from toolhall import Context, Toolkit, tool
from toolhall.testing import Client


class Counter(Toolkit, version="1.2.0", level=3, tags=["count"]):
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.count = start

    @tool(effect="writes")
    async def add(self, ctx: Context, by: int = 1) -> int:
        """Count on."""
        ctx.log(f"adding {by}")
        self.count += by
        return self.count

    @tool(effect="reads", version="2.0.0", level=0, tags=["look"])
    def read(self) -> int:
        return self.count

    def not_a_tool(self) -> int:
        return -1


async def test_each_decorated_method_is_a_tool() -> None:
    counter = Counter()
    async with Client(counter) as client:
        assert await client.call(counter.add, by=2) == 2
        assert await client.call(counter.read) == 2


async def test_toolkit_instance_keeps_its_state_between_calls() -> None:
    counter = Counter(start=40)
    async with Client(counter) as client:
        await client.call(counter.add)
        await client.call(counter.add)
    assert counter.count == 42


async def test_toolkit_class_is_instantiated_when_served() -> None:
    async with Client(Counter) as client:
        await client.call_named("Counter_add", {"by": 5})
        assert (await client.call_named("Counter_read", {})).encoded == b"5"


async def test_published_names_have_the_toolkit() -> None:
    async with Client(Counter) as client:
        tools = await client.list_tools()
    assert [each.name for each in tools] == ["Counter_add", "Counter_read"]
    assert [str(each.id) for each in tools] == ["Counter.add@1.2.0", "Counter.read@2.0.0"]


async def test_class_options_are_defaults_of_tools() -> None:
    async with Client(Counter) as client:
        add, read = await client.list_tools()
    assert (add.level, add.id.version, add.tags) == (3, "1.2.0", ("count",))
    assert (read.level, read.id.version, read.tags) == (0, "2.0.0", ("count", "look"))


async def test_toolkit_name_option_prefixes_published_names() -> None:
    class Internal(Toolkit, name="Clock"):
        @tool
        def now(self) -> str:
            return "noon"

    async with Client(Internal) as client:
        (definition,) = await client.list_tools()
    assert (definition.name, definition.id.toolkit) == ("Clock_now", "Clock")


async def test_subclass_inherits_tools() -> None:
    class Doubling(Counter):
        @tool
        def double(self) -> int:
            self.count *= 2
            return self.count

    doubling = Doubling(start=4)
    async with Client(doubling) as client:
        assert [each.name for each in await client.list_tools()] == ["Doubling_add", "Doubling_read", "Doubling_double"]
        assert await client.call(doubling.double) == 8


async def test_static_method_can_be_a_tool() -> None:
    class Maths(Toolkit):
        @staticmethod
        @tool
        def half(number: float) -> float:
            return number / 2

    async with Client(Maths) as client:
        assert (await client.call_named("Maths_half", {"number": 3})).encoded == b"1.5"


async def test_serving_a_toolkit_evaluates_no_properties() -> None:
    class Careful(Toolkit):
        @property
        def connection(self) -> str:
            raise AssertionError("nobody asked for it")

        @tool
        def ping(self) -> str:
            return "pong"

    async with Client(Careful) as client:
        assert (await client.call_named("Careful_ping", {})).text == "pong"


async def test_long_name_is_shortened_deterministically() -> None:
    class AVeryLongToolkitNameThatSaysEverything(Toolkit):
        @tool
        def and_a_tool_name_that_is_hardly_any_shorter(self) -> str:
            return "here"

    async with Client(AVeryLongToolkitNameThatSaysEverything) as client:
        (definition,) = await client.list_tools()
        assert len(definition.name) == 64
        assert definition.name.startswith("AVeryLongToolkitNameThatSaysEverything_and_a_tool_name_")
        assert definition.name.endswith("_6554529f")
        assert (await client.call_named(definition.name, {})).text == "here"


async def test_module_is_served_without_its_imports() -> None:
    module = types.ModuleType("weather")
    source = (
        "from toolhall import Toolkit, tool\n"
        "from tests.fundamentals.test_toolkits import Counter\n"
        "@tool\n"
        "def forecast(city: str) -> str:\n"
        "    return city\n"
        "class Stations(Toolkit):\n"
        "    @tool\n"
        "    def near(self, city: str) -> list[str]:\n"
        "        return [city]\n"
    )
    exec(compile(source, "weather.py", "exec"), module.__dict__)
    async with Client(module) as client:
        names = [str(definition.id) for definition in await client.list_tools()]
    assert names == ["weather.forecast@0.1.0", "Stations.near@0.1.0"]
