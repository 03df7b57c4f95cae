"""The methods that a BaseTool states, each read as a function that is marked with `@tool`."""

import inspect
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from toolhall.authoring.base_tool import BaseTool, ToolRequest, object_from, result_of
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import BadDeclaration, Declaration, ToolOptions, declaration_of, tool
from toolhall.authoring.requiring import options_of
from toolhall.model.json import JsonObject
from toolhall.model.names import name_problem, version_problem

_PREFIX = "_handle_"
# A method is called by its tool's own `handle_request`, here, and has the version of its tool.
_NOT_OF_A_METHOD = ("name", "version", "isolated", "input", "returns")
_TAKEN = ("name", "params", *(name for name in options_of(ToolOptions) if name not in _NOT_OF_A_METHOD))
_NO_METHODS = (
    "it states no methods: set capabilities = {'methods': ['NAME']}, or write coroutines that are named _handle_NAME"
)


def methods_of(served: BaseTool) -> Iterator[tuple[Declaration, Any]]:
    """Every method as a declaration, and the function to call; BadDeclaration names the class and the fix."""
    _check(served)
    listed = _listed(served, "methods")
    methods = list(_found(type(served))) if listed is None else [_named(served, each) for each in listed]
    if not methods:
        raise refused(served, _NO_METHODS)
    names = [method.get("name") for method in methods]
    for name in names:
        if names.count(name) > 1:
            raise refused(served, f"capabilities lists the method {name!r} twice; leave out one")
    for method in methods:
        yield _declared(served, method)


def resources_of(served: BaseTool) -> tuple[JsonObject, ...] | None:
    """What the tool says of its resources; nobody can read them by the hub, so they are told and no more."""
    listed = _listed(served, "resources")
    if listed is None:
        return None
    return tuple({"name": each} if isinstance(each, str) else _object(served, each, "resource") for each in listed)


def refused(served: BaseTool, problem: str) -> BadDeclaration:
    """Names the file and the class."""
    kind = type(served)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or kind.__module__
    return BadDeclaration(f"{file}: tool '{kind.__name__}': {problem}")


def _check(served: BaseTool) -> None:
    name, version = getattr(served, "name", None), getattr(served, "version", None)
    if name is None or version is None:
        raise refused(served, "it has no name or no version: call super().__init__(NAME, VERSION)")
    problem = name_problem(name) or version_problem(version)
    if problem:
        raise refused(served, problem)
    if type(served).handle_request is BaseTool.handle_request:
        raise refused(served, "it answers nothing: write 'async def handle_request(self, request)'")


def _listed(served: BaseTool, part: str) -> list[Any] | None:
    """A list of the capabilities; None where the tool does not say."""
    stated: Any = served.capabilities  # the author's word for it
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise refused(served, "capabilities is no dict; write {'methods': ['NAME'], 'resources': []}")
    listed = stated.get(part)
    if not isinstance(listed, list | tuple | None):
        raise refused(served, f"capabilities[{part!r}] is no list; list names, or objects with a name")
    return None if listed is None else list(listed)


def _found(kind: type[BaseTool]) -> Iterator[JsonObject]:
    """The coroutines that handle a method each, in the order in which they are written."""
    for name in dict.fromkeys(name for parent in kind.__mro__[::-1] for name in vars(parent)):
        if name.startswith(_PREFIX) and inspect.iscoroutinefunction(getattr(kind, name)):
            yield _described(kind, {"name": name.removeprefix(_PREFIX)})


def _named(served: BaseTool, listed: object) -> JsonObject:
    if isinstance(listed, str):
        return _described(type(served), {"name": listed})
    method = _object(served, listed, "method")
    unknown = sorted(set(method) - set(_TAKEN))
    if unknown:
        raise refused(served, f"a method does not know {unknown[0]!r}; it takes {', '.join(_TAKEN)}")
    if not isinstance(method.get("name"), str):
        raise refused(served, "a method in capabilities has no name; write {'name': 'NAME'}")
    return _described(type(served), method)


def _object(served: BaseTool, listed: object, what: str) -> JsonObject:
    if isinstance(listed, dict):
        return listed
    raise refused(served, f"capabilities lists a {what} that is neither a name nor an object with one")


def _described(kind: type[BaseTool], method: JsonObject) -> JsonObject:
    """A method that says nothing of itself is described where it is written."""
    written = getattr(kind, f"{_PREFIX}{method['name']}", None)
    said = None if written is None else inspect.getdoc(written)
    return method if said is None or method.get("description") is not None else {**method, "description": said}


def _declared(served: BaseTool, method: JsonObject) -> tuple[Declaration, Any]:
    params = method.get("params")
    options: Any = {name: said for name, said in method.items() if name != "params" and said is not None}
    # A method that says nothing of its parameters takes any.
    options["input"] = {"type": "object", **params} if isinstance(params, dict) else params or {"type": "object"}
    options["returns"] = dict[str, Any]
    call = _calling(served, method["name"])
    try:
        tool(**options)(call)
    except BadDeclaration as error:
        raise refused(served, f"method {method['name']!r}: {error.problem}") from None
    declaration = declaration_of(call)
    if declaration is None:
        raise TypeError("a marked function has a declaration")
    return declaration, call


def _calling(served: BaseTool, method: str) -> Callable[..., Any]:
    """A function for one method: what `handle_request` gets and gives is the hub's, not Python's."""

    def request(context: Context, params: JsonObject) -> ToolRequest:
        return ToolRequest(id=uuid.uuid4().hex, tool=served.name, method=method, params=params, context=context)

    async def handled(context: Context, /, **params: Any) -> Any:
        return object_from(result_of(await served.handle_request(request(context, params))))

    def handled_in_thread(context: Context, /, **params: Any) -> Any:
        return object_from(result_of(served.handle_request(request(context, params))))

    call = handled if inspect.iscoroutinefunction(inspect.unwrap(served.handle_request)) else handled_in_thread
    call.__name__ = method
    return call
