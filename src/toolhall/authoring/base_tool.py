"""BaseTool, a tool with methods as the hub specification defines it, and its methods as declarations."""

import inspect
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import BadDeclaration, Declaration, ToolOptions, declaration_of, option_names, tool
from toolhall.model.content import CONTENT_TYPES, Reply
from toolhall.model.errors import ToolError, ToolFailed
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import name_problem
from toolhall.model.versions import version_problem
from toolhall.schema.types import to_json

_RESPONSE_MEMBERS = {"type", "id", "result", "error"}


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a tool: the method that is called, and its parameters."""

    method: str
    params: JsonObject = {}
    tool: str = ""
    id: str | int | None = None
    type: Literal["tool_request"] = "tool_request"
    context: Context = msgspec.field(default_factory=Context)  # progress, questions, secrets: the way to the caller


class ToolResponse(msgspec.Struct, frozen=True):
    """What a tool answers: a result, or an error; its type and id are filled in by whoever sends it."""

    result: Json = None
    error: JsonObject | str | ToolFailed | None = None
    id: str | int | None = None
    type: Literal["tool_response"] = "tool_response"


class BaseTool:
    """A tool with methods: write `handle_request`; `capabilities` or coroutines `_handle_NAME` say which there are."""

    capabilities: ClassVar[Mapping[str, Any] | None] = None  # {"methods": [...], "resources": [...]}: names, or objects

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version

    async def handle_request(self, request: ToolRequest) -> ToolResponse:
        """Answer one request; only methods that the tool has come here."""
        raise NotImplementedError(f"{type(self).__name__} has no handle_request")

    async def health_check(self) -> dict[str, Any]:
        """How the tool is: `status` is healthy, degraded or unhealthy."""
        return {"status": "healthy"}


def response_result(response: object) -> object:
    """The value of a response, whether the tool made a ToolResponse, a dict that is one, or only the value itself.

    Raises the ToolError that the response holds.
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
    """The result of a hub tool is an object: nothing is an empty one, and what else is none is wrapped."""
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
    """Whatever an author puts where an error belongs."""
    match error:
        case ToolFailed():
            return error
        case dict():
            message, code, details = (error.get(name) for name in ("message", "code", "details"))
            told = ToolError(message if isinstance(message, str) else None)
            told.code = code if isinstance(code, str) else told.code
            told.details = details if isinstance(details, dict) else {}
            return told
        case _:
            return ToolError(str(error))


_HANDLER_PREFIX = "_handle_"
# A method is called by its tool's own `handle_request`, here, and has the version of its tool.
_NOT_METHOD_OPTIONS = ("name", "version", "isolated", "input", "returns")
_METHOD_OPTIONS = ("name", "params", *(name for name in option_names(ToolOptions) if name not in _NOT_METHOD_OPTIONS))
_NO_METHODS = (
    "it states no methods: set capabilities = {'methods': ['NAME']}, or write coroutines that are named _handle_NAME"
)


def methods_of(instance: BaseTool) -> Iterator[tuple[Declaration, Any]]:
    """Every method as a declaration, and the function to call; BadDeclaration names the class and the fix."""
    _check_base_tool(instance)
    listed = _capability_list(instance, "methods")
    methods = (
        list(_handler_methods(type(instance))) if listed is None else [_method_entry(instance, each) for each in listed]
    )
    if not methods:
        raise base_tool_error(instance, _NO_METHODS)
    names = [method.get("name") for method in methods]
    for name in names:
        if names.count(name) > 1:
            raise base_tool_error(instance, f"capabilities lists the method {name!r} twice; leave out one")
    for method in methods:
        yield _declare_method(instance, method)


def resources_of(instance: BaseTool) -> tuple[JsonObject, ...] | None:
    """What the tool says of its resources; nobody can read them by the hub, so they are told and no more."""
    listed = _capability_list(instance, "resources")
    if listed is None:
        return None
    return tuple(
        {"name": each} if isinstance(each, str) else _checked_object(instance, each, "resource") for each in listed
    )


