"""RunnerOnDemand: the runner of tools that no code here defines; it builds what runs them for the first call of one.

A hall that only lists such tools, as after a start, imports neither pools of tool servers nor sessions of upstreams.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from toolhall.authoring.context import PausableDeadline
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Runner


class CompletingRunner(Runner, Protocol):
    """A runner whose tools can complete arguments."""

    def completion_runner(self, argument: str) -> Runner:
        """Return the runner of what completes an argument."""
        ...


class RunnerOnDemand:
    """Builds the runner for the first call; later calls go straight to it."""

    is_interactive = True

    def __init__(self, build: Callable[[], CompletingRunner]) -> None:
        self._build = build
        self.run = self._run_first

    def _run_first(
        self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline
    ) -> Awaitable[object]:
        self.run = self._build().run
        return self.run(tool, call, arguments, deadline)

    def completion_runner(self, argument: str) -> Runner:
        """Return the runner of what completes an argument."""
        return self._build().completion_runner(argument)
