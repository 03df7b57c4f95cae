"""Loads TARGET arguments: files, objects in files, modules, folders and definition files."""

import ast
import importlib
import importlib.util
import re
import sys
import tokenize
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

from toolhall.app import Toolhall
from toolhall.authoring.base_tool import BaseTool
from toolhall.authoring.declaration import BadDeclaration, Toolkit, declaration_of
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.target_names import (
    DEFINITION_SUFFIXES,
    EXAMPLES_PACKAGE,
    openapi_error,
    reject_unsupported_target,
    split_target,
)
from toolhall.cli.upstream_files import CLIENT_SUFFIXES, UpstreamFile, read_upstream_file
from toolhall.dialects.findings import BadDocument
from toolhall.registration.records import DefinitionDocument

_OPENAPI_KEYS = ("openapi", "swagger")
_FUNCTION_DEF = re.compile(r"(?m)^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)")
_SKIPPED_PREFIXES = ("test_", "conftest.", "setup.", "_")
# The extra of toolhall that installs a module.
_EXTRA_OF_MODULE = {"pydantic": "pydantic", "cedarpy": "cedar", "keyring": "keyring", "opentelemetry": "otel"}


def load_targets(targets: Sequence[str]) -> list[object]:
    """Everything servable in the targets, as `Toolhall(...)` takes it, and Toolhall objects themselves."""
    return [part for target in targets or (EXAMPLES_PACKAGE,) for part in _load(target)]


def _load(target: str) -> Iterator[object]:
    reject_unsupported_target(target)
    if target.lower().endswith(CLIENT_SUFFIXES) and Path(target).is_file():
        found = read_upstream_file(Path(target))
        if found is not None:
            yield UpstreamFile(target, found)
            return
        if not target.lower().endswith(DEFINITION_SUFFIXES):
            raise UsageError(
                f"{target} lists no servers; a file of an MCP client has mcpServers, servers, context_servers or"
                " [mcp_servers.NAME] in it"
            )
    if target.lower().endswith(DEFINITION_SUFFIXES):
        yield from _load_definitions(target)
        return
    path, colon, name = split_target(target)
    if Path(path).is_dir():
        if colon:
            raise UsageError(f"{path} is a folder; name the file in it: {path}/FILE.py:{name}")
        yield from _from_folder(Path(path))
        return
    module = _from_file(Path(path)) if path.endswith(".py") else _from_name(path)
    if colon:
        yield _member(module, name, target)
    else:
        yield from _from_module(module, path)


def _load_definitions(file: str) -> Iterator[DefinitionDocument]:
    """Every document of a definition file, in any dialect."""
    from toolhall.cli.documents.reader import decode_document, open_documents  # lazy: every dialect
    from toolhall.dialects.catalogs import detect_dialect  # lazy: every dialect

    with open_documents(file) as source:
        try:
            for text in source.documents().texts:
                document = decode_document(text)
                if isinstance(document, dict) and any(key in document for key in _OPENAPI_KEYS):
                    raise openapi_error(file)
                definition = DefinitionDocument(document, detect_dialect(document, text.listed_as).name, file)
                if definition.tools:  # read now, so that an error can name the file
                    yield definition
        except BadDocument as bad:
            raise CommandError(f"{file}: {bad.findings[0]}; 'toolhall lint {file}' shows everything") from None


def _from_module(module: ModuleType, path: str) -> Iterator[object]:
    halls = {id(part): part for part in vars(module).values() if isinstance(part, Toolhall)}
    if len(halls) > 1:
        raise UsageError(f"{path} holds {len(halls)} Toolhall objects; choose one with {path}:NAME")
    if halls:
        yield from halls.values()
    elif _holds_tools(module):
        yield module
    elif module.__spec__ is not None and module.__spec__.submodule_search_locations:
        yield from _from_folder(Path(module.__spec__.submodule_search_locations[0]))
    else:
        raise CommandError(f"{path} defines no tools; mark a function with @tool, or write a Toolkit with some")


def _from_folder(folder: Path) -> Iterator[object]:
    """The tools of every file in a folder; a file that does not mention toolhall is not imported."""
    found = False
    for file in sorted(folder.glob("*.py")):
        if file.name.startswith(_SKIPPED_PREFIXES) or b"toolhall" not in file.read_bytes():
            continue
        module = _from_file(file)
        if _holds_tools(module) or any(isinstance(part, Toolhall) for part in vars(module).values()):
            found = True
            yield from _from_module(module, str(file))
    if not found:
        raise CommandError(f"no file in the folder {folder} defines a tool; mark a function with @tool")


def _from_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise UsageError(f"there is no file {file}; give a file, a folder or a module that defines tools")
    root, name = _module_name(file.resolve())
    _make_importable(root)
    if "." in name or _is_loaded(name, file):
        return _check_duplicates(_import_guarded(lambda: importlib.import_module(name), str(file)))
    return _check_duplicates(_import_guarded(lambda: _execute(file.resolve(), name), str(file)))


