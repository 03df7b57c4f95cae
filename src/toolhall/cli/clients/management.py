"""ManagementClient: requests to a hall's management API, at a URL or in the data folder of a stopped hall.

HttpManagementTransport sends them over HTTP; `local_management`, which imports the whole hall, opens a data folder.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from toolhall.cli.clients.http import MCP_PATH, HttpExchange, credential_error, parse_endpoint
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.hall_options import HallOptions
from toolhall.cli.output import visible
from toolhall.cli.progress import show_spinner
from toolhall.model.json import Json, JsonObject
from toolhall.model.upstream import UpstreamSettings

REQUEST_SECONDS = 60.0
_ACCEPT = {"Accept": "application/json"}
_JSON = {**_ACCEPT, "Content-Type": "application/json"}
LinkMethod: TypeAlias = Literal["browser", "device", "paste"]
MAX_PAGES = 10_000
Query: TypeAlias = Mapping[str, str | None]
NO_QUERY: Query = {}


class ManagementRefused(CommandError):
    """The hall refused; `problems` are its reasons, each with a path, a rule and a fix."""

    outcome = "refused"

    def __init__(self, status: int, message: str, problems: list[JsonObject]) -> None:
        self.status = status
        self.problems = problems
        super().__init__(visible(message))


class ManagementTransport(Protocol):
    """Sends requests to the management API of a hall."""

    sends_key: bool

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """Send a request and return status and JSON body of the response."""
        ...

    def set_origin_detail(self, detail: str) -> None:
        """Set the origin that is recorded with tools that are registered from now on."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class HttpManagementTransport:
    """Sends each request to a running hall over a connection of its own."""

    def __init__(self, url: str, key: str | None = None, seconds: float = REQUEST_SECONDS) -> None:
        self._seconds = seconds
        endpoint = parse_endpoint(url, key)
        self.sends_key = bool(endpoint.key)
        base = endpoint.path.partition("?")[0].rstrip("/").removesuffix(MCP_PATH)
        self._endpoint = msgspec.structs.replace(endpoint, path=base)

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """Send a request and return status and JSON body of the response."""
        endpoint = msgspec.structs.replace(self._endpoint, path=f"{self._endpoint.path}{target}")
        if body is not None:  # it may hold a secret
            endpoint.require_secure()
        with show_spinner(f"Asking {self._endpoint}"), HttpExchange(endpoint, self._seconds) as exchange:
            status = exchange.send(method, _ACCEPT if body is None else _JSON, body)
            return status, next(exchange.messages(), None)

    def set_origin_detail(self, detail: str) -> None:
        """Nothing: a running hall records the origin itself."""

    def close(self) -> None:
        """Nothing: each request has closed its connection."""


class ManagementClient:
    """Requests of the management API and their responses; raises ManagementRefused for an error response."""

    def __init__(self, transport: ManagementTransport) -> None:
        self._transport = transport
        self.set_origin_detail = transport.set_origin_detail

    def request_tool(
        self, method: str, *parts: str, body: JsonObject | None = None, query: Query = NO_QUERY
    ) -> JsonObject:
        """Request /api/tools and the path below it; `parts` are a tool's id and an action."""
        return self.request(method, "tools", *parts, body=body, query=query)

    def request(self, method: str, *parts: str, body: JsonObject | None = None, query: Query = NO_QUERY) -> JsonObject:
        """Request a path below /api and return the response; raises ManagementRefused."""
        path = "/".join(["/api", *(quote(part, safe="") for part in parts)])
        return self._answer(method, path, body, query)

    def history(self, tool: str | None, limit: int) -> list[JsonObject]:
        """The events of one tool, or of all, the newest first."""
        query = {"limit": str(limit)}
        response = (
            self.request("GET", "history", query=query)
            if tool is None
            else self.request_tool("GET", tool, "history", query=query)
        )
        events: list[JsonObject] = response["events"]
        return events

    def _answer(self, method: str, path: str, body: JsonObject | None, query: Query) -> JsonObject:
        given = {name: value for name, value in query.items() if value is not None}
        status, response = self._transport.send(method, f"{path}?{urlencode(given)}" if given else path, body)
        match response:
            case dict() if status < 400:
                return response
            case _ if status == 401:
                raise ManagementRefused(status, credential_error(status, sent=self._transport.sends_key), [])
            case {"error": {"message": str(message)} as error}:
                raise ManagementRefused(status, message, _problems(error))
            case _:
                raise CommandError(f"this is no hall that can be managed: it answered with HTTP status {status}")

    def list_tools(self, query: Query) -> Iterator[JsonObject]:
        """The summaries of all registered tools, page by page."""
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = self.request_tool("GET", query={**query, "cursor": cursor})
            yield from page["tools"]
            cursor = page.get("nextCursor")
            if cursor is None:
                return
        raise CommandError(f"the list has more than {MAX_PAGES} pages")


@contextlib.contextmanager
def open_management(
    options: HallOptions, *, write: bool = False, create: bool = False, seconds: float = REQUEST_SECONDS
) -> Generator[ManagementClient, None, None]:
    """A client of the hall that the options name, closed at the end; a running hall has `seconds` for each answer.

    Of a data folder, `write` takes the lock for changes, and `create` allows a folder without a hall.
    """
    if options.url and options.data:
        raise UsageError("give --url or --data, not both: a running hall, or the folder of one that does not run")
    if options.key is not None and not options.url:
        raise UsageError("--key is sent to a running hall; name it with --url, or leave out --key")
    transport: ManagementTransport
    transport = (
        HttpManagementTransport(options.url, options.key, seconds)
        if options.url
        else _local_transport(options.data, write=write, create=create)
    )
    try:
        yield ManagementClient(transport)
    except (KeyError, TypeError, msgspec.ValidationError):
        raise CommandError("the answer is not one of a hall; is this the right URL?") from None
    finally:
        transport.close()


