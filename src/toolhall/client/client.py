"""Client: lists and uses the tools, resources and prompts of any MCP server, or of a hall, from asynchronous code."""

import contextlib
import re
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from urllib.parse import urlsplit

import msgspec

from toolhall import __version__
from toolhall.client.connection import ClientConnection, ClientOptions, ClientSettings, OnProgress
from toolhall.client.results import (
    PromptDefinition,
    ResourceDefinition,
    ToolDefinition,
    ToolResult,
    convert_result,
    read_prompt_definition,
    read_resource_definition,
    read_tool,
)
from toolhall.client.tasks import ClientTask, start_task
from toolhall.dialects.mcp.client_requests import argument_headers
from toolhall.dialects.mcp.client_results import (
    ListReader,
    PromptMessages,
    read_call_result,
    read_completion_result,
    read_prompt_result,
    read_resource_result,
)
from toolhall.dialects.mcp.protocol import HEADER_MISMATCH
from toolhall.mcp_client.session import Headers, McpRequest, McpSession, RpcError, ServerDescription
from toolhall.mcp_client.targets import ClientProfile, CommandTarget, HttpTarget
from toolhall.model.content import Resource
from toolhall.model.errors import ToolhallError
from toolhall.model.json import JsonObject
from toolhall.model.tool import HeaderParameter
from toolhall.schema.annotations import header_parameters
from toolhall.schema.types import to_json

if TYPE_CHECKING:
    from toolhall.egress.resolver import Dialer

T = TypeVar("T")
DefinitionT = TypeVar("DefinitionT")
_KEY = re.compile(r"[\x21-\x7e]{1,16384}")