def base_tool_error(instance: BaseTool, problem: str) -> BadDeclaration:
    """Names the file and the class."""
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
        raise base_tool_error(instance, "it answers nothing: write 'async def handle_request(self, request)'")


def _capability_list(instance: BaseTool, part: str) -> list[Any] | None:
    """A list of the capabilities; None where the tool does not say."""
    stated: Any = instance.capabilities  # the author's word for it
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise base_tool_error(instance, "capabilities is no dict; write {'methods': ['NAME'], 'resources': []}")
    listed = stated.get(part)
    if not isinstance(listed, list | tuple | None):
        raise base_tool_error(instance, f"capabilities[{part!r}] is no list; list names, or objects with a name")
    return None if listed is None else list(listed)


def _handler_methods(kind: type[BaseTool]) -> Iterator[JsonObject]:
    """The coroutines that handle a method each, in the order in which they are written."""
    for name in dict.fromkeys(name for parent in kind.__mro__[::-1] for name in vars(parent)):
        if name.startswith(_HANDLER_PREFIX) and inspect.iscoroutinefunction(getattr(kind, name)):
            yield _with_docstring(kind, {"name": name.removeprefix(_HANDLER_PREFIX)})


def _method_entry(instance: BaseTool, listed: object) -> JsonObject:
    if isinstance(listed, str):
        return _with_docstring(type(instance), {"name": listed})
    method = _checked_object(instance, listed, "method")
    unknown = sorted(set(method) - set(_METHOD_OPTIONS))
    if unknown:
        raise base_tool_error(instance, f"a method does not know {unknown[0]!r}; it takes {', '.join(_METHOD_OPTIONS)}")
    if not isinstance(method.get("name"), str):
        raise base_tool_error(instance, "a method in capabilities has no name; write {'name': 'NAME'}")
    return _with_docstring(type(instance), method)


def _checked_object(instance: BaseTool, listed: object, what: str) -> JsonObject:
    if isinstance(listed, dict):
        return listed
    raise base_tool_error(instance, f"capabilities lists a {what} that is neither a name nor an object with one")


def _with_docstring(kind: type[BaseTool], method: JsonObject) -> JsonObject:
    """A method that says nothing of itself is described where it is written."""
    written = getattr(kind, f"{_HANDLER_PREFIX}{method['name']}", None)
    said = None if written is None else inspect.getdoc(written)
    return method if said is None or method.get("description") is not None else {**method, "description": said}


def _declare_method(instance: BaseTool, method: JsonObject) -> tuple[Declaration, Any]:
    params = method.get("params")
    options: Any = {name: said for name, said in method.items() if name != "params" and said is not None}
    # A method that says nothing of its parameters takes any.
    options["input"] = {"type": "object", **params} if isinstance(params, dict) else params or {"type": "object"}
    options["returns"] = dict[str, Any]
    call = _make_function(instance, method["name"])
    try:
        tool(**options)(call)
    except BadDeclaration as error:
        raise base_tool_error(instance, f"method {method['name']!r}: {error.problem}") from None
    declaration = declaration_of(call)
    if declaration is None:
        raise TypeError("a marked function has a declaration")
    return declaration, call


def _make_function(instance: BaseTool, method: str) -> Callable[..., Any]:
    """A function for one method: what `handle_request` gets and gives is the hub's, not Python's."""

    def request(context: Context, params: JsonObject) -> ToolRequest:
        return ToolRequest(id=uuid.uuid4().hex, tool=instance.name, method=method, params=params, context=context)

    async def handled(context: Context, /, **params: Any) -> Any:
        return as_object(response_result(await instance.handle_request(request(context, params))))

    def handled_in_thread(context: Context, /, **params: Any) -> Any:
        return as_object(response_result(instance.handle_request(request(context, params))))

    call = handled if inspect.iscoroutinefunction(inspect.unwrap(instance.handle_request)) else handled_in_thread
    call.__name__ = method
    return call