def _module_name(file: Path) -> tuple[Path, str]:
    """The folder for sys.path and the full module name, so that relative imports in a package work."""
    parts = [file.stem]
    folder = file.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    return folder, ".".join(parts)


def _is_loaded(name: str, file: Path) -> bool:
    known = getattr(sys.modules.get(name), "__file__", None)
    return known is not None and Path(known).resolve() == file.resolve()


def _execute(file: Path, name: str) -> ModuleType:
    """Import a file under its own name, or with a prefix if that would shadow another module."""
    name = f"toolhall_target_{name}" if name in sys.modules or name in sys.stdlib_module_names else name
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise CommandError(f"{file} is not Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _from_name(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is no file, folder or module; give one that defines tools")
    _make_importable(Path.cwd())
    return _check_duplicates(_import_guarded(lambda: importlib.import_module(name), name))


def _make_importable(folder: Path) -> None:
    """Put the folder first on sys.path, as for a script; last if a file in it would shadow the standard library."""
    if str(folder) not in sys.path:
        hides = any(neighbour.stem in sys.stdlib_module_names for neighbour in folder.iterdir())
        sys.path.insert(len(sys.path) if hides else 0, str(folder))


def _member(module: ModuleType, name: str, target: str) -> object:
    member: object = module
    for part in name.split("."):
        if not hasattr(member, part):
            known = ", ".join(key for key, value in vars(module).items() if is_servable(value, module.__name__))
            raise UsageError(f"{target}: there is no {part!r}; it has {known or 'nothing that could be served'}")
        member = getattr(member, part)
    if not isinstance(member, ModuleType | Toolhall | Toolkit | BaseTool) and not _is_definition(member):
        raise CommandError(f"{target} holds no tool; mark it with @tool, or name a Toolkit, a module or a Toolhall")
    return member


def _holds_tools(module: ModuleType) -> bool:
    return any(is_servable(part, module.__name__) for part in vars(module).values())


def is_servable(part: object, module_name: str) -> bool:
    """Whether a member of a module is a tool, toolkit or hall; a tool that the module only imported is not."""
    if isinstance(part, Toolkit | BaseTool | Toolhall):
        return True
    return _is_definition(part) and getattr(part, "__module__", None) == module_name


def _is_definition(part: object) -> bool:
    return declaration_of(part) is not None or (isinstance(part, type) and issubclass(part, Toolkit | BaseTool))


def _check_duplicates(module: ModuleType) -> ModuleType:
    """Return the module; CommandError if a tool of it is replaced by a later function of the same name."""
    try:
        with tokenize.open(module.__file__ or "") as file:
            source = file.read()
    except (OSError, SyntaxError, UnicodeDecodeError):  # no source file
        return module
    names = _FUNCTION_DEF.findall(source)
    if len(set(names)) < len(names):  # only then it is worth parsing
        tree = ast.parse(source)
        for body in (tree.body, *(part.body for part in tree.body if isinstance(part, ast.ClassDef))):
            _reject_duplicate_functions(body, module.__file__)
    return module


def _reject_duplicate_functions(body: list[ast.stmt], file: str | None) -> None:
    known: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for part in body:
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = known.get(part.name)
        if first is not None and any(map(_is_tool_decorator, first.decorator_list)):
            raise CommandError(
                f"two functions are called {part.name!r}, {file}:{_lines(first)} and {file}:{_lines(part)};"
                " Python keeps the second only, and the first one's tool would be lost: rename one of them"
            )
        known[part.name] = part


def _is_tool_decorator(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(named, ast.Name) and named.id == "tool") or (
        isinstance(named, ast.Attribute) and named.attr == "tool"
    )


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return f"{min(each.lineno for each in (function, *function.decorator_list))}-{function.end_lineno}"


def _import_guarded(load: Callable[[], ModuleType], what: str) -> ModuleType:
    """Import code of an author; whatever it raises becomes a CommandError with file and line."""
    try:
        return load()
    except (BadDeclaration, CommandError) as error:
        raise CommandError(str(error)) from None
    except ModuleNotFoundError as error:
        if error.name and (what == error.name or what.startswith(f"{error.name}.")):
            raise UsageError(f"there is no module {what!r}; give a file, a folder or a module") from None
        known = _EXTRA_OF_MODULE.get((error.name or "").partition(".")[0])
        fix = f"pip install 'toolhall[{known}]'" if known else "is it installed here?"
        raise CommandError(f"{what} cannot be imported: {_error_location(error)}{error}; {fix}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may raise anything while it is imported
        reason = f"{_error_location(error)}{type(error).__name__}: {_error_text(error)}"
        raise CommandError(f"{what} cannot be imported: {reason}") from None


def _error_location(error: BaseException) -> str:
    """File and line of the innermost frame outside the import system."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}: "
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    own = [frame for frame in frames if Path(frame.filename) not in (Path(__file__), Path(importlib.__file__ or ""))]
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}: " if own else ""


def _error_text(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)