class Client:
    """A client of one MCP server: at a URL, of a hall or tools in this process, or of a command (`Client.command`).

    Use it with `async with`. Methods raise `ToolFailed` for an error that a tool reports, `TimeoutError`, and errors of
    the connection (`SessionError`): `RpcError` is the server's refusal, after `NotSent` nothing has run, and after
    `RequestLost` nobody knows.
    """

    def __init__(
        self,
        *server: object,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        **options: "Unpack[ClientOptions]",
    ) -> None:
        """Prepare a client of a URL, a `Toolhall`, or tools and toolkits; `key` and `headers` are for a URL.

        The key is sent as a bearer token.
        """
        self._connection = ClientConnection(ClientSettings(**options))
        self._target: HttpTarget | CommandTarget | tuple[object, ...] = server
        self._header_parameters: dict[str, tuple[HeaderParameter, ...]] = {}
        self._stack = AsyncExitStack()
        match server:
            case ():
                raise TypeError("name a server: a URL, a hall, or tools; a command goes to Client.command(...)")
            case (str(url),):
                self._connection.credentials = _bearer(key)
                self._target = HttpTarget(_checked_url(url), tuple((headers or {}).items()))
            case (CommandTarget() as target,):
                self._target = target
            case _ if any(isinstance(each, str) for each in server):
                raise TypeError("a URL stands alone; a command goes to Client.command(...)")
            case _ if key is not None or headers is not None:
                raise TypeError("key and headers are for servers at a URL")
            case _:
                return

    @classmethod
    def command(
        cls,
        program: str,
        *args: str,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        **options: "Unpack[ClientOptions]",
    ) -> "Client":
        """Prepare a client of a program that speaks MCP on its standard input and output; it ends with the client.

        The program is started without a shell. Of the variables of this process it gets what every program needs, such
        as PATH and HOME; whatever else it needs stands in `env`.
        """
        return cls(CommandTarget(command=program, args=args, env=dict(env or {}), cwd=cwd), **options)

    async def __aenter__(self) -> "Client":
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._connection.close)
            await self._connection.open(lambda _: self._open_session(stack))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def server(self) -> ServerDescription:
        """What the server has said of itself: its name, version, revision of MCP, capabilities and instructions."""
        return self._connection.session.server

    async def list_tools(self) -> tuple[ToolDefinition, ...]:
        """All tools."""
        tools = await self._list("tools/list", read_tool)
        for each in tools:
            with contextlib.suppress(ToolhallError):  # a schema that breaks the rules of `x-mcp-header` has none
                self._header_parameters[each.name] = header_parameters(each.input_schema)
        return tools

    async def list_resources(self) -> tuple[ResourceDefinition, ...]:
        """All listed resources, and then the templates; none if the server has no resources."""
        if not self.server.has("resources"):
            return ()
        resources = await self._list("resources/list", read_resource_definition)
        return resources + await self._list("resources/templates/list", read_resource_definition)

    async def list_prompts(self) -> tuple[PromptDefinition, ...]:
        """All prompts; none if the server has none."""
        return await self._list("prompts/list", read_prompt_definition) if self.server.has("prompts") else ()

    @overload
    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult: ...
    @overload
    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T],
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> T: ...
    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        returns: type[T] | None = None,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> "ToolResult | T":
        """Call a tool by its name; `returns` converts its value to a type. Cancelling this cancels the call.

        Arguments are what JSON can express, and what tools may take: dataclasses, dates, `msgspec.Struct` and so on.
        """
        request = self._call_request(tool, arguments)
        try:
            result = await self._connection.request(request, timeout, on_progress)
        except RpcError as error:
            if error.code != HEADER_MISMATCH or tool in self._header_parameters:
                raise
            await self.list_tools()  # the server wants arguments in headers, which its schema names
            result = await self._connection.request(self._call_request(tool, arguments), timeout, on_progress)
        return convert_result(read_call_result(result), returns)

    async def read(self, uri: str, *, timeout: float | None = None) -> tuple[Resource, ...]:
        """Read a resource; one URI may have several parts."""
        request = McpRequest(method="resources/read", params={"uri": uri})
        return read_resource_result(await self._connection.request(request, timeout)).contents

    async def prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        timeout: float | None = None,
    ) -> PromptMessages:
        """Get a prompt; its arguments are texts."""
        params: JsonObject = {"name": name, "arguments": dict(arguments or {})}
        return read_prompt_result(
            await self._connection.request(McpRequest(method="prompts/get", params=params), timeout)
        )

    async def complete(
        self, prompt_or_uri: str, argument: str, typed: str = "", given: Mapping[str, str] | None = None
    ) -> tuple[str, ...]:
        """Complete an argument of a prompt or a variable of a URI template; `given` are the values of the others."""
        is_uri = ":" in prompt_or_uri
        reference = (
            {"type": "ref/resource", "uri": prompt_or_uri} if is_uri else {"type": "ref/prompt", "name": prompt_or_uri}
        )
        params: JsonObject = {"ref": reference, "argument": {"name": argument, "value": typed}}
        if given:
            params["context"] = {"arguments": dict(given)}
        result = await self._connection.request(McpRequest(method="completion/complete", params=params))
        return read_completion_result(result).values

    async def subscribe(self, uri: str) -> None:
        """Hear of changes of a resource by `on_change`."""
        await self._connection.request(McpRequest(method="resources/subscribe", params={"uri": uri}))

    async def unsubscribe(self, uri: str) -> None:
        """Hear of it no more."""
        await self._connection.request(McpRequest(method="resources/unsubscribe", params={"uri": uri}))

    async def start_task(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        keep: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> ClientTask:
        """Call a tool as a task, which outlives the request; the server may keep its result for `keep` seconds."""
        request = self._call_request(tool, arguments)
        params: JsonObject = {**request.params, "arguments": msgspec.json.decode(request.encoded_arguments or b"{}")}
        return await start_task(self._connection, params, keep, on_progress)

    def task(self, task_id: str) -> ClientTask:
        """Find a task by its id, which may have been started by another client with the same key."""
        return ClientTask(self._connection, task_id)

    def _call_request(self, tool: str, arguments: Mapping[str, Any] | None) -> McpRequest:
        encoded = to_json(dict(arguments or {}))
        mirrored = self._header_parameters.get(tool)
        return McpRequest(
            method="tools/call",
            params={"name": tool},
            encoded_arguments=encoded,
            argument_headers=argument_headers(mirrored, msgspec.json.decode(encoded)) if mirrored else (),
        )

    async def _list(self, method: str, read: Callable[[JsonObject], DefinitionT | None]) -> tuple[DefinitionT, ...]:
        listed, cursor = ListReader(method), None
        while True:
            params: JsonObject = {} if cursor is None else {"cursor": cursor}
            cursor = listed.add(await self._connection.request(McpRequest(method=method, params=params)))
            if cursor is None:
                return tuple(each for each in map(read, listed.items) if each is not None)

    async def _open_session(self, stack: AsyncExitStack) -> McpSession:
        connection, target = self._connection, self._target
        questions = connection.reply_to if connection.settings.on_question is not None else None
        profile = ClientProfile(
            name="toolhall-client",
            version=__version__,
            features=connection.settings.declared_features,
            listens=connection.settings.on_change is not None,
        )
        if isinstance(target, tuple):
            from toolhall.client.memory_link import LocalHall  # lazy: the whole hall

            local = LocalHall(target)
            stack.push_async_callback(local.close)
            return await local.open_session(profile, connection, questions)
        from toolhall.mcp_client.connect import open_session  # lazy: sockets and processes

        credentials = connection.credentials
        dialer = _dialer(target, has_key=bool(credentials))
        return await open_session(
            target, profile, connection, dialer=dialer, credentials=credentials, questions=questions
        )


def _dialer(target: HttpTarget | CommandTarget, *, has_key: bool) -> "Dialer":
    """What connects to the server: its URL is the program's own word, so it may be on this machine or its network.

    A key or headers go to other machines over https only.
    """
    from toolhall.egress.addresses import EgressAllowlist  # lazy: sockets
    from toolhall.egress.resolver import Dialer  # lazy: the same

    if isinstance(target, CommandTarget):
        return Dialer(EgressAllowlist())
    parts = urlsplit(target.url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    allowlist = EgressAllowlist([f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"])
    return Dialer(allowlist, allow_plain=not has_key and not target.headers)


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_url = False
    if not is_url:
        raise ValueError(f"{url[:80]!r} is no URL of a server; a program goes to Client.command(...)")
    return url


def _bearer(key: str | None) -> Headers:
    if key is None:
        return ()
    if not _KEY.fullmatch(key):
        raise ValueError("the key is one word of visible ASCII, as 'toolhall key create' prints it")
    return (("Authorization", f"Bearer {key}"),)
