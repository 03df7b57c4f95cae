"""A wrong declaration fails where it is written, with the file, the parameter and the fix."""

import functools
import re
import types
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import pytest

from toolhall import BadDeclaration, Context, Icon, Toolhall, Toolkit, tool
from toolhall.testing import Client

HERE = re.escape(__file__)
LOOSE: Any = tool  # where a type checker would see the mistake first


def mark_loosely(**options: Any) -> None:
    def pick() -> None: ...

    LOOSE(**options)(pick)


def unannotated() -> None:
    def pick(city: str) -> None: ...

    del pick.__annotations__["city"]
    tool(pick)


def not_json() -> None:
    @tool
    def pick(number: complex) -> None: ...


def not_json_returned() -> None:
    @tool
    def pick() -> complex:
        return 1j


def takes_args() -> None:
    @tool
    def pick(*cities: str) -> None: ...


def takes_kwargs() -> None:
    @tool
    def pick(**cities: str) -> None: ...


def positional_only() -> None:
    @tool
    def pick(city: str, /) -> None: ...


def context_second() -> None:
    @tool
    def pick(city: str, ctx: Context) -> None: ...


def context_twice() -> None:
    @tool
    def pick(ctx: Context, other: Context) -> None: ...


def context_by_keyword() -> None:
    @tool
    def pick(*, ctx: Context, city: str) -> None: ...


def default_not_json() -> None:
    def pick(city: str = "") -> None: ...

    pick.__defaults__ = (object(),)
    tool(pick)


def bound_of_the_wrong_kind() -> None:
    @tool
    def pick(city: Annotated[str, msgspec.Meta(ge=3)]) -> None: ...


def pattern_that_could_hang() -> None:
    @tool
    def pick(city: Annotated[str, msgspec.Meta(pattern=r"(a)\1")]) -> None: ...


def ambiguous_union() -> None:
    class One(msgspec.Struct):
        a: int

    class Two(msgspec.Struct):
        b: int

    @tool
    def pick(either: One | Two) -> None: ...


def level_out_of_range() -> None:
    @tool(level=11)
    def pick() -> None: ...


def level_not_a_number() -> None:
    @tool(level=True)
    def pick() -> None: ...


def bad_name() -> None:
    @tool(name="get weather")
    def pick() -> None: ...


def bad_version() -> None:
    @tool(version="1.2")
    def pick() -> None: ...


def bad_timeout() -> None:
    @tool(timeout=0)
    def pick() -> None: ...


def isolated_as_text() -> None:
    mark_loosely(isolated="yes")


def bad_effect() -> None:
    mark_loosely(effect="read")


def tags_as_text() -> None:
    mark_loosely(tags="weather")


def title_not_text() -> None:
    mark_loosely(title=3)


def hints_as_dict() -> None:
    mark_loosely(annotations={"read_only": True})


def icon_from_anywhere() -> None:
    @tool(icons=[Icon(src="javascript:alert(1)")])
    def pick() -> None: ...


def icon_as_text() -> None:
    mark_loosely(icons=["https://example.org/a.png"])


def unknown_option() -> None:
    mark_loosely(colour="red")


def input_not_an_object() -> None:
    @tool(input={"type": "string"})
    def pick(**arguments: Any) -> None: ...


def input_with_named_parameters() -> None:
    @tool(input={"type": "object"})
    def pick(city: str) -> None: ...


def input_that_leaves_the_document() -> None:
    @tool(input={"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}})
    def pick(**arguments: Any) -> None: ...


def output_that_is_no_schema() -> None:
    @tool(output={"type": "text"})
    def pick() -> None: ...


def header_with_a_bad_name() -> None:
    @tool
    def pick(city: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "my city"})]) -> None: ...


