"""What can be imported from `toolhall`, and that each name says what it is."""

import importlib
import inspect
import subprocess
import sys
import types
from typing import get_args

import pytest

import toolhall
from tests.harness.patience import patience

HOMES: dict[str, str] = vars(toolhall)["_HOMES"]
ALIASES = {name for name in toolhall.__all__ if isinstance(getattr(toolhall, name), types.UnionType)}


def test_every_public_name_has_a_docstring(subtests: pytest.Subtests) -> None:
    for name in sorted({*toolhall.__all__} - ALIASES):
        with subtests.test(repr(name)):
            found = getattr(toolhall, name)
            own = found.__doc__ if isinstance(found, type) else inspect.getdoc(found)
            assert own, f"say in one sentence what {name} is"
            assert own.split("\n\n")[0].rstrip().endswith((".", ":")), name


def test_every_public_name_is_defined_in_its_module(subtests: pytest.Subtests) -> None:
    for name in toolhall.__all__:
        with subtests.test(repr(name)):
            home = importlib.import_module(HOMES[name])
            assert getattr(home, name) is getattr(toolhall, name)
            if name not in ALIASES:
                assert getattr(toolhall, name).__module__ == HOMES[name], "name the module that defines it"


def test_aliases_consist_of_public_names(subtests: pytest.Subtests) -> None:
    for name in sorted(ALIASES):
        with subtests.test(repr(name)):
            assert {part.__name__ for part in get_args(getattr(toolhall, name))} <= set(toolhall.__all__)


def test_all_is_sorted_and_complete() -> None:
    assert toolhall.__all__ == sorted(toolhall.__all__)
    assert set(HOMES) == set(toolhall.__all__)
    assert len(toolhall.__all__) <= 45, "few names are easy to remember"


def test_star_import_has_exactly_all() -> None:
    namespace: dict[str, object] = {}
    exec("from toolhall import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(toolhall.__all__)


def test_dir_lists_every_name_before_use() -> None:
    code = """
import rlcompleter, toolhall
completer = rlcompleter.Completer({"toolhall": toolhall})
print(completer.complete("toolhall.Toolk", 0))
assert [name for name in dir(toolhall) if not name.startswith("__")] == sorted(toolhall.__all__)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=patience())
    assert done.stdout.startswith("toolhall.Toolkit")


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'toolhall' has no attribute 'nothing'"):
        getattr(toolhall, "nothing")  # noqa: B009 - a type checker would find it first
    assert not hasattr(toolhall, "nothing")


def test_every_public_method_has_a_docstring(subtests: pytest.Subtests) -> None:
    for name in toolhall.__all__:
        with subtests.test(repr(name)):
            found = getattr(toolhall, name)
            if not isinstance(found, type):
                continue
            public = {key: value for key, value in vars(found).items() if not key.startswith("_")}
            bare = [key for key, value in public.items() if callable(value) and not inspect.getdoc(value)]
            assert not bare, f"{name}: say what these do"
