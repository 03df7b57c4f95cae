"""From marked functions and toolkits to definitions: the tool as everybody sees it, and how to run it."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import PurePath
from types import ModuleType
from typing import Any

import msgspec

from toolhall.authoring.declaration import BadDeclaration, Declaration, ToolOptions, declaration_of
from toolhall.authoring.toolkit import Toolkit, ToolkitOptions
from toolhall.model.json import JsonObject
from toolhall.model.names import ToolId, published_name
from toolhall.model.tool import Annotations, Effect, Tool
from toolhall.schema.headers import header_parameters

DEFAULT_VERSION = "0.1.0"


class Body(msgspec.Struct, frozen=True):
    """How to run a tool that is a Python function."""

    function: Callable[..., Any]
    bind: Callable[[JsonObject], JsonObject]
    takes_context: bool
    is_async: bool


class Definition(msgspec.Struct, frozen=True):
    """A tool and its body."""

    tool: Tool
    body: Body


def definitions_of(target: object) -> Iterator[Definition]:
    """Every tool in a function, a toolkit (class or instance), or a module."""
    if isinstance(target, ModuleType):
        for part in _own_parts(target):
            yield from definitions_of(part)
    elif isinstance(target, type) and issubclass(target, Toolkit):
        yield from _from_toolkit(target())
    elif isinstance(target, Toolkit):
        yield from _from_toolkit(target)
    elif declaration := declaration_of(target):
        yield _from_function(declaration, target)
    else:
        raise BadDeclaration(f"{target!r} holds no tool: mark a function with @tool, or pass a Toolkit or a module")


def _own_parts(module: ModuleType) -> Iterator[object]:
    """What a module defines itself, in the order it is written; imported tools belong to where they were written."""
    instances = [part for part in vars(module).values() if isinstance(part, Toolkit)]
    served = {type(instance) for instance in instances}
    yield from (part for part in vars(module).values() if declaration_of(part) and part.__module__ == module.__name__)
    yield from instances
    for part in vars(module).values():
        if isinstance(part, type) and issubclass(part, Toolkit) and part.__module__ == module.__name__:
            if part not in served:
                yield part


def _from_toolkit(toolkit: Toolkit) -> Iterator[Definition]:
    options = toolkit.toolkit_options
    for name in dict.fromkeys(name for parent in type(toolkit).__mro__[::-1] for name in vars(parent)):
        method = getattr(toolkit, name)
        if declaration := declaration_of(method):
            published = published_name(options["name"], declaration.name)
            yield _definition(declaration, method, options, published)


def _from_function(declaration: Declaration, function: Any) -> Definition:
    if declaration.is_method and not inspect.ismethod(function):
        raise BadDeclaration(f"tool '{declaration.name}' is a method; serve an instance of its Toolkit")
    if inspect.ismethod(function) and isinstance(function.__self__, Toolkit):
        options = function.__self__.toolkit_options
        return _definition(declaration, function, options, published_name(options["name"], declaration.name))
    home = PurePath(declaration.function.__code__.co_filename).stem
    return _definition(declaration, function, {"name": _toolkit_name(home)}, declaration.name)


def _toolkit_name(stem: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in stem)[:64] or "tools"


def _definition(declaration: Declaration, function: Any, toolkit: ToolkitOptions, published: str) -> Definition:
    options = declaration.options
    signature = declaration.resolved()
    version = options.get("version") or toolkit.get("version", DEFAULT_VERSION)
    tool = Tool(
        id=ToolId(toolkit["name"], declaration.name, version),
        name=published,
        input=signature.input,
        output=signature.output,
        title=options.get("title"),
        description=options.get("description") or inspect.getdoc(declaration.function),
        effect=options.get("effect"),
        annotations=_annotations(options),
        icons=tuple(options.get("icons", ())),
        tags=(*toolkit.get("tags", ()), *options.get("tags", ())),
        meta=options.get("meta"),
        level=options.get("level", toolkit.get("level")),
        timeout=options.get("timeout"),
        header_parameters=header_parameters(signature.input),
    )
    return Definition(tool, _body(declaration, function, signature.bind))


def _body(declaration: Declaration, function: Any, bind: Callable[[JsonObject], JsonObject]) -> Body:
    return Body(function, bind, declaration.takes_context, inspect.iscoroutinefunction(declaration.function))


def _annotations(options: ToolOptions) -> Annotations | None:
    """The author's annotations, completed by what the effect says."""
    stated = options.get("annotations")
    if "effect" not in options:
        return stated
    implied = _IMPLIED[options["effect"]]
    if stated is None:
        return implied
    said = {field: getattr(stated, field) for field in stated.__struct_fields__ if getattr(stated, field) is not None}
    return msgspec.structs.replace(implied, **said)


_IMPLIED: dict[Effect, Annotations] = {
    "reads": Annotations(read_only=True),
    "writes": Annotations(read_only=False, destructive=False),
    "destroys": Annotations(read_only=False, destructive=True),
}
