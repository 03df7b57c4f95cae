"""What a TARGET names."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from toolhall import Toolhall
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.targets import load_targets, looks_like_target

PLAIN = '''
from toolhall import tool

@tool
async def {name}() -> str:
    """A tool."""
    return "{name}"
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with targets of every kind, whose modules are forgotten afterwards."""
    (tmp_path / "pack").mkdir()
    files = {"one.py": "one", "two.py": "two", "json.py": "three", "pack/four.py": "four"}
    for file, name in files.items():
        (tmp_path / file).write_text(PLAIN.format(name=name))
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "five.py").write_text("from .four import four\n\nagain = four\n")
    (tmp_path / "unrelated.py").write_text("raise RuntimeError('this file has nothing to do with tools')\n")
    (tmp_path / "test_one.py").write_text("import toolhall\nraise RuntimeError('a test is not a tool')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def tools(*targets: str) -> list[str]:
    """The published names of everything that the targets hold."""
    found = [each for each in load_targets(targets) if not isinstance(each, Toolhall)]
    with Toolhall(*found) as hall:
        return [entry.tool.name for entry in hall.registry.snapshot.entries]


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        (["one.py"], ["one"]),
        (["./one.py", "two.py"], ["one", "two"]),
        (["one.py:one"], ["one"]),
        (["one"], ["one"]),
        (["one:one"], ["one"]),
        (["."], ["three", "one", "two"]),
        (["json.py"], ["three"]),
        (["pack"], ["four"]),
        (["pack.four"], ["four"]),
        (["pack/four.py"], ["four"]),
        (["pack/four.py:four"], ["four"]),
    ],
)
def test_a_target_leads_to_its_tools(targets: list[str], names: list[str]) -> None:
    assert tools(*targets) == names


def test_no_target_is_the_example_toolkit() -> None:
    assert "Calculator_Add" in tools()


def test_a_file_keeps_its_own_name_unless_that_is_taken() -> None:
    (own,) = load_targets(["one.py"])
    (shadowing,) = load_targets(["json.py"])
    assert isinstance(own, ModuleType)
    assert isinstance(shadowing, ModuleType)
    assert own.__name__ == "one"
    assert shadowing is not sys.modules["json"]


def test_an_object_in_a_file_is_that_object() -> None:
    (found,) = load_targets(["one.py:one"])
    assert isinstance(found, FunctionType)


def test_an_imported_tool_belongs_where_it_was_written() -> None:
    with pytest.raises(CommandFailed, match="defines no tools"):
        load_targets(["pack/five.py"])


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nothing.py", "there is no file nothing.py"),
        ("nothing", "there is no module 'nothing'"),
        ("pack.nothing", "there is no module 'pack.nothing'"),
        ("no thing", "is no file, folder or module"),
        ("one.py:nothing", "it has one"),
        ("pack:nothing", "is a folder"),
    ],
)
def test_a_target_that_names_nothing(target: str, said: str) -> None:
    with pytest.raises(WrongUsage, match=said):
        load_targets([target])


def test_an_object_that_is_no_tool() -> None:
    with pytest.raises(CommandFailed, match="holds no tool"):
        load_targets(["one.py:tool"])


def test_two_halls_in_one_file(folder: Path) -> None:
    (folder / "halls.py").write_text("from toolhall import Toolhall\n\na, b = Toolhall(), Toolhall()\nsame = a\n")
    with pytest.raises(WrongUsage, match="choose one with"):
        load_targets(["halls.py"])
    (hall,) = load_targets(["halls.py:same"])
    assert isinstance(hall, Toolhall)


@pytest.mark.parametrize(
    ("word", "is_target"),
    [
        ("one.py", True),
        ("missing.py", True),
        ("one.py:one", True),
        ("pack", True),
        ("pack.four", True),
        ("one.one", True),
        ("toolhall.examples", True),
        ("get_weather", False),
        ("Calculator.Add", False),
        ("toolhall.Add@1.0.0", False),
    ],
)
def test_telling_a_target_from_a_tool(word: str, is_target: bool) -> None:
    assert looks_like_target(word) is is_target
