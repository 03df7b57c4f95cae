"""BaseTool, a tool with methods as the hub specification defines it, and the Declarations of its methods."""

import inspect
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import BadDeclaration, Declaration, ToolOptions, declaration_of, option_names, tool
from toolhall.authoring.resource import resource
from toolhall.model.content import CONTENT_TYPES, Reply
from toolhall.model.errors import ToolError, ToolFailed
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import name_problem, version_problem
from toolhall.schema.types import to_json

_RESPONSE_MEMBERS = {"type", "id", "result", "error"}
_HANDLER_PREFIX = "_handle_"
# Options of @tool that a method cannot have: it runs in `handle_request`, and has the version of its tool.
_NOT_METHOD_OPTIONS = ("name", "version", "isolated", "input", "returns")
_METHOD_OPTIONS = ("name", "params", *(name for name in option_names(ToolOptions) if name not in _NOT_METHOD_OPTIONS))
READ_METHOD = "read_resource"  # reads the resources whose names are URIs, by its parameter `uri`
MAX_RESOURCE_NAME = 64
# Options of the method that its resources share.
_READ_OPTIONS = ("level", "timeout", "secrets", "account", "user_id", "tags")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s{}]+")
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9]+")
_NO_METHODS = "it declares no methods: set capabilities = {'methods': ['NAME']}, or write coroutines named _handle_NAME"


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a BaseTool: the method and its parameters."""

    method: str
    params: JsonObject = {}
    tool: str = ""
    id: str | int | None = None
    type: Literal["tool_request"] = "tool_request"
    context: Context = msgspec.field(default_factory=Context)  # progress, questions, secrets


class ToolResponse(msgspec.Struct, frozen=True):
    """The response of a BaseTool: a result or an error; the hall fills in the type and the id."""

    result: Json = None
    error: JsonObject | str | ToolFailed | None = None
    id: str | int | None = None
    type: Literal["tool_response"] = "tool_response"


class BaseTool:
    """A tool with methods: implement `handle_request`, and list the methods in `capabilities` or as `_handle_NAME`."""

    capabilities: ClassVar[Mapping[str, Any] | None] = None  # {"methods": [...], "resources": [...]}: names, or objects

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        """Answer one request; it is called only with methods that the tool declares."""
        raise NotImplementedError(f"{type(self).__name__} has no handle_request")

    async def health_check(self) -> dict[str, Any]:
        """The health of the tool: `status` is healthy, degraded or unhealthy."""
        return {"status": "healthy"}


def response_result(response: object) -> object:
    """The result of a response: of a ToolResponse, of a dict in its form, or the returned value itself.

    Raises the error of the response as a ToolError.
    """
    match response:
        case ToolResponse(result, None):
            return result
        case ToolResponse(_, error):
            raise _as_tool_error(error)
        case {"type": "tool_error"}:
            raise _as_tool_error(response)
        case dict() if _RESPONSE_MEMBERS.issuperset(response) and not {"result", "error"}.isdisjoint(response):
            return response_result(ToolResponse(response.get("result"), response.get("error")))
        case _:
            return response


def as_object(value: object) -> object:
    """The result as the object that the hub requires: None becomes `{}`, other values become `{"result": value}`."""
    if isinstance(value, Reply):
        return msgspec.structs.replace(value, value=as_object(None if value.value is msgspec.UNSET else value.value))
    listed = value if isinstance(value, list | tuple) else (value,)
    blocks = tuple(each for each in listed if isinstance(each, CONTENT_TYPES))
    if blocks and len(blocks) == len(listed):
        return Reply(blocks, {})
    if value is None:
        return {}
    return value if isinstance(value, dict) or to_json(value).startswith(b"{") else {"result": value}


def _as_tool_error(error: object) -> ToolFailed:
    """The error of a response, in any form that an author may use."""
    match error:
        case ToolFailed():
            return error
        case dict():
            message, code, details = (error.get(name) for name in ("message", "code", "details"))
            tool_error = ToolError(message if isinstance(message, str) else None)
            tool_error.code = code if isinstance(code, str) else tool_error.code
            tool_error.details = details if isinstance(details, dict) else {}
            return tool_error
        case _:
            return ToolError(str(error))


def methods_of(instance: BaseTool) -> Iterator[tuple[Declaration, Any]]:
    """Every method as a Declaration with the function to call; BadDeclaration names the class and the fix."""
    _check_base_tool(instance)
    methods = _listed_methods(instance)
    if not methods:
        raise base_tool_error(instance, _NO_METHODS)
    names = [method.get("name") for method in methods]
    for name in names:
        if names.count(name) > 1:
            raise base_tool_error(instance, f"capabilities lists the method {name!r} twice; remove one")
    for method in methods:
        yield _declare_method(instance, method)


def readable_resources_of(instance: BaseTool) -> Iterator[tuple[Declaration, Any]]:
    """The resources whose name is a URI, if the tool has the method `read_resource`; that method reads them.

    They have the level and requirements of the method. Other resources are only published: the hub's API has no way to
    read one.
    """
    reader = next((each for each in _listed_methods(instance) if each["name"] == READ_METHOD), None)
    if reader is None:
        return
    options: Any = {name: reader[name] for name in _READ_OPTIONS if reader.get(name) is not None}
    taken: dict[str, str] = {}
    for declared in resources_of(instance) or ():
        uri, mime_type, description = (declared.get(name) for name in ("name", "type", "description"))
        if not isinstance(uri, str) or not _URI.fullmatch(uri):
            continue
        name = _NOT_IN_NAME.sub("_", uri).strip("_")[:MAX_RESOURCE_NAME]
        if (other := taken.setdefault(name, uri)) != uri or name in {
            each["name"] for each in _listed_methods(instance)
        }:
            raise base_tool_error(instance, f"the resource {uri!r} has the same name as {other!r}, {name!r}; change it")
        stated: Any = {**options, **({"description": description} if isinstance(description, str) else {})}
        if isinstance(mime_type, str) and "/" in mime_type:  # the hub's own examples have types such as "string"
            stated["mime_type"] = mime_type
        call = _make_reader(instance, uri, name)
        try:
            resource(uri, **stated)(call)
        except BadDeclaration as error:
            raise base_tool_error(instance, f"resource {uri!r}: {error.problem}") from None
        declaration = declaration_of(call)
        if declaration is None:
            raise TypeError("a decorated function has a declaration")
        yield declaration, call


def resources_of(instance: BaseTool) -> tuple[JsonObject, ...] | None:
    """The resources in the tool's capabilities, which are published as they are; see `readable_resources_of`."""
    listed = _capability_list(instance, "resources")
    if listed is None:
        return None
    return tuple(
        {"name": each} if isinstance(each, str) else _checked_object(instance, each, "resource") for each in listed
    )


