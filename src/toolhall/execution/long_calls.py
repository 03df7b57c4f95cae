"""`LongCallRunner`: runs a tool that is declared with `task=`; where the call is a task, it is stored before it runs.

Only such tools have this runner, which registration gives them: a call of any other tool knows nothing of tasks.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toolhall.authoring.context import PausableDeadline
from toolhall.execution.client_link import ThrottledLink
from toolhall.model.errors import ToolhallError
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, ClientLink
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Runner

_Link: TypeAlias = ClientLink


class LongCallLink(ABC):
    """The client link of a call that is a task, or may become one."""

    @abstractmethod
    async def begin(self, tool: Tool, call: Call, deadline: PausableDeadline) -> None:
        """Called before the tool runs: the task is stored when this returns, unless it is made later."""


class LongCallRunner:
    """Lets another runner run the tool once its task is stored; refuses calls in line where a task is required."""

    def __init__(self, runner: Runner, refuse_in_line: Callable[[], ToolhallError]) -> None:
        """`refuse_in_line` returns the error for a call that cannot become the task that its tool requires."""
        self._runner = runner
        self._refuse_in_line = refuse_in_line
        self.is_interactive: bool = getattr(runner, "is_interactive", True)

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Run the tool; the awaitable gives its return value."""
        return self._run(tool, call, arguments, deadline)

    async def _run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> object:
        link: _Link = call.link.link if isinstance(call.link, ThrottledLink) else call.link
        if isinstance(link, LongCallLink):
            await link.begin(tool, call, deadline)
        elif tool.task is not None and tool.task.required and not getattr(link, "waits_for_tasks", False):
            raise self._refuse_in_line()
        return await self._runner.run(tool, call, arguments, deadline)
