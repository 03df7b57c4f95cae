"""McpConnection: a session with an MCP server at a URL, for commands, which block; and lists of definitions.

The protocol is that of `mcp_client`. Its event loop runs in the main thread while a request runs, so that Ctrl+C
cancels the request at the server.
"""

import asyncio
import errno
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

import msgspec

from toolhall import __version__
from toolhall.cli.clients import http
from toolhall.cli.clients.base import CallUI, ToolInfo
from toolhall.cli.clients.http import Endpoint, credential_error
from toolhall.cli.errors import CallTimeout, CommandError
from toolhall.cli.output import visible
from toolhall.client.connection import ClientConnection, ClientSettings
from toolhall.dialects.mcp.client_messages import decode_object
from toolhall.dialects.mcp.client_requests import argument_headers
from toolhall.dialects.mcp.client_results import ListReader
from toolhall.dialects.mcp.input_requests import read_input_response, write_input_request
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28
from toolhall.dialects.mcp.requests import VERSIONS_KEY
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.resolver import Dialer
from toolhall.mcp_client.connect import open_session
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    McpSession,
    NotAcceptable,
    RpcError,
    SessionError,
    Unauthorized,
)
from toolhall.mcp_client.targets import ClientProfile, HttpTarget
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import Answered, LogEvent, ProgressEvent, Question
from toolhall.schema.annotations import header_parameters

LIST_SECONDS = 30.0
_FEATURES = ("elicitation", "elicitation.url")
_NO_PARAMS: Mapping[str, Json] = {}


class ServerRefused(CommandError):
    """The server answered with a JSON-RPC error or an HTTP error status."""

    outcome = "refused"

    def __init__(self, message: str, code: int | None = None, status: int | None = None) -> None:
        self.rpc_code = code
        self.status = status
        super().__init__(message)