MISTAKES: list[tuple[Callable[[], None], str]] = [
    (unannotated, "parameter 'city' has no type; annotate it, for example 'city: str'"),
    (not_json, "parameter 'number': type <class 'complex'> is not supported; use a type that JSON can express"),
    (not_json_returned, "the return type: type <class 'complex'> is not supported; use a type that JSON can express"),
    (takes_args, "parameter 'cities': a tool cannot take *args or **kwargs; name every parameter"),
    (takes_kwargs, "parameter 'cities': a tool cannot take *args or **kwargs; name every parameter"),
    (positional_only, "parameter 'city' is positional-only; remove the '/' from the signature"),
    (context_second, "parameter 'ctx': the Context must be the first parameter, and only once"),
    (context_twice, "parameter 'other': the Context must be the first parameter, and only once"),
    (context_by_keyword, "parameter 'ctx': the Context must be the first parameter, and only once"),
    (default_not_json, "parameter 'city': its default cannot be written as JSON; use None and fill it in inside"),
    (bound_of_the_wrong_kind, "parameter 'city': Can only set `ge` on a numeric type"),
    (pattern_that_could_hang, "/properties/city/pattern: this pattern cannot be used: write it short, without look-ar"),
    (ambiguous_union, "parameter 'either': "),
    (level_out_of_range, "level is 11; use a whole number from 0 to 10"),
    (level_not_a_number, "level is True; use a whole number from 0 to 10"),
    (bad_name, "'get weather' is not a name: use 1 to 64 of the letters A-Z a-z, digits, _ and -"),
    (bad_version, "'1.2' is not a semantic version: write three numbers such as '1.2.0'"),
    (bad_timeout, "timeout is 0; use a number of seconds, more than 0"),
    (isolated_as_text, "isolated is 'yes'; use True or False"),
    (bad_effect, "effect is 'read'; use one of reads, writes, destroys"),
    (tags_as_text, "tags is 'weather'; use a list of strings"),
    (title_not_text, "title is 3; use a string"),
    (hints_as_dict, "annotations is {'read_only': True}; use Annotations(...)"),
    (icon_from_anywhere, "icon 'javascript:alert(1)': use an https: address or a data:image/ one"),
    (icon_as_text, "icons is ['https://example.org/a.png']; use a list of Icon(...)"),
    (unknown_option, "@tool has no option 'colour'; it takes name, title, "),
    (input_not_an_object, "input is {'type': 'string'}; use a JSON Schema of an object"),
    (input_with_named_parameters, "a tool with input=... takes its arguments as '**arguments'"),
    (input_that_leaves_the_document, "input schema cannot be served: /properties/a/$ref: only references inside"),
    (output_that_is_no_schema, "output schema cannot be served: /type: "),
    (header_with_a_bad_name, "/properties/city/x-mcp-header: must be a header name"),
]


@pytest.mark.parametrize(("mistake", "told"), MISTAKES, ids=[mistake.__name__ for mistake, _ in MISTAKES])
def test_mistake_is_reported_with_location_and_fix(mistake: Callable[[], None], told: str) -> None:
    with pytest.raises(BadDeclaration) as caught:
        mistake()
    message = str(caught.value)
    assert re.match(rf"{HERE}:\d+: tool 'pick': ", message), message
    assert told in message


def test_mistake_has_the_line_of_the_function() -> None:
    with pytest.raises(BadDeclaration) as caught:
        unannotated()
    line = unannotated.__code__.co_firstlineno + 1
    assert str(caught.value).startswith(f"{__file__}:{line}: ")


def test_decorating_other_objects_is_refused() -> None:
    with pytest.raises(BadDeclaration, match=r"@tool marks functions; <class 'int'> is a type"):
        tool(int)


def test_tool_decorator_above_others_is_refused() -> None:
    def forecast(city: str) -> None: ...

    with pytest.raises(BadDeclaration, match="is a staticmethod; put @tool below other decorators"):
        tool(staticmethod(forecast))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"level": 12}, "toolkit 'Weather': level is 12; use a whole number from 0 to 10"),
        ({"version": "one"}, "toolkit 'Weather': 'one' is not a semantic version"),
        ({"version": 1}, "toolkit 'Weather': 1 is not a semantic version"),
        ({"isolated": 1}, "toolkit 'Weather': isolated is 1; use True or False"),
        ({"name": "the weather"}, "toolkit 'Weather': 'the weather' is not a name"),
        ({"colour": "red"}, "toolkit 'Weather': a Toolkit has no option 'colour'; it takes name, version"),
    ],
    ids=str,
)
def test_invalid_class_line_is_reported(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadDeclaration, match=re.escape(told)):
        types.new_class("Weather", (Toolkit,), options)


