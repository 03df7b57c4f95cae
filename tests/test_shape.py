"""The shape of the source: sizes, names and imports that a reader can rely on."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "toolhall"
MODULES = sorted(PACKAGE.rglob("*.py"))
# Import-linter sees only the first name of an import; of urllib, the pure packages may use the parser.
PURE_PACKAGES = {"contracts", "dialects", "schema", "model"}
IMPURE_IMPORTS = {"urllib.request", "urllib.robotparser"}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Sizes = dict[str, int]


def name(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


@cache
def parse(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"), str(module))


def functions(node: ast.AST, place: str) -> Iterator[tuple[str, Function]]:
    """Every function below a node, with its place as `app.py:Class.method`."""
    for child in ast.iter_child_nodes(node):
        inner = f"{place}{child.name}" if isinstance(child, Function | ast.ClassDef) else place
        if isinstance(child, Function):
            yield inner, child
        yield from functions(child, inner if inner == place else f"{inner}.")


def file_lines(module: Path) -> Sizes:
    return {name(module): len(module.read_text(encoding="utf-8").splitlines())}


def function_lines(module: Path) -> Sizes:
    return largest(module, lambda function: (function.end_lineno or 0) - function.lineno + 1)


def parameters(module: Path) -> Sizes:
    return largest(module, lambda function: len(parameter_names(function.args) - {"self", "cls"}))


def parameter_names(given: ast.arguments) -> set[str]:
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {each.arg for each in every if each}


def largest(module: Path, measure: Callable[[Function], int]) -> Sizes:
    """The size of every function; of several with one name (overloads, setters), the largest."""
    sizes: Sizes = {}
    for place, function in functions(parse(module), f"{name(module)}:"):
        sizes[place] = max(measure(function), sizes.get(place, 0))
    return sizes


class Limit(NamedTuple):
    """The most that is allowed; exceptions name a place with its exact size today, so that they can only shrink."""

    measure: Callable[[Path], Sizes]
    most: int
    fix: str
    exceptions: Sizes


LIMITS = [
    Limit(file_lines, 600, "split the file by what its parts are about", {}),
    Limit(function_lines, 60, "give a part of the function a name of its own", {}),
    Limit(parameters, 6, "pass the values that belong together as one", {}),
]

each_limit = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.measure.__name__)

# One test for a rule, not for a rule and a module: thousands of tests would take longer to report than to run.


@each_limit
def test_is_small_enough(limit: Limit) -> None:
    sizes = {place: size for module in MODULES for place, size in limit.measure(module).items()}
    large = {place: size for place, size in sizes.items() if size > limit.exceptions.get(place, limit.most)}
    assert not large, f"over {limit.most} {limit.measure.__name__}: {limit.fix}"
    for place, allowed in limit.exceptions.items():
        assert sizes.get(place, 0) > limit.most, f"{place} is within the limit now: remove its exception"
        assert sizes[place] == allowed, f"{place} has changed: set its exception to {sizes[place]}, if that is smaller"


def test_imports_inside_functions_say_what_they_save() -> None:
    unexplained = [
        f"{place}:{node.lineno}: {ast.unparse(node)}"
        for module in MODULES
        for place, function in functions(parse(module), f"{name(module)}:")
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom) and "# lazy: " not in source_line(module, node)
    ]
    assert not unexplained, "move the import to the top, or say beside it what start-up time it saves: '# lazy: httpx2'"


def source_line(module: Path, node: ast.stmt) -> str:
    """The last line of a statement, with its comment."""
    return module.read_text(encoding="utf-8").splitlines()[(node.end_lineno or node.lineno) - 1]


# `toolhall` exports names lazily by a table; the examples are a target that no command depends on.
IMPORTED_BY_NAME = {"__init__.py", "cli/settings.py"}


def test_own_modules_are_not_imported_by_a_string() -> None:
    hidden = [
        f"{name(module)}:{node.lineno}: {ast.unparse(node)}"
        for module in MODULES
        for node in ast.walk(parse(module))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("import_module")
        and "toolhall" in "".join(ast.unparse(each) for each in node.args)
        and name(module) not in IMPORTED_BY_NAME
    ]
    assert not hidden, "no checker sees an import by a string: import inside the function, with '# lazy: ...'"


def test_public_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = {}
    for module in MODULES:
        for node in parse(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name(module))
    assert not {each: places for each, places in homes.items() if len(places) > 1}, "give one of them a name of its own"


MIN_LINES = 30


def test_modules_are_no_fragments() -> None:
    small = {
        place: lines
        for module in MODULES
        if module.name not in {"__init__.py", "__main__.py"}
        and not name(module).startswith(("examples/", "stores/migrations/"))
        for place, lines in file_lines(module).items()
        if lines < MIN_LINES
    }
    assert not small, "merge the module with its neighbour"


def test_opens_with_one_sentence() -> None:
    openings = {name(module): (ast.get_docstring(parse(module)) or "").split("\n\n")[0] for module in MODULES}
    wrong = {place: opening for place, opening in openings.items() if not opening.endswith(".") or "\n" in opening}
    assert not wrong, (
        "open with a docstring of one sentence on one line that ends with a full stop; a blank line, then the rest"
    )


def test_pure_packages_reach_no_network() -> None:
    impure = [
        f"{name(module)}: {ast.unparse(node)}"
        for module in MODULES
        if name(module).split("/")[0] in PURE_PACKAGES
        for node in ast.walk(parse(module))
        if IMPURE_IMPORTS.intersection(imported(node))
    ]
    assert not impure, "time, randomness and I/O are arguments"


def imported(node: ast.AST) -> Iterator[str]:
    """The full names that an import statement may bring in."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=str(source), names=names):
            yield from (source, *(f"{source}.{alias.name}" for alias in names))
        case _:
            pass


def test_package_only_re_exports() -> None:
    own = [
        f"{name(package)}: {ast.unparse(each)}"
        for package in MODULES
        if package.name == "__init__.py"
        for each in parse(package).body[1:]
        if not re_exports(each, top=package.parent == PACKAGE)
    ]
    assert not own, "move this to a module of the package and import it here"


def re_exports(statement: ast.stmt, *, top: bool) -> bool:
    """Whether a statement of `__init__` is an import or `__all__`, or in the top package a part of lazy export."""
    match statement:
        case ast.Import() | ast.ImportFrom() | ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=[]):
            return top and all(isinstance(each, ast.Import | ast.ImportFrom) for each in body)
        case ast.FunctionDef(name="__getattr__" | "__dir__"):
            return top
        case ast.Assign(targets=[ast.Name(id=target)]) | ast.AnnAssign(target=ast.Name(id=target)):
            return top and target.startswith("_")  # where each lazy name lives; the version
        case _:
            return False