class McpRequester(Protocol):
    """Sends MCP requests in one revision."""

    def request(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """Send a request without progress and return its result."""
        ...


class McpConnection:
    """A session that is open from its construction until `close`."""

    def __init__(self, endpoint: Endpoint, revision: str | None = None, seconds: float = LIST_SECONDS) -> None:
        """Connect in the newest revision that the server speaks, or in this one, which has a handshake."""
        self._endpoint = endpoint
        self._ui: CallUI | None = None
        self._runner = asyncio.Runner()
        settings = ClientSettings(on_log=self._on_log, on_question=self._answer, features=_FEATURES)
        self._connection = ClientConnection(settings)
        self._connection.credentials = (("Authorization", f"Bearer {endpoint.key}"),) if endpoint.key else ()
        try:
            self._run(self._open(revision, seconds), seconds)
        except BaseException:
            self._runner.close()
            raise
        server = self._connection.session.server
        self.revision = server.revision.name
        self.capabilities = server.capabilities

    def request(self, method: str, params: JsonObject, seconds: float) -> JsonObject:
        """Send a request without progress and return its result."""
        return self._send(McpRequest(method=method, params=params), None, seconds)

    def call(self, info: ToolInfo, arguments: JsonObject, ui: CallUI, seconds: float) -> JsonObject:
        """The result of `tools/call`."""
        headers = argument_headers(header_parameters(info.input), arguments)
        return self.interact("tools/call", {"name": info.name, "arguments": arguments}, ui, seconds, headers)

    def interact(
        self, method: str, params: JsonObject, ui: CallUI, seconds: float, headers: Headers = ()
    ) -> JsonObject:
        """The result of a request with progress, in which the server may ask the person, at most ten times.

        A timeout or Ctrl+C cancels it at the server.
        """
        request = McpRequest(method=method, params=params, argument_headers=headers, wants_events=True)
        return self._send(request, ui, seconds)

    def close(self) -> None:
        """End the session, if the server keeps one."""
        with self._runner as runner:
            runner.run(self._connection.close())

    def _send(self, request: McpRequest, ui: CallUI | None, seconds: float) -> JsonObject:
        def on_progress(event: ProgressEvent) -> None:
            if ui is not None:
                ui.progress(event.done, event.total, event.message)

        self._ui = ui
        result = self._run(self._connection.request(request, seconds, on_progress), seconds)
        return decode_object(result, "the result")

    async def _open(self, revision: str | None, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            await self._connection.open(lambda connection: self._open_session(connection, revision))

    def _open_session(self, connection: ClientConnection, revision: str | None) -> Awaitable[McpSession]:
        endpoint = self._endpoint
        profile = ClientProfile(
            name="toolhall-cli",
            version=__version__,
            features=_FEATURES,
            max_message_bytes=http.MAX_RESPONSE_BYTES,
            listens=False,
        )
        if revision is not None:
            profile = msgspec.structs.replace(profile, offered_revision=revision)
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        # A URL that somebody types at this machine may lead into its network; `require_secure` guards the key.
        dialer = Dialer(EgressAllowlist([f"{host}:{endpoint.port}"]), allow_plain=True)
        url = f"{'https' if endpoint.secure else 'http'}://{host}:{endpoint.port}{endpoint.path}"
        return open_session(
            HttpTarget(url),
            profile,
            connection,
            dialer=dialer,
            era=None if revision is None else "legacy",
            credentials=connection.credentials,
            questions=connection.reply_to,
        )

    def _on_log(self, event: LogEvent) -> None:
        if self._ui is not None:
            self._ui.log(event.level, event.data)

    def _answer(self, question: Question) -> Answered:
        if self._ui is None:
            raise CommandError("the server asks a question outside of a call")
        asked = write_input_request(question, REVISION_2026_07_28)
        return read_input_response(question, self._ui.answer(asked["method"], asked["params"]), "the question")

    def _run(self, work: Any, seconds: float) -> Any:
        try:
            return self._runner.run(work)
        except TimeoutError:
            raise CallTimeout(seconds) from None
        except SessionError as error:
            raise self._command_error(error) from None
        except ToolhallError as error:
            raise CommandError(visible(error.message)) from None

    def _command_error(self, error: SessionError) -> CommandError:
        reason = visible(error.reason)
        match error:
            case Unauthorized():
                return ServerRefused(credential_error(error.status, sent=bool(self._endpoint.key)), None, error.status)
            case RpcError():
                return ServerRefused(f"the server refused: {reason}", error.code)
            case NotAcceptable(status=int(status)):
                return ServerRefused(reason, None, status)
            case _ if f"[Errno {errno.ECONNREFUSED}]" in reason:
                return CommandError(f"nothing listens at {self._endpoint}; start it with 'toolhall serve'")
            case _:
                return CommandError(reason)


def fetch_tool_documents(client: McpRequester, *, versions: bool = False) -> list[JsonObject]:
    """All tool definitions by `tools/list`; with `versions` a hall also lists older ones, named by their ids."""
    return fetch_documents(client, "tools/list", {"_meta": {VERSIONS_KEY: "all"}} if versions else {})


def fetch_documents(client: McpRequester, method: str, params: Mapping[str, Json] = _NO_PARAMS) -> list[JsonObject]:
    """All definitions of a list, page by page."""
    listed, cursor = ListReader(method), None
    while True:
        page = client.request(method, {**params} if cursor is None else {**params, "cursor": cursor}, LIST_SECONDS)
        try:
            cursor = listed.add(msgspec.json.encode(page))
        except Malformed as malformed:
            raise CommandError(visible(malformed.message)) from None
        if cursor is None:
            return listed.items


def fetch_other_documents(client: McpConnection) -> list[JsonObject]:
    """All definitions of resources, templates and prompts, as far as the server declares to serve any."""
    lists = ("resources/list", "resources/templates/list", "prompts/list")
    declared = [each for each in lists if each.partition("/")[0] in client.capabilities]
    return [document for method in declared for document in fetch_documents(client, method)]