async def test_method_without_toolkit_is_refused() -> None:
    class Weather(Toolkit):
        @tool
        def forecast(self) -> None: ...

    with pytest.raises(BadDeclaration, match="tool 'forecast' is a method; serve an instance of its Toolkit"):
        async with Client(Weather.forecast):
            pass


async def test_object_without_tools_is_refused() -> None:
    def plain() -> None: ...

    with pytest.raises(
        BadDeclaration, match="contains no tool: mark a function with @tool, @resource or @prompt, or pass a Toolkit"
    ):
        async with Client(plain):
            pass


async def test_forward_reference_is_resolved_later() -> None:
    module = types.ModuleType("later")
    source = "def pick(place: 'Place') -> str:\n    return place.name\n"
    exec(compile(source, "later.py", "exec"), module.__dict__)
    marked = tool(module.__dict__["pick"])
    module.__dict__["Place"] = msgspec.defstruct("Place", [("name", str)])
    async with Client(marked) as client:
        assert (await client.call_named("pick", {"place": {"name": "Oslo"}})).text == "Oslo"


async def test_undefined_type_is_reported_when_served() -> None:
    def pick(place: str) -> None: ...

    pick.__annotations__["place"] = "Nowhere"
    tool(pick)
    with pytest.raises(BadDeclaration, match=rf"{HERE}:\d+: tool 'pick': name 'Nowhere' is not defined; import or def"):
        async with Client(pick):
            pass


def test_generator_is_refused() -> None:
    with pytest.raises(BadDeclaration, match=r"tool 'steps': a tool cannot 'yield'; return a list"):

        @tool
        async def steps() -> Any:
            yield 1


def test_class_method_is_refused() -> None:
    with pytest.raises(BadDeclaration, match="make it a plain method with 'self'"):

        @tool
        def made(cls: type) -> None: ...


def test_default_of_another_type_is_refused() -> None:
    with pytest.raises(BadDeclaration, match="parameter 'days': its default does not fit its type"):

        @tool
        def forecast(days: int = "three") -> None: ...  # type: ignore[assignment]


def test_method_without_self_is_refused() -> None:
    class Kit(Toolkit):
        @tool
        def alone(x: int) -> int:  # type: ignore[misc]  # noqa: N805
            return x

    with pytest.raises(BadDeclaration, match="its first parameter must be 'self'"):
        Toolhall(Kit)


def test_tags_as_a_string_are_refused() -> None:
    with pytest.raises(BadDeclaration, match=r"test_mistakes\.py: toolkit 'Kit': tags is a string"):

        class Kit(Toolkit, tags="abc"):  # type: ignore[arg-type]
            pass


async def test_wrapped_async_function_is_awaited() -> None:
    async def inner() -> str:
        return "done"

    @functools.wraps(inner)
    def wrapper() -> Any:
        return inner()

    async with Client(tool(wrapper)) as client:
        assert await client.call_named("inner", {}) is not None


def test_reserved_metadata_keys_are_refused() -> None:
    with pytest.raises(BadDeclaration, match="a prefix that is reserved for MCP"):

        @tool(meta={"io.modelcontextprotocol/x": 1})
        def marked() -> None: ...


@pytest.mark.requirement("EL-4")
async def test_form_that_asks_for_a_secret_is_refused() -> None:
    with pytest.raises(TypeError, match=r"field 'password' asks for a secret; .* ctx\.visit"):
        await Context().ask("Log in", {"type": "object", "properties": {"password": {"type": "string"}}})
