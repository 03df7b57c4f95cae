"""ManagementClient: requests to a hall's management API, at a URL or in the data folder of a stopped hall."""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from toolhall.cli.clients.http import MCP_PATH, HttpExchange, credential_error, parse_endpoint
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.options import HallOptions
from toolhall.cli.output import visible
from toolhall.cli.progress import show_spinner
from toolhall.model.json import Json, JsonObject

REQUEST_SECONDS = 60.0
_ACCEPT = {"Accept": "application/json"}
_JSON = {**_ACCEPT, "Content-Type": "application/json"}


class HttpManagementTransport:
    """One request for each thing that is asked."""

    def __init__(self, url: str, key: str | None = None) -> None:
        endpoint = parse_endpoint(url, key)
        self.sends_key = bool(endpoint.key)
        base = endpoint.path.partition("?")[0].rstrip("/").removesuffix(MCP_PATH)
        self._endpoint = msgspec.structs.replace(endpoint, path=base)

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """The status and the value of the reply."""
        place = msgspec.structs.replace(self._endpoint, path=f"{self._endpoint.path}{target}")
        if body is not None:  # it may hold a secret
            place.require_secure()
        with show_spinner(f"Asking {self._endpoint}"), HttpExchange(place, REQUEST_SECONDS) as exchange:
            status = exchange.send(method, _ACCEPT if body is None else _JSON, body)
            return status, next(exchange.messages(), None)

    def set_origin_detail(self, detail: str) -> None:
        """A running hall knows by itself that it comes over HTTP, and believes nobody more."""

    def close(self) -> None:
        """Each request has closed its own connection."""


MAX_PAGES = 10_000
Query: TypeAlias = Mapping[str, str | None]
NO_QUERY: Query = {}


class ManagementRefused(CommandError):
    """The hall said no; `problems` are all its reasons, each with a path, a rule and a fix."""

    outcome = "refused"

    def __init__(self, status: int, message: str, problems: list[JsonObject]) -> None:
        self.status = status
        self.problems = problems
        super().__init__(visible(message))


class ManagementTransport(Protocol):
    """One way to reach a hall."""

    sends_key: bool

    def send(self, method: str, target: str, body: JsonObject | None) -> tuple[int, Json]:
        """The status and the value of the reply."""
        ...

    def set_origin_detail(self, detail: str) -> None:
        """What is registered from now on comes from there."""
        ...

    def close(self) -> None:
        """Nothing more will be asked."""
        ...


class ManagementClient:
    """Asks for management, and reads the answers."""

    def __init__(self, transport: ManagementTransport) -> None:
        self._transport = transport
        self.set_origin_detail = transport.set_origin_detail

    def request_tool(
        self, method: str, *parts: str, body: JsonObject | None = None, query: Query = NO_QUERY
    ) -> JsonObject:
        """The answer, or Refused; `place` is an id, and what is below it."""
        return self.request(method, "tools", *parts, body=body, query=query)

    def request(self, method: str, *parts: str, body: JsonObject | None = None, query: Query = NO_QUERY) -> JsonObject:
        """The answer of what is anywhere below /api, or Refused."""
        path = "/".join(["/api", *(quote(part, safe="") for part in parts)])
        return self._answer(method, path, body, query)

    def history(self, tool: str | None, limit: int) -> list[JsonObject]:
        """What happened to one tool, or to all."""
        query = {"limit": str(limit)}
        told = (
            self.request("GET", "history", query=query)
            if tool is None
            else self.request_tool("GET", tool, "history", query=query)
        )
        found: list[JsonObject] = told["events"]
        return found

    def _answer(self, method: str, path: str, body: JsonObject | None, query: Query) -> JsonObject:
        given = {name: value for name, value in query.items() if value is not None}
        status, said = self._transport.send(method, f"{path}?{urlencode(given)}" if given else path, body)
        match said:
            case dict() if status < 400:
                return said
            case _ if status == 401:
                raise ManagementRefused(status, credential_error(status, sent=self._transport.sends_key), [])
            case {"error": {"message": str(message)} as error}:
                raise ManagementRefused(status, message, _problems(error))
            case _:
                raise CommandError(f"this is no hall that can be managed: it answered with HTTP status {status}")

    def list_tools(self, query: Query) -> Iterator[JsonObject]:
        """Every summary, page after page."""
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
    options: HallOptions, *, write: bool = False, create: bool = False
) -> Generator[ManagementClient, None, None]:
    """The desk of the hall that was named, closed again at the end.

    Only who changes it needs a folder alone, and only who brings the first tools may find none there.
    """
    if options.url and options.data:
        raise UsageError("give --url or --data, not both: a running hall, or the folder of one that does not run")
    if options.key is not None and not options.url:
        raise UsageError("--key is sent to a running hall; name it with --url, or leave out --key")
    line: ManagementTransport
    line = (
        HttpManagementTransport(options.url, options.key)
        if options.url
        else _local_transport(options.data, write=write, create=create)
    )
    try:
        yield ManagementClient(line)
    except (KeyError, TypeError, msgspec.ValidationError):
        raise CommandError("the answer is not one of a hall; is this the right URL?") from None
    finally:
        line.close()


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
    """The hall in a folder, which can do more for whoever has the folder."""

    def run_for(self, seconds: float) -> None:
        """Meanwhile the hall goes on with what it does by itself."""
        ...

    def rotate_keys(self, new: str) -> int:
        """Seal everything with a new key."""
        ...


