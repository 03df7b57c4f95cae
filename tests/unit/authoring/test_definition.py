"""From marked functions, toolkits and modules to definitions."""

import sys
import types
from typing import Any

import pytest

from toolhall.authoring.declaration import BadDeclaration, Toolkit, tool
from toolhall.authoring.definition import definitions_of


def module_of(source: str, name: str = "made", file: str = "made.py") -> types.ModuleType:
    module = types.ModuleType(name)
    exec(compile("from toolhall import Toolkit, tool\n" + source, file, "exec"), module.__dict__)
    return module


def ids(target: object) -> list[str]:
    return [str(definition.tool.id) for definition in definitions_of(target)]


def test_function_has_default_version() -> None:
    @tool
    def pick() -> None: ...

    (definition,) = definitions_of(pick)
    assert definition.tool.id.version == "0.1.0"


@pytest.mark.parametrize(
    ("file", "toolkit"),
    [
        ("weather.py", "weather"),
        ("/a/b/my-tools.v2.py", "my_tools_v2"),
        ("wétter.py", "w_tter"),
        ("x" * 80 + ".py", "x" * 64),
    ],
)
def test_function_toolkit_is_named_after_its_file(file: str, toolkit: str) -> None:
    module = module_of("@tool\ndef pick() -> None: ...\n", file=file)
    assert ids(module) == [f"{toolkit}.pick@0.1.0"]


def test_module_lists_functions_before_toolkits() -> None:
    module = module_of(
        "class Kit(Toolkit):\n  @tool\n  def b(self) -> None: ...\n  @tool\n  def a(self) -> None: ...\n"
        "@tool\ndef second() -> None: ...\n"
        "@tool\ndef first() -> None: ...\n"
    )
    assert ids(module) == ["made.second@0.1.0", "made.first@0.1.0", "Kit.b@0.1.0", "Kit.a@0.1.0"]


def test_module_instance_replaces_its_class() -> None:
    module = module_of("class Kit(Toolkit):\n  @tool\n  def a(self) -> None: ...\nkit = Kit()\n")
    assert ids(module) == ["Kit.a@0.1.0"]


def test_bound_method_is_one_tool() -> None:
    class Kit(Toolkit, version="2.0.0"):
        @tool
        def a(self) -> None: ...

        @tool
        def b(self) -> None: ...

    assert ids(Kit().b) == ["Kit.b@2.0.0"]


def test_overridden_tool_is_listed_once() -> None:
    class Parent(Toolkit):
        @tool
        def a(self) -> str:
            return "parent"

        @tool
        def b(self) -> str:
            return "parent"

    class Child(Parent):
        @tool
        def a(self) -> str:
            return "child"

        def b(self) -> str:
            return "not a tool any more"

    (definition,) = definitions_of(Child)
    assert definition.body.function() == "child"


def test_function_body_knows_how_to_call() -> None:
    @tool
    async def later() -> None: ...

    @tool
    def now() -> None: ...

    assert next(definitions_of(later)).body.is_async
    assert not next(definitions_of(now)).body.is_async


@pytest.mark.parametrize("target", [None, 3, "text", sys.modules, object(), int, Toolkit.__init_subclass__])
def test_other_object_is_refused(target: Any) -> None:
    with pytest.raises(BadDeclaration, match="contains no tool"):
        list(definitions_of(target))


def test_empty_toolkit_or_module_has_no_tools() -> None:
    class Empty(Toolkit):
        pass

    assert ids(Empty) == []
    assert ids(module_of("")) == []
