"""Which functions another process can find again, and what is said of the others."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.threats import isolated_tools as tools
from toolhall import BadDeclaration, Toolkit, tool
from toolhall.authoring.definition import FunctionBody, definitions_of
from toolhall.execution.function_ref import (
    FunctionRef,
    function_ref_for,
    load_function,
    load_module,
    stateless_function_ref_for,
)

FILE = str(Path(tools.__file__).resolve())


def body_of(target: Any) -> FunctionBody:
    return next(definitions_of(target)).body


class Empty(Toolkit):
    @tool
    def nothing(self) -> None: ...


@tool
def renamed() -> None: ...


other = renamed
del renamed


def test_function_ref_for_functions_and_methods_resolves() -> None:
    assert function_ref_for(body_of(tools.where)) == FunctionRef(tools.__name__, FILE, ("where",))
    assert function_ref_for(body_of(tools.Counter)) == FunctionRef(
        tools.__name__, FILE, ("Counter", "count_up"), make=True
    )
    assert function_ref_for(body_of(tools.anna)) == FunctionRef(tools.__name__, FILE, ("anna", "said"))
    assert function_ref_for(body_of(Empty())).make


def test_load_function_returns_the_same_function() -> None:
    made: dict[tuple[str, ...], Any] = {}
    assert load_function(function_ref_for(body_of(tools.where)), made) is tools.where
    assert load_function(function_ref_for(body_of(tools.anna)), made) == tools.anna.said
    counted = function_ref_for(body_of(tools.Counter))
    assert load_function(counted, made) == load_function(counted, made)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (other, "holds something else under the name renamed; rename one"),
        (tools.Named("bert"), "its toolkit is no variable of its module; make it one, or serve the class"),
    ],
)
def test_function_ref_for_unreachable_function_is_refused_with_fix(target: Any, problem: str) -> None:
    with pytest.raises(BadDeclaration, match=rf"\.py:\d+: tool '\w+': isolated=True: .*{problem}"):
        function_ref_for(body_of(target))


def test_function_ref_for_nested_function_is_refused() -> None:
    @tool
    def inner() -> None: ...

    class Inner(Toolkit):
        @tool
        def method(self) -> None: ...

    for target in (inner, Inner):
        with pytest.raises(BadDeclaration, match="it is made inside a function; move it to the top of its module"):
            function_ref_for(body_of(target))


def test_function_ref_for_main_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    exec("from toolhall import tool\n@tool\ndef cell() -> None: ...", vars(notebook))
    with pytest.raises(BadDeclaration, match="move it to a file of its own and import it"):
        function_ref_for(body_of(notebook.cell))


def test_stateless_function_ref_for_stateful_toolkit_is_none() -> None:
    assert stateless_function_ref_for(body_of(tools.where)) is not None
    assert stateless_function_ref_for(body_of(Empty())) is not None
    assert stateless_function_ref_for(body_of(tools.Counter)) is None
    assert stateless_function_ref_for(body_of(other)) is None


def test_load_module_ignores_other_module_of_the_same_name(tmp_path: Path) -> None:
    file = tmp_path / "calendar.py"
    file.write_text("MINE = True")
    address = FunctionRef("toolhall_test_calendar", str(file), ())
    try:
        assert load_module(address).MINE
        assert load_module(address) is sys.modules["toolhall_test_calendar"]
    finally:
        del sys.modules["toolhall_test_calendar"]
