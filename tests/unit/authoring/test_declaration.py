"""What `@tool` leaves on a function."""

import functools
from typing import Any

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import declaration_of, tool
from toolhall.model.tool import Output


def test_declaration_of_decorated_function() -> None:
    def pick(city: str) -> None: ...

    assert declaration_of(pick) is None
    assert tool(pick) is pick
    found = declaration_of(pick)
    assert found is not None
    assert (found.name, found.function, found.is_method, found.takes_context) == ("pick", pick, False, False)


def test_declaration_of_other_objects_is_none() -> None:
    class Odd:
        __toolhall__ = "odd"

    for candidate in (None, 3, "text", Odd(), Odd, print):
        assert declaration_of(candidate) is None


def test_method_with_context_is_recognized() -> None:
    @tool
    def pick(self: Any, ctx: Context, city: str) -> None: ...

    found = declaration_of(pick)
    assert found is not None
    assert (found.is_method, found.takes_context) == (True, True)
    assert list(found.resolve_signature().input["properties"]) == ["city"]


def test_parameter_named_like_a_context_is_not_one() -> None:
    @tool
    def pick(ctx: str) -> None: ...

    found = declaration_of(pick)
    assert found is not None
    assert not found.takes_context


def test_output_option_overrides_return_type() -> None:
    @tool(output={"type": "object"})
    def pick() -> dict[str, int]:
        return {}

    found = declaration_of(pick)
    assert found is not None
    assert found.resolve_signature().output == Output("schema", {"type": "object"})


def test_input_option_keeps_return_type() -> None:
    @tool(input={"type": "object"})
    def pick(ctx: Context, **arguments: Any) -> int:
        return 1

    found = declaration_of(pick)
    assert found is not None
    assert found.takes_context
    assert found.resolve_signature().input == {"type": "object", "properties": {}}
    assert found.resolve_signature().output.schema == {"type": "integer"}
    assert found.resolve_signature().bind({"a": 1}) == {"a": 1}


def test_input_and_output_options_together() -> None:
    @tool(input={"type": "object"}, output={"type": "array"})
    def pick(**arguments: Any) -> Any: ...

    found = declaration_of(pick)
    assert found is not None
    assert found.resolve_signature().output == Output("schema", {"type": "array"})


def test_wrapped_function_is_read_through_its_wrapper() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    def pick(city: str, days: int = 1) -> str:
        return city * days

    marked = tool(logged(pick))
    found = declaration_of(marked)
    assert found is not None
    assert list(found.resolve_signature().input["properties"]) == ["city", "days"]
    assert found.name == "pick"
