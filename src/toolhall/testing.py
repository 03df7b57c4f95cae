"""Test client: `Client` calls tools, reads resources and gets prompts in memory, through every stage of the pipeline.

Calls are typed by the function itself: its parameters and its return type are those of `Client.call` and `Client.read`.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from types import NoneType, UnionType
from typing import Any, Concatenate, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import msgspec

from toolhall.app import Toolhall
from toolhall.authoring.context import Context
from toolhall.authoring.definition import definitions_of
from toolhall.config import Config
from toolhall.model.caller import LOCAL, Caller, RequireVerification
from toolhall.model.content import Message, Reply, Resource, Result, Text
from toolhall.model.errors import Cancelled, ToolFailed, ToolhallError, Unsupported
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import (
    Answered,
    Call,
    CallEvent,
    CallTool,
    Complete,
    CompletedCall,
    ListTools,
    Question,
    TaskView,
    ToolPage,
)
from toolhall.model.requirements import CallerCredentials
from toolhall.model.secret import Secret
from toolhall.model.tool import Kind, Tool
from toolhall.model.uri_template import UriTemplate
from toolhall.pipeline.tasks.rows import TaskTerms
from toolhall.registry.snapshot import Entry
from toolhall.schema.types import decoder_of, to_json

P = ParamSpec("P")
R = TypeVar("R")
_DIALECT = "memory"


class HallClient:
    """A hall of its own around the given tools, for tests; exported as `Client`. Use it with `async with`.

    `answers` replies to what tools ask the person, `approves` to calls from level 8 up; `supplies` is what tools
    may require, by the ids they declare: secrets, and tokens by provider; `events` collects progress and log notices,
    `changes` the URIs of which `ctx.changed` or `hall.changed` told.
    """

    def __init__(
        self,
        *targets: object,
        answers: Callable[[str, Question], Answered] | None = None,
        approves: bool = False,
        caller: Caller = LOCAL,
        config: Config | None = None,
        supplies: Mapping[str, str] | None = None,
    ) -> None:
        self._targets = targets
        self._credentials = {name: Secret(value) for name, value in (supplies or {}).items()}
        self._answers = answers
        self._approves = approves
        self._config = config
        self._caller = caller
        self._hall: Toolhall | None = None
        self.events: list[CallEvent] = []
        self.changes: list[str] = []

    async def __aenter__(self) -> "HallClient":
        config = msgspec.structs.replace(self._config or Config(), accept_credentials=("*",))
        self._hall = Toolhall(*self._targets, config=config, approver=self)
        self._hall.without_pages()
        self._hall.dispatcher.changes.subscribe_all(self.changes.append)
        try:
            await self._hall.open()
        except BaseException:
            self._hall.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.hall.settle()
        self.hall.close()
        self._hall = None

    @property
    def hall(self) -> Toolhall:
        """The hall behind the client."""
        if self._hall is None:
            raise RuntimeError("use the client inside 'async with Client(...) as client:'")
        return self._hall

    @overload
    async def call(
        self, tool: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def call(self, tool: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def call(self, tool: Callable[Concatenate[Context, P], R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def call(self, tool: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def call(self, tool: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a tool by its function, with the function's own parameters and return type."""
        name = _definition(tool, "tool").name
        result = await self.call_named(name, _arguments(tool, args, kwargs))
        return _return_value(result, get_type_hints(tool).get("return", Any))

    async def call_named(self, name: str, arguments: JsonObject) -> Result:
        """Call a tool by its published name or id, with JSON arguments; raises the error that ended the call."""
        entry = self.hall.registry.snapshot.find(name)
        return await self._answer(name, arguments, "tool", entry)

    @overload
    async def task(self, tool: str, arguments: JsonObject | None = None, /) -> Result: ...
    @overload
    async def task(
        self, tool: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def task(self, tool: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def task(self, tool: Callable[Concatenate[Context, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    async def task(self, tool: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def task(self, tool: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a tool as a task and wait until it has ended; by its function, or by its name or id with JSON arguments.

        `answers` replies to its questions; raises the error that ended it, also one that no task was made for.
        """
        if isinstance(tool, str):
            return await self._task_result(tool, *args, **kwargs)
        name = _definition(tool, "tool").name
        return _return_value(
            await self._task_result(name, _arguments(tool, args, kwargs)), get_type_hints(tool).get("return", Any)
        )

    async def _task_result(self, name: str, arguments: JsonObject | None = None) -> Result:
        tasks, given = self.hall.tasks, arguments or {}
        ask = CallTool(
            name, given, _DIALECT, len(to_json(given)), self._credentials_for(self.hall.registry.snapshot.find(name))
        )
        view = await tasks.start(ask, self._caller, self, TaskTerms(at_once=True))
        while isinstance(view, TaskView) and not view.has_ended:
            view = await tasks.wait(view.id, self._caller)
            if view.questions:
                await tasks.answer(view.id, self._caller, await self.ask(view.questions))
        outcome = view.outcome or Cancelled() if isinstance(view, TaskView) else view
        if isinstance(outcome, ToolhallError):
            raise outcome
        if isinstance(outcome, CompletedCall):
            return outcome.result
        raise TypeError(f"a task was answered by {outcome!r}")

    @overload
    async def read(self, resource: str, /) -> str | bytes | list[Resource]: ...
    @overload
    async def read(
        self,
        resource: Callable[Concatenate[Context, P], Coroutine[Any, Any, R | None]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R: ...
    @overload
    async def read(
        self, resource: Callable[P, Coroutine[Any, Any, R | None]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def read(
        self, resource: Callable[Concatenate[Context, P], R | None], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...
    @overload
    async def read(self, resource: Callable[P, R | None], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
    async def read(self, resource: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Read a resource by its URI, or by its function with the values of the URI's variables.

        A URI gives text or bytes, or Resources if there are several; a function what it returns. Raises NotFound for a
        URI that means nothing, also where the function returned None.
        """
        if isinstance(resource, str):
            contents = await self._read_uri(resource)
            return contents[0].content if len(contents) == 1 else contents
        template = _uri_of(_definition(resource, "resource"))
        variables = {
            name: value
            for name, value in _arguments(resource, args, kwargs, defaults_of=_path_variables(template)).items()
            if value is not None
        }
        contents = await self._read_uri(template.expand({name: _texts_of(value) for name, value in variables.items()}))
        return _read_value(contents, get_type_hints(resource).get("return", Any))

    async def _read_uri(self, uri: str) -> list[Resource]:
        match = self.hall.registry.snapshot.resources.match(uri)
        result = await self._answer(uri, {}, "resource", None if match is None else match.value)
        return [block for block in result.content if isinstance(block, Resource)]

    @overload
    async def prompt(self, prompt: str, /, **arguments: object) -> list[Message]: ...
    @overload
    async def prompt(
        self, prompt: Callable[Concatenate[Context, P], object], /, *args: P.args, **kwargs: P.kwargs
    ) -> list[Message]: ...
    @overload
    async def prompt(self, prompt: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> list[Message]: ...
    async def prompt(self, prompt: Any, /, *args: Any, **kwargs: Any) -> list[Message]:
        """Get the messages of a prompt by its published name or its function; arguments travel as texts, as in MCP."""
        if isinstance(prompt, str):
            name, arguments = prompt, _plain(kwargs)
        else:
            name, arguments = _definition(prompt, "prompt").name, _arguments(prompt, args, kwargs)
        texts = {key: _text_of(value) for key, value in arguments.items() if value is not None}
        result = await self._answer(name, texts, "prompt", self.hall.registry.snapshot.prompts.find(name))
        return [Message(role, block) for role, block in zip(result.roles, result.content, strict=True)]

    async def complete(
        self, thing: str | Callable[..., object], argument: str, typed: str = "", /, **given: object
    ) -> list[str]:
        """Complete an argument of a prompt or a variable of a URI template; `given` are the values of the others.

        The thing is a function, the name of a prompt, or a URI template.
        """
        kind: Kind
        if isinstance(thing, str):
            name, kind = thing, "resource" if ":" in thing else "prompt"
        else:
            tool = _definition(thing)
            name, kind = (tool.name if tool.resource is None else tool.resource.uri), tool.kind
        others = {key: _text_of(value) for key, value in _plain(given).items() if value is not None}
        request = Complete(kind=kind, name=name, argument=argument, typed=typed, given=others, dialect=_DIALECT)
        completion = await self.hall.dispatcher.complete(request, self._caller)
        if isinstance(completion, ToolhallError):
            raise completion
        return list(completion.values)

    async def _answer(self, name: str, arguments: JsonObject, kind: Kind, entry: Entry | None) -> Result:
        """Return the result of a call, a read or a prompt; raises the error that ended it."""
        size = len(to_json(arguments))
        ask = CallTool(name, arguments, _DIALECT, size, self._credentials_for(entry), kind=kind)
        answer = await self.hall.dispatcher.answer(ask, self._caller, self)
        match answer:
            case CompletedCall(_, result):
                return result
            case ToolhallError():
                raise answer
            case _:
                raise TypeError(f"a call was answered by {answer!r}")

    def _credentials_for(self, entry: Entry | None) -> CallerCredentials | None:
        """Return those of the test's credentials that this definition requires."""
        needs = entry.requirements if entry is not None else None
        if needs is None:
            return None
        given = self._credentials
        tokens = {need.provider: given[need.provider] for need in needs.accounts if need.provider in given}
        return CallerCredentials({name: given[name] for name in needs.secrets if name in given}, tokens) or None

    async def list_tools(self) -> tuple[Tool, ...]:
        """Return every tool that the caller may see."""
        tools: tuple[Tool, ...] = ()
        cursor: str | None = None
        while True:
            page = await self.hall.dispatcher.answer(ListTools(cursor), self._caller)
            if not isinstance(page, ToolPage):
                raise TypeError(f"a listing was answered by {page!r}")
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                return tools

    async def resources(self) -> tuple[Tool, ...]:
        """Return every listed resource that the caller may see, without templates."""
        return self.hall.dispatcher.visible_snapshot(self._caller).resources.pages.tools

    async def templates(self) -> tuple[Tool, ...]:
        """Return every listed URI template that the caller may see."""
        return self.hall.dispatcher.visible_snapshot(self._caller).resources.template_pages.tools

    async def prompts(self) -> tuple[Tool, ...]:
        """Return every prompt that the caller may see."""
        return self.hall.dispatcher.visible_snapshot(self._caller).prompts.pages.tools

    @property
    def waits_for_tasks(self) -> bool:
        """ClientLink: a test waits, so a tool that requires a task runs in line."""
        return True

    def emit(self, event: CallEvent) -> None:
        """ClientLink: collect the events of running tools in `events`."""
        self.events.append(event)

    def can(self, feature: str) -> bool:  # noqa: ARG002 - `answers` gets every kind of question
        """ClientLink: the client can answer questions if it was given `answers`."""
        return self._answers is not None

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """ClientLink: answer by the test's `answers`."""
        if self._answers is None:
            raise Unsupported("elicitation")
        return {key: self._answers(key, question) for key, question in questions.items()}

    async def detach(self, retry_ms: int) -> None:
        """ClientLink: there is no connection to detach from."""

    async def approve(self, tool: Tool, call: Call, arguments: JsonObject, verdict: RequireVerification) -> bool:  # noqa: ARG002
        """Approver: return the test's `approves`."""
        return self._approves


Client = HallClient
_METHODS: dict[Kind, str] = {"tool": "call", "resource": "read", "prompt": "prompt"}


def _definition(function: Callable[..., Any], kind: Kind | None = None) -> Tool:
    """Return the definition of a function; TypeError, with the method to use instead, if it is of another kind."""
    tool = next(definitions_of(function)).tool
    if kind is not None and tool.kind != kind:
        raise TypeError(f"{tool.id} is a {tool.kind}: use client.{_METHODS[tool.kind]}(...)")
    return tool


def _arguments(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    defaults_of: frozenset[str] = frozenset(),
) -> JsonObject:
    """Return the call's arguments as JSON, as a client would send them, with the defaults of some parameters."""
    signature = inspect.signature(function)
    hints = get_type_hints(function)
    visible = [parameter for name, parameter in signature.parameters.items() if hints.get(name) is not Context]
    bound = signature.replace(parameters=visible).bind_partial(*args, **kwargs)
    rest = [parameter.name for parameter in visible if parameter.kind is parameter.VAR_KEYWORD]
    arguments = {name: value for name, value in bound.arguments.items() if name not in rest}
    for name in rest:
        arguments |= bound.arguments.get(name, {})
    for parameter in visible:
        if parameter.name in defaults_of and parameter.default is not parameter.empty:
            arguments.setdefault(parameter.name, parameter.default)
    return _plain(arguments)


def _plain(arguments: Mapping[str, object]) -> JsonObject:
    plain: JsonObject = msgspec.json.decode(to_json(arguments))
    return plain


def _uri_of(tool: Tool) -> UriTemplate:
    if tool.resource is None:
        raise TypeError(f"{tool.id} is no resource")
    return UriTemplate(tool.resource.uri, any_path=tool.resource.any_path)


def _path_variables(template: UriTemplate) -> frozenset[str]:
    """Return the variables that a URI must have; those of the query may be missing."""
    return frozenset(template.variables) - frozenset(template.query_variables)


def _texts_of(value: Json) -> str | list[str]:
    return [_text_of(each) for each in value] if isinstance(value, list) else _text_of(value)


def _text_of(value: Json) -> str:
    """Return a value as the text that stands for it in a URI or in an argument of a prompt."""
    return value if isinstance(value, str) else encode(value).decode()


def _read_value(contents: list[Resource], hint: Any) -> Any:
    """Convert what a client would have read to the function's return type."""
    types = [each for each in get_args(hint) if each is not NoneType] if _is_union(hint) else [hint]
    for each in types:
        if each is Resource:
            return contents[0]
        if Resource in get_args(each):
            return (get_origin(each) or list)(contents)
    (read,) = contents
    may_be_text = read.mime_type != "application/json" and (str in types or Any in types)
    if isinstance(read.content, bytes) or types == [str] or may_be_text:
        return read.content
    return decoder_of(hint)(msgspec.json.decode(read.content))


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, UnionType)


def _return_value(result: Result, hint: Any) -> Json:
    """Convert the result that a client would get back to the function's return type."""
    if result.is_error:
        raise ToolFailed("; ".join(block.text for block in result.content if isinstance(block, Text)) or None)
    if hint is Reply:
        value = msgspec.json.decode(result.encoded) if result.encoded is not None else msgspec.UNSET
        return Reply(result.content, value, result.meta)
    if result.encoded is not None:
        return decoder_of(hint)(msgspec.json.decode(result.encoded))
    if hint is str and len(result.content) == 1 and isinstance(result.content[0], Text):
        return result.content[0].text
    collection = get_origin(hint) or hint
    if collection in (list, tuple):
        return collection(result.content)
    return result.content[0] if len(result.content) == 1 else (list(result.content) or None)