def base_tool_error(instance: BaseTool, problem: str) -> BadDeclaration:
    """A BadDeclaration that names the file and the class."""
    kind = type(instance)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__
    return BadDeclaration(f"{file}: tool '{kind.__name__}': {problem}")


def _check_base_tool(instance: BaseTool) -> None:
    name, version = getattr(instance, "name", None), getattr(instance, "version", None)
    if name is None or version is None:
        raise base_tool_error(instance, "it has no name or no version: call super().__init__(NAME, VERSION)")
    problem = name_problem(name) or version_problem(version)
    if problem:
        raise base_tool_error(instance, problem)
    if type(instance).handle_request is BaseTool.handle_request:
        raise base_tool_error(instance, "it answers no requests: write 'async def handle_request(self, request)'")


def _capability_list(instance: BaseTool, part: str) -> list[Any] | None:
    """A list in the tool's capabilities; None if there is none."""
    capabilities: Any = instance.capabilities  # not checked yet
    if capabilities is None:
        return None
    if not isinstance(capabilities, Mapping):
        raise base_tool_error(instance, "capabilities is not a dict; write {'methods': ['NAME'], 'resources': []}")
    listed = capabilities.get(part)
    if not isinstance(listed, list | tuple | None):
        raise base_tool_error(instance, f"capabilities[{part!r}] is not a list; list names, or objects with a name")
    return None if listed is None else list(listed)