def _local_transport(folder: Path | None, *, write: bool, create: bool) -> ManagementTransport:
    from toolhall.cli.clients import local_management  # lazy: the whole hall

    return local_management.LocalManagementTransport(
        local_management.config_of_folder(folder, create=create), write=write
    )


def _problems(error: dict[Any, Any]) -> list[JsonObject]:
    match error:
        case {"details": {"problems": list(problems)}}:
            return [each for each in problems if isinstance(each, dict)]
        case _:
            return []


class FolderManagementTransport(ManagementTransport, Protocol):
    """A ManagementTransport of a data folder, with what only the owner of the folder can do."""

    def run_for(self, seconds: float) -> None:
        """Run the hall's background tasks for so many seconds."""
        ...

    def rotate_keys(self, new: str) -> int:
        """Encrypt all secrets with a new key; return how many there are."""
        ...

    def add_upstream(self, name: str, settings: UpstreamSettings) -> None:
        """Store an upstream, also one that is a command, which nobody may add over the network."""
        ...


@contextlib.contextmanager
def open_vault_management(
    options: HallOptions, *, write: bool = False, create: bool = False
) -> Generator[ManagementClient, None, None]:
    """A client of the hall that the options name, with its vault key checked before a change."""
    if options.running or options.key is not None:
        with open_management(options) as client:
            yield client
    else:
        with open_folder_transport(options, write=write, create=create) as transport:
            yield ManagementClient(transport)


@contextlib.contextmanager
def open_folder_transport(
    options: HallOptions, *, write: bool, create: bool = False, exclusive: bool = False
) -> Generator[FolderManagementTransport, None, None]:
    """The transport of a data folder; with `write`, raises CommandError if a server's vault key is missing."""
    from toolhall.cli.clients import local_management  # lazy: the whole hall

    config = local_management.config_of_folder(options.data, create=create)
    if write:
        local_management.check_vault_key(config)
    transport: FolderManagementTransport = local_management.LocalManagementTransport(
        config, write=write, exclusive=exclusive
    )
    try:
        yield transport
    finally:
        transport.close()


StoreUpstream: TypeAlias = Callable[[str, UpstreamSettings], object]


@contextlib.contextmanager
def open_upstream_management(options: HallOptions) -> Generator[tuple[ManagementClient, StoreUpstream], None, None]:
    """A client of the hall that the options name, and how an upstream is stored there."""
    if options.running or options.key is not None:
        with open_management(options) as client:
            yield (
                client,
                lambda name, settings: client.request(
                    "POST", "upstreams", body={"name": name, "settings": msgspec.to_builtins(settings)}
                ),
            )
    else:
        with open_folder_transport(options, write=True, create=True) as transport:
            yield ManagementClient(transport), transport.add_upstream


class AccountsClient:
    """Requests about linked accounts; `sleep` waits between polls of a link."""

    def __init__(
        self, client: ManagementClient, transport: ManagementTransport, sleep: Callable[[float], None]
    ) -> None:
        self._client = client
        self._transport = transport
        self._sleep = sleep

    def providers(self) -> list[JsonObject]:
        """The configured OAuth providers."""
        found: list[JsonObject] = self._client.request("GET", "providers")["providers"]
        return found

    def list_accounts(self, user: str | None) -> list[JsonObject]:
        """The accounts of a user, or all that the caller may see."""
        found: list[JsonObject] = self._client.request("GET", "accounts", query={"user": user})["accounts"]
        return found

    def begin_link(self, provider: str, scopes: Sequence[str], how: LinkMethod) -> JsonObject:
        """Begin to link an account; the response holds the URL or code for the person."""
        body = {"provider": provider, "scopes": [*scopes], "how": how}
        return self._client.request("POST", "accounts", body=body)

    def finish_with_url(self, link: str, url: str) -> None:
        """Finish a link with the URL that the browser was redirected to."""
        self._client.request("POST", "accounts", link, "paste", body={"url": url})

    def link_status(self, link: str, seconds: float) -> str:
        """Wait so many seconds, then return the status of a link: pending, completed or failed.

        The request goes to the hall that the person named: a key is not sent to a URL in a response.
        """
        self._sleep(seconds)
        match self._transport.send("GET", f"/connect/{quote(link, safe='')}/status", None):
            case 200 | 404, {"status": str(status)}:  # 404: an expired link
                return status
            case code, _:
                raise CommandError(f"how far it is cannot be asked: the hall answered with HTTP status {code}")

    def disconnect(self, account: str) -> JsonObject:
        """Revoke and delete an account."""
        return self._client.request("DELETE", "accounts", account)


@contextlib.contextmanager
def open_accounts_client(options: HallOptions, *, write: bool = False) -> Generator[AccountsClient, None, None]:
    """The AccountsClient of the hall that the options name, closed at the end."""
    if options.running or options.key is not None:
        with open_management(options) as client:
            yield AccountsClient(client, HttpManagementTransport(options.url or "", options.key), time.sleep)
    else:
        with open_folder_transport(options, write=write, create=write) as transport:
            yield AccountsClient(ManagementClient(transport), transport, transport.run_for)
