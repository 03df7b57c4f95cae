"""Halls with long calls for tests: opened on a folder, and opened again on what a killed process would leave."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.patience import patience
from toolhall.app.toolhall import Toolhall
from toolhall.config import Config
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.messages import Answered, CallEvent, CallTool, ClientLink, Filled, Question, TaskView
from toolhall.pipeline.tasks.rows import TaskTerms
from toolhall.schema.types import to_json
from toolhall.stores.tasks import StoredTask


class PersonLink:
    """The link of a client that has a person; before a call is a task, `answers` replies, and events are kept."""

    def __init__(self, answers: Callable[[str, Question], Answered] | None = None) -> None:
        self.events: list[CallEvent] = []
        self._answers = answers

    def emit(self, event: CallEvent) -> None:
        self.events.append(event)

    def can(self, feature: str) -> bool:
        return feature == "elicitation"

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        assert self._answers is not None, f"asked before the call was a task: {questions}"
        return {key: self._answers(key, question) for key, question in questions.items()}

    async def detach(self, retry_ms: int) -> None:
        """Stay: the call is a task from here on."""


@asynccontextmanager
async def opened(data: Path | None, *tools: object, **settings: Any) -> AsyncGenerator[Toolhall]:
    """A hall on this folder that serves these tools, open; None: in memory."""
    hall = Toolhall(*tools, config=Config(data=None if data is None else str(data), **settings))
    hall.without_pages()
    async with hall:
        yield hall


def left_by_kill(data: Path, into: Path) -> Path:
    """What a process that is killed right now leaves of its folder: what it has written, and nothing else."""
    return Path(shutil.copytree(data, into))


async def start(
    hall: Toolhall,
    tool: str,
    *,
    caller: Caller = LOCAL,
    link: ClientLink | None = None,
    terms: TaskTerms | None = None,
    **arguments: Any,
) -> TaskView:
    """Start a call that becomes a task."""
    answer = await attempt(hall, tool, caller=caller, link=link, terms=terms, **arguments)
    assert isinstance(answer, TaskView), answer
    return answer


async def attempt(
    hall: Toolhall,
    tool: str,
    *,
    caller: Caller = LOCAL,
    link: ClientLink | None = None,
    terms: TaskTerms | None = None,
    **arguments: Any,
) -> Any:
    """Start a call, and return what the client gets at once."""
    request = CallTool(tool, arguments, "memory", len(to_json(arguments)))
    return await hall.tasks.start(request, caller, link or PersonLink(), terms or TaskTerms())


async def ended(hall: Toolhall, task: TaskView | str, caller: Caller = LOCAL) -> TaskView:
    """The task once it has ended."""
    return await _until(hall, task, lambda view: view.has_ended, caller)


async def asking(hall: Toolhall, task: TaskView | str, caller: Caller = LOCAL) -> TaskView:
    """The task once it asks something."""
    view = await _until(hall, task, lambda view: view.has_ended or bool(view.questions), caller)
    assert view.questions, view
    return view


async def _until(hall: Toolhall, task: TaskView | str, holds: Callable[[TaskView], bool], caller: Caller) -> TaskView:
    task_id = task if isinstance(task, str) else task.id
    async with asyncio.timeout(patience()):
        while True:
            view = await hall.tasks.wait(task_id, caller)
            if holds(view):
                return view


async def until(holds: Callable[[], object]) -> None:
    """Wait until this holds."""
    async with asyncio.timeout(patience()):
        while not holds():  # noqa: ASYNC110 - what it waits for is no event
            await asyncio.sleep(0.001)


async def row_when(hall: Toolhall, holds: Callable[[StoredTask], bool]) -> StoredTask:
    """The row of the only task, once this holds of it."""
    async with asyncio.timeout(patience()):
        while True:
            (row,) = await hall.tasks.rows_of_all()
            if holds(row):
                return row


def text_of(view: TaskView) -> str | None:
    """The text of a result, or the message of an error."""
    outcome = view.outcome
    return getattr(getattr(outcome, "result", None), "text", None) or getattr(outcome, "message", None)


def accepted(**content: Any) -> Filled:
    """The reply of a person who filled in a form."""
    return Filled("accept", content)


def token_caller(name: str, **more: Any) -> Caller:
    """Somebody with a token, which is good as long as it has not expired: no key has to be made for it."""
    return Caller(name, proof="token", person=name, scopes=frozenset({"tools:*"}), expires_at=4e9, **more)
