"""What can be imported from `toolhall`, and that each name says what it is."""

import importlib
import inspect

import pytest

import toolhall


@pytest.mark.parametrize("name", toolhall.__all__)
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    found = getattr(toolhall, name)
    own = inspect.getdoc(found) if not isinstance(found, type) else found.__doc__
    assert own, f"say in one sentence what {name} is"
    assert own.split("\n\n")[0].rstrip().endswith((".", ":")), name


@pytest.mark.parametrize("name", toolhall.__all__)
def test_every_public_name_is_that_of_its_home(name: str) -> None:
    found = getattr(toolhall, name)
    home = importlib.import_module(found.__module__)
    assert getattr(home, name) is found
    assert home.__name__.startswith("toolhall.")


def test_the_list_is_sorted_and_complete() -> None:
    assert toolhall.__all__ == sorted(toolhall.__all__)
    homes: dict[str, str] = vars(toolhall)["_HOMES"]
    assert set(homes) == set(toolhall.__all__)
    assert len(toolhall.__all__) <= 25


def test_star_import_brings_exactly_these() -> None:
    namespace: dict[str, object] = {}
    exec("from toolhall import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(toolhall.__all__)


def test_any_other_name_is_missing_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'toolhall' has no attribute 'nothing'"):
        getattr(toolhall, "nothing")  # noqa: B009 - a type checker would find it first
    assert not hasattr(toolhall, "nothing")


@pytest.mark.parametrize("name", toolhall.__all__)
def test_every_public_method_is_documented(name: str) -> None:
    found = getattr(toolhall, name)
    if not isinstance(found, type):
        return
    public = {key: value for key, value in vars(found).items() if not key.startswith("_")}
    bare = [key for key, value in public.items() if callable(value) and not inspect.getdoc(value)]
    assert not bare, f"{name}: say what these do"
