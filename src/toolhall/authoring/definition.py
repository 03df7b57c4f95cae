"""Turns decorated functions, toolkits and BaseTools into Definitions: the Tool and the FunctionBody that runs it.

Resources and prompts are Definitions, too, with the functions that complete their arguments.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import PurePath
from types import MethodType, ModuleType
from typing import Any

import msgspec

from toolhall.authoring.base_tool import BaseTool, methods_of, readable_resources_of, resources_of
from toolhall.authoring.completion import bind_completion
from toolhall.authoring.declaration import (
    BadDeclaration,
    CompletionFunction,
    Declaration,
    Toolkit,
    ToolkitOptions,
    ToolOptions,
    declaration_of,
    merged_requirements,
    task_of,
)
from toolhall.authoring.file_source import FileSource
from toolhall.authoring.folder import Folder
from toolhall.authoring.folder_source import FolderSource, folder_tool
from toolhall.authoring.skill_source import SkillSource, skill_tool
from toolhall.authoring.skills import Skills
from toolhall.model.json import JsonObject
from toolhall.model.names import DEFAULT_VERSION, ToolId, published_name
from toolhall.model.page import PAGE_META
from toolhall.model.tool import EFFECT_ANNOTATIONS, Annotations, Output, Tool, ToolkitInfo
from toolhall.schema.annotations import header_parameters
from toolhall.schema.signature import Binder, pass_arguments


class FunctionBody(msgspec.Struct, frozen=True):
    """The function that implements a tool, and how to call it."""

    function: Callable[..., Any]
    bind: Binder
    takes_context: bool
    is_async: bool
    isolated: bool = False  # run in a worker process
    recreatable: bool = False  # a method of a toolkit that workers can create again from its class


class Definition(msgspec.Struct, frozen=True):
    """A tool, resource or prompt that is defined in code: its Tool and the FunctionBody that runs it."""

    tool: Tool
    body: FunctionBody
    versioned: bool = True  # whether the author stated a version
    health_check: Callable[[], Any] | None = None  # of its BaseTool; see execution/health_checks.py
    lifespan: AbstractAsyncContextManager[Any] | None = None  # its toolkit, if it must be entered before a call
    source_location: str = ""  # of its function, as FILE:LINE
    completions: Mapping[str, FunctionBody] = {}  # of its arguments, if it is a resource or a prompt
    files: FileSource | None = None  # of a Folder or a skill

    @property
    def missing_description(self) -> str | None:
        """A warning with the fix if the tool has no description; None if it has one."""
        if (self.tool.description or "").strip():
            return None
        kind = self.tool.kind
        reader = "a model chooses tools" if kind == "tool" else f"people and models choose {kind}s"
        return (
            f"{self.source_location}: {kind} '{self.tool.name}' has no docstring,"
            f" and {reader} by what it says; write one into the function, or pass @{kind}(description=...)"
        )


class _Placement(msgspec.Struct, frozen=True):
    """The toolkit of a tool: its name, the tool's published name, the toolkit's options and metadata."""

    toolkit: str
    published: str
    options: ToolkitOptions
    about: ToolkitInfo = ToolkitInfo()
    recreatable: bool = False


def definitions_of(target: object) -> Iterator[Definition]:
    """The tools of a function, of a toolkit or BaseTool (class or instance), or of a module."""
    if isinstance(target, ModuleType):
        for part in _defined_in(target):
            yield from definitions_of(part)
    elif isinstance(target, type) and issubclass(target, Toolkit):
        yield from _from_toolkit(target(), recreatable=True)
    elif isinstance(target, Toolkit):
        yield from _from_toolkit(target)
    elif isinstance(target, type) and issubclass(target, BaseTool):
        yield from _from_base_tool(target())  # type: ignore[call-arg] # its own constructor takes nothing
    elif isinstance(target, BaseTool):
        yield from _from_base_tool(target)
    elif isinstance(target, Folder):
        yield _from_folder(target)
    elif isinstance(target, Skills):
        yield from _from_skills(target)
    elif declaration := declaration_of(target):
        yield _from_function(declaration, target)
    else:
        raise BadDeclaration(
            f"{target!r} contains no tool: mark a function with @tool, @resource or @prompt, or pass a Toolkit,"
            " a BaseTool, a Folder, Skills or a module"
        )


def _defined_in(module: ModuleType) -> Iterator[object]:
    """The tools that a module itself defines, in the order of the source; imported ones belong to their own module."""
    instances = [part for part in vars(module).values() if isinstance(part, Toolkit | BaseTool | Folder | Skills)]
    served = {type(instance) for instance in instances}
    yield from (part for part in vars(module).values() if declaration_of(part) and part.__module__ == module.__name__)
    yield from instances
    classes = [
        part for part in vars(module).values() if isinstance(part, type) and issubclass(part, Toolkit | BaseTool)
    ]
    own = [part for part in classes if part.__module__ == module.__name__ and part not in served]
    yield from (part for part in own if not _is_base(part, classes))


def _is_base(part: type, classes: list[type]) -> bool:
    """Whether a BaseTool class is only a base of others: it has subclasses and needs a name and a version."""
    return (
        issubclass(part, BaseTool)
        and part.__init__ is BaseTool.__init__
        and any(each is not part and issubclass(each, part) for each in classes)
    )


def _from_toolkit(toolkit: Toolkit, *, recreatable: bool = False) -> Iterator[Definition]:
    for name in dict.fromkeys(name for parent in type(toolkit).__mro__[::-1] for name in vars(parent)):
        if isinstance(inspect.getattr_static(toolkit, name), property | functools.cached_property):
            continue  # reading it would run its code
        method = getattr(toolkit, name)
        if isinstance(method, Folder):
            yield _from_folder(method, toolkit)
        if declaration := declaration_of(method):
            if inspect.ismethod(method) and not declaration.is_method:
                what = f"{declaration.kind} '{declaration.name}' of {toolkit.toolkit_name}"
                raise BadDeclaration(f"{what}: its first parameter must be 'self'")
            yield _from_method(declaration, method, toolkit, recreatable=recreatable)


def _from_method(declaration: Declaration, method: Any, toolkit: Toolkit, *, recreatable: bool = False) -> Definition:
    published = published_name(toolkit.toolkit_name, declaration.name)
    about = ToolkitInfo(description=_docstring(type(toolkit)))
    placement = _Placement(toolkit.toolkit_name, published, toolkit.toolkit_options, about, recreatable)
    return msgspec.structs.replace(_definition(declaration, method, placement), lifespan=lifespan_of(toolkit))


def lifespan_of(toolkit: object) -> AbstractAsyncContextManager[Any] | None:
    """The toolkit itself, if it is an asynchronous context manager; BadDeclaration if one of the methods is missing.

    A synchronous context manager is refused, because its methods would never be called.
    """
    kind: Any = type(toolkit)
    enters, leaves = hasattr(kind, "__aenter__"), hasattr(kind, "__aexit__")
    if enters != leaves:
        has, lacks = ("__aenter__", "__aexit__") if enters else ("__aexit__", "__aenter__")
        raise BadDeclaration(f"toolkit '{kind.__name__}' has {has} and no {lacks}: write both, or neither")
    if not enters and (hasattr(kind, "__enter__") or hasattr(kind, "__exit__")):
        raise BadDeclaration(
            f"toolkit '{kind.__name__}' has __enter__ or __exit__, which are never called:"
            " write 'async def __aenter__' and 'async def __aexit__'"
        )
    return toolkit if isinstance(toolkit, AbstractAsyncContextManager) else None


def _from_folder(folder: Folder, toolkit: Toolkit | None = None) -> Definition:
    name = folder.name or _toolkit_name(folder.directory.name)
    about = (toolkit.toolkit_name, toolkit.toolkit_options) if toolkit else (None, ToolkitOptions())
    tool = folder_tool(folder, name, *about)
    if toolkit is not None:
        tool = msgspec.structs.replace(tool, about=ToolkitInfo(description=_docstring(type(toolkit))))
    return _of_files(FolderSource(folder, tool), versioned="version" in about[1], location=str(folder.directory))


def _from_skills(skills: Skills) -> Iterator[Definition]:
    for folder in skills.find():
        source = SkillSource(folder, skill_tool(skills, folder))
        yield _of_files(source, versioned="version" in skills.options, location=str(folder.directory))


def _of_files(files: FileSource, *, versioned: bool, location: str) -> Definition:
    """A definition that reads files, in a thread."""
    body = FunctionBody(files.read, pass_arguments, takes_context=False, is_async=False)
    return Definition(files.tool, body, versioned, source_location=location, files=files)


def _from_base_tool(instance: BaseTool) -> Iterator[Definition]:
    about = ToolkitInfo(description=_docstring(type(instance)), resources=resources_of(instance))
    options = ToolkitOptions()
    for declaration, call in (*methods_of(instance), *readable_resources_of(instance)):
        options["version"] = instance.version
        placement = _Placement(instance.name, published_name(instance.name, declaration.name), options, about)
        definition = _definition(declaration, call, placement)
        yield msgspec.structs.replace(definition, health_check=instance.health_check, lifespan=lifespan_of(instance))


def _from_function(declaration: Declaration, function: Any) -> Definition:
    if inspect.ismethod(function) and isinstance(function.__self__, Toolkit):
        return _from_method(declaration, function, function.__self__)
    if declaration.is_method:
        raise BadDeclaration(f"{declaration.kind} '{declaration.name}' is a method; serve an instance of its Toolkit")
    file = PurePath(declaration.function.__code__.co_filename).stem
    return _definition(declaration, function, _Placement(_toolkit_name(file), declaration.name, {}))


def _toolkit_name(stem: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in stem)[:64] or "tools"


def _definition(declaration: Declaration, function: Any, placement: _Placement) -> Definition:
    options, toolkit = declaration.options, placement.options
    signature = declaration.resolve_signature()
    stated = options.get("version") or toolkit.get("version")
    is_tool, completes = declaration.kind == "tool", tuple(declaration.completions)
    resource, prompt = declaration.resource, declaration.prompt
    tool = Tool(
        id=ToolId(placement.toolkit, declaration.name, stated or DEFAULT_VERSION),
        name=placement.published,
        input=signature.input,
        output=signature.output if is_tool else Output(),
        title=options.get("title"),
        description=options.get("description") or inspect.getdoc(declaration.function),
        effect=options.get("effect"),
        annotations=_annotations(options) if is_tool else None,
        icons=tuple(options.get("icons", ())),
        tags=(*toolkit.get("tags", ()), *options.get("tags", ())),
        meta=_meta(options),
        level=options.get("level", toolkit.get("level")),
        timeout=options.get("timeout"),
        header_parameters=header_parameters(signature.input) if is_tool else (),
        requirements=merged_requirements(toolkit, options),
        about=placement.about,
        task=task_of(options),
        resource=resource and msgspec.structs.replace(resource, completes=completes),
        prompt=prompt and msgspec.structs.replace(prompt, completes=completes),
    )
    body = FunctionBody(
        function,
        signature.bind,
        declaration.takes_context,
        _is_async(declaration),
        options.get("isolated", toolkit.get("isolated", False)),
        placement.recreatable,
    )
    code = declaration.function.__code__
    location = f"{code.co_filename}:{code.co_firstlineno}"
    owner = getattr(function, "__self__", None)
    completions = {name: _completion_body(each, owner) for name, each in declaration.completions.items()}
    return Definition(tool, body, stated is not None, source_location=location, completions=completions)


def _completion_body(completion: CompletionFunction, owner: object) -> FunctionBody:
    """The function that completes an argument, bound to its toolkit."""
    function = completion.function
    return FunctionBody(
        MethodType(function, owner) if completion.is_method else function,
        bind_completion(completion),
        completion.takes_context,
        inspect.iscoroutinefunction(inspect.unwrap(function)),
    )


def takes_typed(completion: FunctionBody) -> bool:
    """Whether a completion function takes what was typed, and so chooses by itself what fits."""
    return "typed" in completion.bind({"typed": "", "given": {}})


def _meta(options: ToolOptions) -> JsonObject | None:
    """The author's metadata, and the page of a tool as MCP Apps writes it."""
    page = options.get("page")
    if page is None:
        return options.get("meta")
    shown: JsonObject = {"resourceUri": page}
    if options.get("page_only", False):
        shown["visibility"] = ["app"]
    return {**options.get("meta", {}), PAGE_META: shown}


def pages_of(tool: Tool) -> Iterator[str]:
    """The URI of the page that a tool's results are shown by, if any."""
    stated = (tool.meta or {}).get(PAGE_META)
    uri = stated.get("resourceUri") if isinstance(stated, dict) and tool.kind == "tool" else None
    if isinstance(uri, str):
        yield uri


def _docstring(toolkit: type) -> str | None:
    """The docstring of the class itself, not the one it inherits from Toolkit."""
    return inspect.cleandoc(toolkit.__doc__) if toolkit.__doc__ else None


def _is_async(declaration: Declaration) -> bool:
    """Whether the function is async; a decorator may have wrapped it in a plain function."""
    return inspect.iscoroutinefunction(inspect.unwrap(declaration.function))


def _annotations(options: ToolOptions) -> Annotations | None:
    """The author's annotations, completed by those that the effect implies."""
    stated = options.get("annotations")
    if "effect" not in options:
        return stated
    implied = EFFECT_ANNOTATIONS[options["effect"]]
    if stated is None:
        return implied
    overrides = {field: value for field in stated.__struct_fields__ if (value := getattr(stated, field)) is not None}
    return msgspec.structs.replace(implied, **overrides)
