"""Shared parts of the management API: `ManagementContext`, parsing of parameters and bodies, and responses.

Every change goes through `ManagementContext.change`, which audits it whatever its outcome. A request that is valid
but contradicts the present state becomes `StateConflict` (409).
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from http import HTTPMethod
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.openapi.errors import write_error
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RequestValidator
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import ADMIN, Caller
from toolhall.model.errors import Denied, Malformed, NotFound, ToolhallError
from toolhall.model.json import Json, encode
from toolhall.model.messages import WireResponse
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.access import AccessControl, NewGrant, NewKey
from toolhall.registration.rules import BrokenPromise
from toolhall.registration.service import RegistrationService
from toolhall.stores.audit.anchors import AnchorSync
from toolhall.stores.audit.query import AuditQuery, FoundRecord
from toolhall.stores.tools import ToolOrigin

T = TypeVar("T")
MANAGEMENT_DIALECT = "api"
ADMIN_ONLY = f"this caller may not see what is registered; only the person at this machine and the scope {ADMIN} may"
CONFLICT = 409
_log = logging.getLogger("toolhall.api")
TOOL_PREFIX = "/api/tools/"
MAX_EVENTS = 1_000
DEFAULT_EVENTS = 100
_DIGEST = r"^sha256-[0-9a-f]{64}$"
_BODY_HEADERS = {b"content-type", b"content-encoding", b"transfer-encoding"}
StructT = TypeVar("StructT", bound=msgspec.Struct)
ItemHandler: TypeAlias = Callable[
    [HttpRequest, str], Coroutine[Any, Any, WireResponse]
]  # what is done with the one that is named
ItemHandlers: TypeAlias = Mapping[str, ItemHandler]  # by HTTP method


class StateConflict(Malformed):
    """The request is sound, but not with what is registered now."""


class ReadableJournal(Protocol):
    """Records that can be read again; `anchoring` compares them with what the store knows, if they are in a folder."""

    @property
    def anchor_sync(self) -> AnchorSync | None:
        """What an operator accepts."""
        ...

    async def read(self, tool: str, callback: Callable[[AuditRecord], None]) -> None:
        """Hand over every record about a tool id, or about all versions of a `Toolkit.tool`."""
        ...

    async def search(self, query: AuditQuery, limit: int) -> list[FoundRecord]:
        """The newest records that fit, the newest first."""
        ...


@dataclass
class ManagementContext:
    """One hall with what is registered in it; `origin` and `detail` say where new definitions come from."""

    dispatcher: Dispatcher
    registration: RegistrationService
    access: AccessControl
    journal: ReadableJournal
    clock: Callable[[], float]
    page_size: int
    origin: ToolOrigin = "http"
    detail: str = ""

    def require_admin(self, caller: Caller) -> None:
        """Raise Denied for whoever may not change the hall: they see nothing of it either."""
        if not self.dispatcher.admin.is_allowed(caller):
            raise Denied(ADMIN_ONLY)

    async def change(self, action: str, payload: Json, caller: Caller, apply: Callable[[], Awaitable[T]]) -> T:
        """Make a change, recorded however it ends; what is refused only because of the present state says so."""
        try:
            return await self.dispatcher.admin(AdminOperation(action, MANAGEMENT_DIALECT, payload), caller, apply)
        except BadDocument:
            raise
        except Malformed as error:
            raise StateConflict(error.message) from None


def json_response(value: Json, status: int = 200) -> WireResponse:
    """A value, as JSON."""
    return WireResponse(encode(value), status)


def error_response(error: ToolhallError) -> WireResponse:
    """Any error; what contradicts what is registered is no fault of the request alone, so it is a conflict.

    Nor is a definition that cannot be registered: the request that brings it is as it should be.
    """
    wire = write_error(error)
    if not isinstance(error, BadDocument | StateConflict):
        return wire
    said = msgspec.json.decode(wire.body)
    bad = isinstance(error, BadDocument) and not isinstance(error, BrokenPromise)
    said["error"]["code"] = "bad_definition" if bad else "conflict"
    return WireResponse(encode(said), CONFLICT, wire.headers)


async def respond(request: HttpRequest, work: Coroutine[Any, Any, WireResponse]) -> None:
    """Reply with what comes of the work, also if that is a refusal."""
    if not _is_same_origin(request):
        work.close()
        await request.reply(error_response(Denied("management takes no requests from pages of another origin")))
        return
    try:
        wire = await work
    except ToolhallError as error:
        if error.detail:
            _log.warning("%s: %s", type(error).__name__, error.detail)
        wire = error_response(error)
    await request.reply(wire)


def _is_same_origin(request: HttpRequest) -> bool:
    """Whether a browser sent this for a page of our own, if one did: any program on this machine serves pages."""
    origin = request.headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] == request.headers.get(b"host")


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`{}`, or no body at all."""


class ActivateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which text the person saw who activates it."""

    seen: Annotated[str, msgspec.Meta(pattern=_DIGEST)] | None = None


class DeprecateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first day without the tool, and what to call instead."""

    sunset: date | None = None
    successor: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None


Body: TypeAlias = EmptyBody | ActivateBody | DeprecateBody | NewKey | NewGrant
B = TypeVar("B", EmptyBody, ActivateBody, DeprecateBody, NewKey, NewGrant)
_BODY_EXAMPLES: dict[type[Body], str] = {
    EmptyBody: "{}, or no body",
    ActivateBody: '{"seen": "sha256-..."} with the document digest of what you looked at',
    DeprecateBody: '{"sunset": "2027-01-31", "successor": "Kit.tool@2.0.0"}, or one of them, or neither',
    NewKey: '{"name": "ci", "scopes": ["tools:*"], "expires": "90d"}, and "owner" or "shared" where you need them',
    NewGrant: '{"callers": "ci", "tools": "Kit.*"}, and "effect" or "conditions" where you need them',
}


def query_parameters(request: HttpRequest, known: Collection[str] = ()) -> dict[str, str]:
    """The query's parameters; one that nobody knows would be ignored, and the caller would not notice."""
    asked = request.parameters
    unknown = min(asked.keys() - set(known), default=None)
    if unknown is not None:
        instead = f"use {', '.join(sorted(known))}" if known else "leave it out"
        raise Malformed(f"there is no parameter {unknown[:32]!r} here; {instead}")
    return asked


def limit_parameter(parameters: dict[str, str]) -> int:
    """How many events are asked for."""
    text = parameters.get("limit", str(DEFAULT_EVENTS))
    if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_EVENTS:
        return int(text)
    raise Malformed(f"limit is a number from 1 to {MAX_EVENTS}")


async def read_json(request: HttpRequest, validator: RequestValidator) -> Json:
    """The body's value, of strict JSON; a request without a body need not say of which type it is."""
    headers = request.headers
    if not headers.keys() & _BODY_HEADERS and headers.get(b"content-length", b"0") == b"0":
        return {}
    return strict_json.decode(await validator.read_body(headers, request.receive))


def parse_body(body: Json, kind: type[B]) -> B:
    """The body as an action wants it; Malformed says what to write instead."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"{str(error)[:160]}; write {_BODY_EXAMPLES[kind]}") from None


def parse_sensitive_body(body: Json, kind: type[StructT], example: str) -> StructT:
    """The body as an action wants it; Malformed says what to write instead, and repeats nothing of a code."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError:
        raise Malformed(f"this body cannot be read; write {example}") from None


def dispatch_below(find: Callable[[HttpRequest], tuple[str, ItemHandlers] | None], not_found_message: str) -> Methods:
    """Every method leads to what `find` says of the path: whom it names, and what can be done; or there is nothing."""

    async def serve(exchange: HttpRequest) -> None:
        found = find(exchange)
        if found is None:
            await exchange.reply(error_response(NotFound(not_found_message)))
            return
        name, actions = found
        if exchange.method in actions:
            await respond(exchange, actions[exchange.method](exchange, name))
        else:
            await exchange.refuse(405, f"use {' or '.join(actions)}", (b"allow", ", ".join(actions).encode()))

    return {method.value: serve for method in HTTPMethod}


def iso_time(seconds: float) -> str:
    """A time in UTC, as ISO 8601 writes it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
