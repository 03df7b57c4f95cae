"""What a TARGET names."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from toolhall import Toolhall
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.startup import MAX_WARNINGS, build_app, warn_undocumented
from toolhall.cli.target_names import looks_like_target
from toolhall.cli.targets import load_targets
from toolhall.config import Config

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
def test_target_of_any_kind_leads_to_its_tools(targets: list[str], names: list[str]) -> None:
    assert tools(*targets) == names


def test_target_left_out_is_the_example_toolkit() -> None:
    assert "Calculator_Add" in tools()


def test_target_file_keeps_its_module_name_unless_taken() -> None:
    (own,) = load_targets(["one.py"])
    (shadowing,) = load_targets(["json.py"])
    assert isinstance(own, ModuleType)
    assert isinstance(shadowing, ModuleType)
    assert own.__name__ == "one"
    assert shadowing is not sys.modules["json"]


def test_target_object_in_a_file_is_that_object() -> None:
    (found,) = load_targets(["one.py:one"])
    assert isinstance(found, FunctionType)


def test_target_with_imported_tools_leaves_them_out() -> None:
    with pytest.raises(CommandError, match="defines no tools"):
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
def test_target_that_names_nothing_is_refused(target: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load_targets([target])


def test_target_object_that_is_no_tool_is_refused() -> None:
    with pytest.raises(CommandError, match="holds no tool"):
        load_targets(["one.py:tool"])


def test_target_file_with_two_halls_is_refused(folder: Path) -> None:
    (folder / "halls.py").write_text("from toolhall import Toolhall\n\na, b = Toolhall(), Toolhall()\nsame = a\n")
    with pytest.raises(UsageError, match="choose one with"):
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
def test_target_word_is_told_from_a_tool_name(word: str, is_target: bool) -> None:
    assert looks_like_target(word) is is_target


TWICE = """
from toolhall import Toolkit, tool

def helper() -> None: ...
def helper() -> None: ...

{mark}
async def again(
    number: int,
) -> int:
    return number

{mark}
def again() -> str:
    return ""
"""


@pytest.mark.parametrize("mark", ["@tool", "@tool(effect='reads')"])
def test_target_with_two_functions_of_one_name_names_both_places(folder: Path, mark: str) -> None:
    (folder / "twice.py").write_text(TWICE.format(mark=mark))
    with pytest.raises(CommandError) as caught:
        load_targets(["twice.py"])
    file = folder.resolve() / "twice.py"
    assert f"two functions are called 'again', {file}:7-11 and {file}:13-15;" in str(caught.value)


def test_target_with_two_methods_of_one_name_names_both_places(folder: Path) -> None:
    methods = "class Kit(Toolkit):\n" + 2 * "    @tool\n    async def do(self) -> None: ...\n"
    (folder / "kit.py").write_text(f"from toolhall import Toolkit, tool\n{methods}")
    with pytest.raises(CommandError, match=r"two functions are called 'do', .*kit\.py:3-4 and .*kit\.py:5-6"):
        load_targets(["kit.py"])


def test_target_with_one_name_in_two_classes_is_accepted(folder: Path) -> None:
    kits = "".join(f"class {name}(Toolkit):\n    @tool\n    async def do(self) -> None: ...\n" for name in "AB")
    (folder / "kits.py").write_text(f"from toolhall import Toolkit, tool\n{kits}\n@tool\nasync def do() -> None: ...\n")
    assert tools("kits.py") == ["do", "A_do", "B_do"]


def test_target_with_tools_of_one_id_names_their_places(folder: Path) -> None:
    (folder / "named.py").write_text(
        "from toolhall import tool\n"
        "@tool(name='go')\ndef a() -> None: ...\n"
        "@tool(name='go')\ndef b() -> None: ...\n"
    )  # fmt: skip
    with pytest.raises(
        CommandError, match=r"\(named\.go@0\.1\.0 is at .*named\.py:2, named\.go.* is at .*named\.py:4\)"
    ):
        build_app(["named.py"], Config())
    (folder / "other.py").write_text(PLAIN.format(name="one"))
    with pytest.raises(CommandError, match=r"\(one\.one@0\.1\.0 is at .*one\.py:4, other\.one.* is at .*other\.py:4\)"):
        build_app(["one.py", "other.py"], Config())


def test_target_with_undocumented_tools_warns_with_their_places(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = "".join(f"@tool\ndef bare_{number}() -> None: ...\n" for number in range(MAX_WARNINGS + 2))
    said = "@tool(description='Told.')\ndef told() -> None: ...\n"
    (folder / "bare.py").write_text(f"from toolhall import tool\n{said}{bare}")
    with build_app(["bare.py", "one.py"], Config()) as hall:
        warn_undocumented(hall)
    lines = capsys.readouterr().err.splitlines()
    place = f"{folder.resolve() / 'bare.py'}:4"
    assert lines[0].startswith(f"warning: {place}: tool 'bare_0' has no docstring, and a model chooses tools by what")
    assert lines[0].endswith("; write one into the function, or pass @tool(description=...)")
    assert len(lines) == MAX_WARNINGS + 1
    assert lines[-1] == "warning: 2 more tools without a docstring"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/mcp", "https://me:hunter2@tools.example/openapi.json?token=hunter2"]
)
def test_target_that_is_a_url_is_refused(url: str) -> None:
    assert looks_like_target(url)
    with pytest.raises(UsageError, match=r"'toolhall add http.*'toolhall list --url http") as caught:
        load_targets([url])
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("api.json", '{"openapi": "3.1.0", "paths": {}}'),
        ("api.json", '{"swagger": "2.0", "paths": {}}'),
        ("api.yaml", "# ours\nopenapi: 3.1.0\npaths: {}\n"),
        ("api.yml", '"swagger": "2.0"\n'),
    ],
)
def test_target_that_is_openapi_is_refused(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(UsageError, match=f"{name} describes an HTTP API in OpenAPI, which cannot be served yet; write"):
        load_targets([name])


def test_target_that_is_other_yaml_is_refused(folder: Path) -> None:
    (folder / "tools.yaml").write_text("tools: []\n")
    with pytest.raises(UsageError, match="definitions are read from JSON"):
        load_targets(["tools.yaml"])