@contextlib.contextmanager
def open_vault_management(
    options: HallOptions, *, write: bool = False, create: bool = False
) -> Generator[ManagementClient, None, None]:
    """The desk of the hall that was named."""
    if options.running or options.key is not None:
        with open_management(options) as desk:
            yield desk
    else:
        with open_folder_transport(options, write=write, create=create) as line:
            yield ManagementClient(line)


@contextlib.contextmanager
def open_folder_transport(
    options: HallOptions, *, write: bool, create: bool = False, exclusive: bool = False
) -> Generator[FolderManagementTransport, None, None]:
    """The hall in a folder; whoever changes what is sealed there needs a key, and a server's is not made here."""
    from toolhall.cli.clients import local_management  # lazy: the whole hall

    config = local_management.config_of_folder(options.data, create=create)
    if write:
        local_management.check_vault_key(config)
    line: FolderManagementTransport = local_management.LocalManagementTransport(
        config, write=write, exclusive=exclusive
    )
    try:
        yield line
    finally:
        line.close()


LinkMethod: TypeAlias = Literal["browser", "device", "paste"]


class AccountsClient:
    """What can be asked; `pause` lets some seconds pass."""

    def __init__(
        self, client: ManagementClient, transport: ManagementTransport, sleep: Callable[[float], None]
    ) -> None:
        self._client = client
        self._transport = transport
        self._sleep = sleep

    def providers(self) -> list[JsonObject]:
        """Where accounts can be connected."""
        found: list[JsonObject] = self._client.request("GET", "providers")["providers"]
        return found

    def list_accounts(self, user: str | None) -> list[JsonObject]:
        """The accounts of a user, or all that the caller may see."""
        found: list[JsonObject] = self._client.request("GET", "accounts", query={"user": user})["accounts"]
        return found

    def begin_link(self, provider: str, scopes: Sequence[str], how: LinkMethod) -> JsonObject:
        """A new link, with what the person needs for it."""
        body = {"provider": provider, "scopes": [*scopes], "how": how}
        return self._client.request("POST", "accounts", body=body)

    def finish_with_url(self, link: str, url: str) -> None:
        """Finish with the address that the browser was sent to."""
        self._client.request("POST", "accounts", link, "paste", body={"url": url})

    def link_status(self, link: str, seconds: float) -> str:
        """Pending, completed or failed, so many seconds from now.

        It is asked where the person said that the hall is: a key is not sent to wherever an answer points.
        """
        self._sleep(seconds)
        match self._transport.send("GET", f"/connect/{quote(link, safe='')}/status", None):
            case 200 | 404, {"status": str(status)}:  # a link that is too old is not there
                return status
            case code, _:
                raise CommandError(f"how far it is cannot be asked: the hall answered with HTTP status {code}")

    def disconnect(self, account: str) -> JsonObject:
        """Revoke and forget it."""
        return self._client.request("DELETE", "accounts", account)


@contextlib.contextmanager
def open_accounts_client(options: HallOptions, *, write: bool = False) -> Generator[AccountsClient, None, None]:
    """Whoever was named, let go again at the end."""
    if options.running or options.key is not None:
        with open_management(options) as desk:
            yield AccountsClient(desk, HttpManagementTransport(options.url or "", options.key), time.sleep)
    else:
        with open_folder_transport(options, write=write, create=write) as line:
            yield AccountsClient(ManagementClient(line), line, line.run_for)
