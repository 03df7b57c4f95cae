"""Builders of tools, registry entries and calls for unit tests, and a clock that a test sets."""

from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from toolhall.authoring.context import PausableDeadline
from toolhall.authoring.definition import definitions_of
from toolhall.execution.function_runner import FunctionRunner
from toolhall.execution.thread_pool import ThreadPool
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.json import JsonObject
from toolhall.model.messages import NULL_LINK, Answered, Call, CallEvent, ClientLink, Question
from toolhall.model.names import ToolId
from toolhall.model.tool import Output, Tool
from toolhall.registry.snapshot import Entry, compile_entry


class Clock:
    """A clock that stands still until a test sets it."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class RecordingLink:
    """A client link that records events and retries, and answers questions as the test says."""

    def __init__(self, answers: Callable[[str, Question], Answered] | None = None) -> None:
        self.events: list[CallEvent] = []
        self.retries: list[int] = []
        self._answers = answers

    def emit(self, event: CallEvent) -> None:
        self.events.append(event)

    def can(self, feature: str) -> bool:
        return feature == "elicitation"

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        return {key: self._answers(key, question) for key, question in questions.items()} if self._answers else {}

    async def detach(self, retry_ms: int) -> None:
        self.retries.append(retry_ms)


class FixedResultRunner:
    """A runner that returns one value, whatever it is called with."""

    def __init__(self, value: object = None) -> None:
        self.value = value
        self.calls: list[JsonObject] = []

    async def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> object:
        self.calls.append(arguments)
        return self.value


def tool_named(name: str, **stated: Any) -> Tool:
    """A tool of the toolkit `Kit`."""
    fields: dict[str, Any] = {"id": ToolId("Kit", name, "1.0.0"), "name": name, "input": {"type": "object"}}
    return Tool(**{**fields, **stated})


def entry_named(name: str = "pick", *, returns: JsonObject | None = None, **stated: Any) -> Entry:
    """A registered tool that returns nothing; `returns` is its output schema."""
    output = Output() if returns is None else Output("schema", returns)
    return compile_entry(tool_named(name, **{"output": output, **stated}), FixedResultRunner())


@contextmanager
def entry_of(function: Any) -> Generator[Entry]:
    """A marked function, registered as it would be in a hall."""
    with closing(ThreadPool(2)) as threads:
        definition = next(definitions_of(function))
        yield compile_entry(definition.tool, FunctionRunner(definition.body, threads))


def call_of(
    tool: str = "pick",
    arguments: JsonObject | None = None,
    caller: Caller = LOCAL,
    link: ClientLink = NULL_LINK,
    size: int = 2,
) -> Call:
    """A call as a transport would make it."""
    return Call("call-1", tool, arguments or {}, caller, link, "test", size, 1_000.0)


def nested(depth: int, key: str = "a", core: Any = 1) -> Any:
    """A value inside so many objects."""
    for _ in range(depth):
        core = {key: core}
    return core
