"""SyncClient and SyncTask: the client for programs without asyncio; every method blocks until its answer is there.

The event loop of a SyncClient runs in the calling thread, and only while a method runs: there is no thread beside it.
Callbacks are called in between, and may block. Ctrl+C in a method cancels its request at the server.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar, Unpack, overload

from toolhall.client.client import Client
from toolhall.client.connection import ClientOptions, OnProgress
from toolhall.client.results import PromptDefinition, ResourceDefinition, TaskStatus, ToolDefinition, ToolResult
from toolhall.client.tasks import ClientTask
from toolhall.dialects.mcp.client_results import PromptMessages
from toolhall.mcp_client.session import ServerDescription
from toolhall.model.content import Resource

T = TypeVar("T")


class SyncClient:
    """A `Client` for blocking code; use it with `with`, in one thread, and outside of an event loop."""

    def __init__(
        self,
        *server: object,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: "Unpack[ClientOptions]",
    ) -> None:
        """Prepare a client of a URL, a `Toolhall`, or tools and toolkits; see `Client`."""
        self._client = Client(*server, key=key, headers=headers, **options)
        self._runner: asyncio.Runner | None = None

    @classmethod
    def command(
        cls,
        program: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        **options: "Unpack[ClientOptions]",
    ) -> "SyncClient":
        """Prepare a client of a program that speaks MCP on its standard input and output; see `Client.command`."""
        client = cls.__new__(cls)
        client._client = Client.command(program, *args, env=env, cwd=cwd, **options)
        client._runner = None
        return client

    def __enter__(self) -> "SyncClient":
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise TypeError("an event loop runs in this thread: use 'async with Client(...)' there")
        runner = asyncio.Runner()
        try:
            runner.run(self._client.__aenter__())
        except BaseException:
            runner.close()
            raise
        self._runner = runner
        return self

    def __exit__(self, *_: object) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            with runner:
                runner.run(self._client.__aexit__())

    @property
    def server(self) -> ServerDescription:
        """What the server has said of itself."""
        return self._client.server

    def list_tools(self) -> tuple[ToolDefinition, ...]:
        """All tools."""
        return self._run(self._client.list_tools())

    def list_resources(self) -> tuple[ResourceDefinition, ...]:
        """All listed resources, and then the templates."""
        return self._run(self._client.list_resources())

    def list_prompts(self) -> tuple[PromptDefinition, ...]:
        """All prompts."""
        return self._run(self._client.list_prompts())

    @overload
    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult: ...
    @overload
    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> T: ...
    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T] | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> "ToolResult | T":
        """Call a tool by its name; see `Client.call`."""
        if returns is None:
            return self._run(self._client.call(tool, arguments, timeout=timeout, on_progress=on_progress))
        return self._run(self._client.call(tool, arguments, returns=returns, timeout=timeout, on_progress=on_progress))

    def read(self, uri: str, *, timeout: float | None = None) -> tuple[Resource, ...]:
        """Read a resource."""
        return self._run(self._client.read(uri, timeout=timeout))

    def prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> PromptMessages:
        """Get a prompt."""
        return self._run(self._client.prompt(name, arguments, timeout=timeout))

    def complete(
        self, prompt_or_uri: str, argument: str, typed: str = "", given: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Complete an argument of a prompt or a variable of a URI template."""
        return self._run(self._client.complete(prompt_or_uri, argument, typed, given))

    def start_task(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        keep: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> "SyncTask":
        """Call a tool as a task; see `Client.start_task`."""
        started = self._run(self._client.start_task(tool, arguments, keep=keep, on_progress=on_progress))
        return SyncTask(self._run, started)

    def task(self, task_id: str) -> "SyncTask":
        """Find a task by its id."""
        return SyncTask(self._run, self._client.task(task_id))

    def _run(self, work: Coroutine[Any, Any, T], /) -> T:
        if self._runner is None:
            work.close()
            raise RuntimeError("use the client inside 'with SyncClient(...) as client:'")
        return self._runner.run(work)


class _Run(Protocol):
    """Runs a coroutine in the loop of a SyncClient."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class SyncTask:
    """A `ClientTask` for blocking code."""

    def __init__(self, run: "_Run", task: ClientTask) -> None:
        self._run = run
        self._task = task

    @property
    def id(self) -> str:
        """The id, by which `SyncClient.task` finds it again."""
        return self._task.id

    def status(self) -> TaskStatus:
        """Ask how far it is."""
        return self._run(self._task.status())

    @overload
    def result(self, *, timeout: float | None = None) -> ToolResult: ...
    @overload
    def result(self, *, returns: type[T], timeout: float | None = None) -> T: ...
    def result(self, *, returns: type[T] | None = None, timeout: float | None = None) -> "ToolResult | T":
        """Wait for its end; see `ClientTask.result`."""
        if returns is None:
            return self._run(self._task.result(timeout=timeout))
        return self._run(self._task.result(returns=returns, timeout=timeout))

    def cancel(self) -> None:
        """End it."""
        self._run(self._task.cancel())
