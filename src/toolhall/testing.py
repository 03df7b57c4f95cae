"""Test client: `Client` calls tools in memory, through every stage of the pipeline.

Calls are typed by the tool's own function: its parameters and its return type are those of `Client.call`.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar, get_origin, get_type_hints, overload

import msgspec

from toolhall.app import Toolhall
from toolhall.authoring.context import Context
from toolhall.authoring.definition import definitions_of
from toolhall.config import Config
from toolhall.model.caller import LOCAL, Caller, RequireVerification
from toolhall.model.content import Reply, Result, Text
from toolhall.model.errors import ToolFailed, ToolhallError, Unsupported
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Answered, Call, CallEvent, CallTool, CompletedCall, ListTools, Question, ToolPage
from toolhall.model.requirements import CallerCredentials
from toolhall.model.secret import Secret
from toolhall.model.tool import Tool
from toolhall.schema.types import decoder_of, to_json

P = ParamSpec("P")
R = TypeVar("R")
_DIALECT = "memory"


class Client:
    """A hall of its own around the given tools; use it with `async with`.

    `answers` replies to what tools ask the person, `approves` to calls from level 8 up; `supplies` is what tools
    may require, by the ids they declare: secrets, and tokens by provider; `events` collects progress and log notices.
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

    async def __aenter__(self) -> "Client":
        config = msgspec.structs.replace(self._config or Config(), accept_credentials=("*",))
        self._hall = Toolhall(*self._targets, config=config, approver=self)
        self._hall.without_pages()
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
        name = next(definitions_of(tool)).tool.name
        result = await self.call_named(name, _arguments(tool, args, kwargs))
        return _return_value(result, get_type_hints(tool).get("return", Any))

    async def call_named(self, name: str, arguments: JsonObject) -> Result:
        """Call a tool by its published name or id, with JSON arguments; raises the error that ended the call."""
        ask = CallTool(name, arguments, _DIALECT, len(to_json(arguments)), self._credentials_for(name))
        answer = await self.hall.dispatcher.answer(ask, self._caller, self)
        match answer:
            case CompletedCall(_, result):
                return result
            case ToolhallError():
                raise answer
            case _:
                raise TypeError(f"a call was answered by {answer!r}")

    def _credentials_for(self, name: str) -> CallerCredentials | None:
        """Return those of the test's credentials that this tool requires."""
        entry = self.hall.registry.snapshot.find(name)
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


def _arguments(tool: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> JsonObject:
    """Return the call's arguments as JSON, as a client would send them."""
    signature = inspect.signature(tool)
    hints = get_type_hints(tool)
    visible = [parameter for name, parameter in signature.parameters.items() if hints.get(name) is not Context]
    bound = signature.replace(parameters=visible).bind_partial(*args, **kwargs)
    rest = [parameter.name for parameter in visible if parameter.kind is parameter.VAR_KEYWORD]
    arguments = {name: value for name, value in bound.arguments.items() if name not in rest}
    for name in rest:
        arguments |= bound.arguments.get(name, {})
    plain: JsonObject = msgspec.json.decode(to_json(arguments))
    return plain


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