def _listed_methods(instance: BaseTool) -> list[JsonObject]:
    """The methods in the tool's capabilities; without a list of them, those that it has handlers for."""
    listed = _capability_list(instance, "methods")
    if listed is None:
        return list(_handler_methods(type(instance)))
    return [_method_entry(instance, each) for each in listed]


def _handler_methods(kind: type[BaseTool]) -> Iterator[JsonObject]:
    """A method for each coroutine `_handle_NAME`, in the order of the source."""
    for name in dict.fromkeys(name for parent in kind.__mro__[::-1] for name in vars(parent)):
        if name.startswith(_HANDLER_PREFIX) and inspect.iscoroutinefunction(getattr(kind, name)):
            yield _with_docstring(kind, {"name": name.removeprefix(_HANDLER_PREFIX)})


def _method_entry(instance: BaseTool, listed: object) -> JsonObject:
    if isinstance(listed, str):
        return _with_docstring(type(instance), {"name": listed})
    method = _checked_object(instance, listed, "method")
    unknown = sorted(set(method) - set(_METHOD_OPTIONS))
    if unknown:
        raise base_tool_error(instance, f"a method has no option {unknown[0]!r}; it takes {', '.join(_METHOD_OPTIONS)}")
    if not isinstance(method.get("name"), str):
        raise base_tool_error(instance, "a method in capabilities has no name; write {'name': 'NAME'}")
    return _with_docstring(type(instance), method)


def _checked_object(instance: BaseTool, listed: object, kind: str) -> JsonObject:
    if isinstance(listed, dict):
        return listed
    raise base_tool_error(instance, f"capabilities lists a {kind} that is neither a name nor an object with one")


def _with_docstring(kind: type[BaseTool], method: JsonObject) -> JsonObject:
    """The method, described by the docstring of its handler if it has no description."""
    handler = getattr(kind, f"{_HANDLER_PREFIX}{method['name']}", None)
    docstring = None if handler is None else inspect.getdoc(handler)
    if docstring is None or method.get("description") is not None:
        return method
    return {**method, "description": docstring}


def _declare_method(instance: BaseTool, method: JsonObject) -> tuple[Declaration, Any]:
    params = method.get("params")
    options: Any = {name: value for name, value in method.items() if name != "params" and value is not None}
    # A method without declared parameters accepts any.
    options["input"] = {"type": "object", **params} if isinstance(params, dict) else params or {"type": "object"}
    options["returns"] = dict[str, Any]
    call = _make_function(instance, method["name"])
    try:
        tool(**options)(call)
    except BadDeclaration as error:
        raise base_tool_error(instance, f"method {method['name']!r}: {error.problem}") from None
    declaration = declaration_of(call)
    if declaration is None:
        raise TypeError("a decorated function has a declaration")
    return declaration, call


def _make_function(instance: BaseTool, method: str) -> Callable[..., Any]:
    """A function for one method, which calls `handle_request` with a ToolRequest and unwraps the response."""

    async def handled(context: Context, /, **params: Any) -> Any:
        asked = _request(instance, method, params, context)
        return as_object(response_result(await instance.handle_request(asked)))

    def handled_in_thread(context: Context, /, **params: Any) -> Any:
        asked = _request(instance, method, params, context)
        return as_object(response_result(instance.handle_request(asked)))

    call = handled if _is_async(instance) else handled_in_thread
    call.__name__ = method
    return call


def _make_reader(instance: BaseTool, uri: str, name: str) -> Callable[..., Any]:
    """A function that reads one resource by the method `read_resource`; what the method returns is its content."""

    async def read(context: Context, /) -> Any:
        asked = _request(instance, READ_METHOD, {"uri": uri}, context)
        return response_result(await instance.handle_request(asked))

    def read_in_thread(context: Context, /) -> Any:
        return response_result(instance.handle_request(_request(instance, READ_METHOD, {"uri": uri}, context)))

    call = read if _is_async(instance) else read_in_thread
    call.__name__ = name
    return call


def _request(instance: BaseTool, method: str, params: JsonObject, context: Context) -> ToolRequest:
    return ToolRequest(id=uuid.uuid4().hex, tool=instance.name, method=method, params=params, context=context)


def _is_async(instance: BaseTool) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(instance.handle_request))
