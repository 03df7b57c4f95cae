"""Everything that layers hand to each other is a frozen value."""

import importlib
import pkgutil
from collections.abc import Iterator

import msgspec
import pytest

import toolhall.dialects.mcp
import toolhall.model
from toolhall.pipeline import states

PACKAGES = [toolhall.model, toolhall.dialects.mcp]


def structs() -> Iterator[type[msgspec.Struct]]:
    modules = [
        importlib.import_module(module.name)
        for package in PACKAGES
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    ]
    for module in (*modules, states):
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, msgspec.Struct) and found.__module__ == module.__name__:
                yield found


def test_struct_is_frozen(subtests: pytest.Subtests) -> None:
    for kind in list(structs()):
        with subtests.test(repr(kind)):
            assert kind.__struct_config__.frozen


def test_structs_are_found() -> None:
    assert len(list(structs())) > 30
