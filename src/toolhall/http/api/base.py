"""Shared parts of the management API: `ManagementContext`, parsing of parameters and bodies, and responses.

Every change goes through `ManagementContext.change`, which audits it whatever its outcome. A request that is valid
but contradicts the present state becomes `StateConflict` (409).
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property
from http import HTTPMethod
from typing import Annotated, Any, Protocol, TypeAlias, TypeVar

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.openapi.errors import write_error
from toolhall.http.api.audit_scans import AuditScans
from toolhall.http.api.own_calls import OwnCalls, has_own_calls, shown_to_caller
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import CROSS_SITE, RequestValidator, omits_body
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import ADMIN, OBSERVE, Caller
from toolhall.model.errors import Denied, Malformed, NotFound, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import WireResponse
from toolhall.pipeline.admin import AdminOperation
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.registration.access import AccessControl, NewGrant, NewKey
from toolhall.registration.rules import BrokenPromise
from toolhall.registration.service import RegistrationService
from toolhall.stores.audit.anchors import AnchorSync
from toolhall.stores.audit.filters import AuditQuery
from toolhall.stores.audit.query import Positions, RecordPage
from toolhall.stores.audit.reader import RecordReader, reader_of
from toolhall.stores.tools import ToolOrigin

T = TypeVar("T")
MANAGEMENT_DIALECT = "api"
ADMIN_ONLY = f"this caller may not see this; only the person at this machine and the scope {ADMIN} may"
OBSERVERS_ONLY = (
    f"this caller may not see how the hall is managed; only the person at this machine and the scopes {ADMIN} and"
    f" {OBSERVE} may"
)
CONFLICT = 409
_log = logging.getLogger("toolhall.api")
TOOL_PREFIX = "/api/tools/"
MAX_EVENTS = 1_000
DEFAULT_EVENTS = 100
_DIGEST = r"^sha256-[0-9a-f]{64}$"
StructT = TypeVar("StructT", bound=msgspec.Struct)
NeedReader: TypeAlias = Callable[[Caller], Awaitable[Json]]  # what waits for this caller
ItemHandler: TypeAlias = Callable[[HttpRequest, str], Coroutine[Any, Any, WireResponse]]  # with the id of the item
ItemHandlers: TypeAlias = Mapping[str, ItemHandler]  # by HTTP method


class StateConflict(Malformed):
    """A valid request that contradicts what is registered now; 409."""


class ProofRequired(Denied):
    """The person of a browser session has to prove again to be present; 403 with the code `proof_required`."""

    message = "this change asks whether you are there: send a code or passkey to /api/me/proof, then try again"


class ReadableJournal(Protocol):
    """The audit records of a process, in a folder or in memory."""

    @property
    def anchor_sync(self) -> AnchorSync | None:
        """Compares the records with the anchors in the store; None for records in memory."""
        ...

    async def read(self, tool: str, callback: Callable[[AuditRecord], None]) -> None:
        """Call back with every record about a tool id, or about all versions of `Toolkit.tool`."""
        ...

    failing: bool

    @property
    def behind(self) -> Sequence[str]:
        """What the audit lacks of what the store knows of it."""
        ...

    async def flush(self) -> None:
        """Wait until every record so far is written."""
        ...

    async def search(self, query: AuditQuery, limit: int, before: Positions | None = None) -> RecordPage:
        """Return a page of the matching records, newest first."""
        ...


@dataclass
class ManagementContext:
    """The services of the management API; `origin` and `detail` are recorded with new definitions."""

    dispatcher: Dispatcher
    registration: RegistrationService
    access: AccessControl
    journal: ReadableJournal
    clock: Callable[[], float]
    page_size: int
    origin: ToolOrigin = "http"
    detail: str = ""
    require_presence: Callable[[HttpRequest], None] = lambda _: None  # raises ProofRequired
    describe_approval: Callable[[str, Caller], Awaitable[JsonObject]] | None = None  # set by the approvals' own API
    needs: dict[str, NeedReader] = field(default_factory=dict)  # by what waits; each API adds its own
    scans: AuditScans = field(default_factory=AuditScans)
    workers: Callable[[], int] = lambda: 1  # how many processes the hall was started with

    @cached_property
    def reader(self) -> RecordReader:
        """Reads the audit records of all processes, in threads."""
        return reader_of(self.journal)

    def running_processes(self) -> int:
        """Thread: return how many processes serve this hall; a worker that never wrote a record counts, too."""
        return max(self.workers(), self.reader.running_processes())

    def require_admin(self, caller: Caller) -> None:
        """Raise Denied unless the caller is an administrator: for what the scope `observe` does not show, too."""
        if not self.dispatcher.admin.is_allowed(caller):
            raise Denied(ADMIN_ONLY)

    def require_observer(self, caller: Caller) -> None:
        """Raise Denied unless the caller is an administrator or has the scope `observe`; others see nothing of this."""
        if not self.dispatcher.admin.may_observe(caller):
            raise Denied(OBSERVERS_ONLY)

    async def search_calls(
        self, query: AuditQuery, limit: int, caller: Caller, before: Positions | None = None
    ) -> RecordPage:
        """Return a page of the records that match: of all calls for observers, of their own for other callers."""
        if self.dispatcher.admin.may_observe(caller):
            async with self.scans.turn(caller):
                return await self.journal.search(query, limit, before)
        if not has_own_calls(caller):
            raise Denied(OBSERVERS_ONLY)
        async with self.scans.turn(caller, own=True):
            page = await self.journal.search(OwnCalls.of(query, caller), limit, before)
        return RecordPage([shown_to_caller(each) for each in page.records], page.next)

    async def change(self, action: str, payload: Json, caller: Caller, apply: Callable[[], Awaitable[T]]) -> T:
        """Make and audit a change; a Malformed of the operation itself is about the present state: StateConflict."""
        try:
            return await self.dispatcher.admin(AdminOperation(action, MANAGEMENT_DIALECT, payload), caller, apply)
        except BadDocument:
            raise
        except Malformed as error:
            raise StateConflict(error.message) from None


def json_response(value: Json, status: int = 200) -> WireResponse:
    """Return a JSON response."""
    return WireResponse(encode(value), status)


def error_response(error: ToolhallError) -> WireResponse:
    """Return an error response; StateConflict and BadDocument become 409.

    A request with a definition that cannot be registered is itself well-formed, so its status is not 400.
    """
    wire = write_error(error)
    if not isinstance(error, BadDocument | StateConflict | ProofRequired):
        return wire
    document = msgspec.json.decode(wire.body)
    if isinstance(error, ProofRequired):
        document["error"]["code"] = "proof_required"
        return WireResponse(encode(document), wire.status, wire.headers)
    is_bad_definition = isinstance(error, BadDocument) and not isinstance(error, BrokenPromise)
    document["error"]["code"] = "bad_definition" if is_bad_definition else "conflict"
    return WireResponse(encode(document), CONFLICT, wire.headers)


async def respond(request: HttpRequest, work: Coroutine[Any, Any, WireResponse]) -> None:
    """Send the result of the work, or its error."""
    if not is_same_origin(request):
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


def is_same_origin(request: HttpRequest) -> bool:
    """Whether this server's page sent the request, if a page did: any local program can serve pages on this machine.

    The browser's own word counts first: a proxy may change the Host that an Origin is compared with, and a frame of
    another page, which could make the hall read its whole audit over and over, sends no Origin.
    """
    site = request.headers.get(b"sec-fetch-site")
    if site in (b"same-origin", *CROSS_SITE):
        return site == b"same-origin"
    origin = request.headers.get(b"origin")
    return origin is None or origin.partition(b"://")[2] == request.headers.get(b"host")


class EmptyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`{}`, or no body."""


class ActivateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The digest of the document that the activating person has seen."""

    seen: Annotated[str, msgspec.Meta(pattern=_DIGEST)] | None = None


class DeprecateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first day without the tool, and its successor."""

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
    """Return the query parameters; Malformed for an unknown one, which would be ignored silently."""
    parameters = request.parameters
    unknown = min(parameters.keys() - set(known), default=None)
    if unknown is not None:
        fix = f"use {', '.join(sorted(known))}" if known else "leave it out"
        raise Malformed(f"there is no parameter {unknown[:32]!r} here; {fix}")
    return parameters


def limit_parameter(parameters: dict[str, str]) -> int:
    """Return `limit`, from 1 to MAX_EVENTS."""
    text = parameters.get("limit", str(DEFAULT_EVENTS))
    if text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_EVENTS:
        return int(text)
    raise Malformed(f"limit is a number from 1 to {MAX_EVENTS}")


async def read_json(request: HttpRequest, validator: RequestValidator) -> Json:
    """Return the body as strict JSON; `{}` without a body, which then needs no Content-Type."""
    if omits_body(request.headers):
        return {}
    return strict_json.decode(await validator.read_body(request.headers, request.receive))


def parse_body(body: Json, kind: type[B]) -> B:
    """Convert a body to its type; Malformed shows an example."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"{str(error)[:160]}; write {_BODY_EXAMPLES[kind]}") from None


def parse_sensitive_body(body: Json, kind: type[StructT], example: str) -> StructT:
    """Convert a body to its type; Malformed shows an example, and repeats nothing of the body, which may hold codes."""
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError:
        raise Malformed(f"this body cannot be read; write {example}") from None


def dispatch_below(find: Callable[[HttpRequest], tuple[str, ItemHandlers] | None], not_found_message: str) -> Methods:
    """Return methods for a prefix: `find` maps a request to an item and its handlers, None for 404."""

    async def serve(request: HttpRequest) -> None:
        item = find(request)
        if item is None:
            await request.reply(error_response(NotFound(not_found_message)))
            return
        item_id, handlers = item
        if request.method in handlers:
            await respond(request, handlers[request.method](request, item_id))
        else:
            await request.refuse(405, f"use {' or '.join(handlers)}", (b"allow", ", ".join(handlers).encode()))

    return {method.value: serve for method in HTTPMethod}


def iso_time(seconds: float) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def optional_time(seconds: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC; None for None."""
    return None if seconds is None else iso_time(seconds)
