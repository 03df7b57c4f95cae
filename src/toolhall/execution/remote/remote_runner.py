"""`RemoteRunner`: runs a tool in a tool server, and retries a lost call only where that can do no harm.

Reading a resource, getting a prompt and completing an argument are calls as well, and so are their answers checked.

A call is tried again at another replica if it provably did not run, or once if the operator marked the tool idempotent;
never after the caller has heard something of it (`CallEvents`), and only within the retry budget (`RetryBudget`).
"""

import itertools
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.dialects.hub.call_messages import (
    MAX_CHANGES,
    REPORTS,
    CallContext,
    CallerPayload,
    CallEvent,
    CallTemplate,
    ChangedMessage,
    LogMessage,
    ProgressMessage,
    QuestionMessage,
    TokenPayload,
    ToolResponseMessage,
    remote_call,
    write_answer,
    write_call,
)
from toolhall.dialects.hub.results import (
    NotStarted,
    contents_or_raise,
    error_payload,
    messages_or_raise,
    result_or_raise,
)
from toolhall.egress.exchange import ExchangeLost, ExchangeTooLarge
from toolhall.execution.client_link import client_features
from toolhall.execution.deadline import Deadline
from toolhall.execution.remote.replica import Replica, ReplicaCall
from toolhall.execution.remote.replica_pools import ReplicaPools
from toolhall.model.caller import Caller
from toolhall.model.errors import BadOutput, ToolhallError, Unavailable
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import (
    Call,
    ClientLink,
    InputRequiredSignal,
    LogEvent,
    ProgressEvent,
    ResourceChanged,
)
from toolhall.model.names import matches_any
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Runner

_MAX_RETRY_MS = 60_000
_MAX_TEMPLATES = 1_000
_LOST_MESSAGE = "the tool server was lost while it ran this call; whether it had an effect is not known"
_UNREACHABLE_MESSAGE = "the tool server cannot be reached now; the call did not run"
_TOO_LARGE_MESSAGE = "the tool returned more than is passed on"
_log = logging.getLogger("toolhall.toolservers")
# Whether a toolkit has a resource with this URI, and so may tell of its changes.
HasResource: TypeAlias = Callable[[str, str], bool]
_FailedAttempt: TypeAlias = tuple[Replica, ExchangeLost | NotStarted]
_RETRY_RATIO = 0.1  # of all calls
_MIN_RETRIES = 10.0  # within a window, however few calls there are
_WINDOW_SECONDS = 10.0


class CallEvents:
    """Relays events and questions of one call to its client, however often the call is tried."""

    __slots__ = ("_changes", "_has_resource", "_input_required", "_link", "_toolkit", "deadline", "reached_caller")

    def __init__(self, link: ClientLink, deadline: PausableDeadline, toolkit: str, has_resource: HasResource) -> None:
        self._link = link
        self._toolkit = toolkit
        self._has_resource = has_resource
        self._changes = 0
        self.deadline = deadline
        self.reached_caller = False  # the client got an event or a question: a retry would repeat it
        self._input_required: InputRequiredSignal | None = None

    async def handle(self, report: CallEvent) -> bytes | None:
        """Relay an event or a question; returns the encoded answer to a question."""
        if isinstance(report, ChangedMessage):  # not for the caller, and told twice it does no harm
            self._relay_change(report.uri)
            return None
        self.reached_caller = True
        match report:
            case ProgressMessage():
                self._link.emit(ProgressEvent(report.progress, report.total, report.message))
            case LogMessage():
                self._link.emit(LogEvent(report.level, report.data, report.logger))
            case QuestionMessage():
                return await self._answer_question(report)
        return None

    def raise_if_input_required(self) -> None:
        """Raise the signal of a question whose answer comes with a later call, whatever the tool server returned."""
        if self._input_required is not None:
            raise self._input_required

    def _relay_change(self, uri: str) -> None:
        """Tell of a changed resource, unless it is another toolkit's, or one call tells of too many."""
        self._changes += 1
        if self._changes <= MAX_CHANGES and self._has_resource(self._toolkit, uri):
            self._link.emit(ResourceChanged(uri))

    async def _answer_question(self, question: QuestionMessage) -> bytes:
        if self._input_required is not None:  # the tool was asked to unwind already
            return write_answer(question.id, question.number, later=True)
        try:
            if question.retry_ms is not None:
                await self._link.detach(max(0, min(question.retry_ms, _MAX_RETRY_MS)))
                return write_answer(question.id, question.number)
            with self.deadline.hold():
                answers = await self._link.ask(question.questions)
            return write_answer(question.id, question.number, answers)
        except InputRequiredSignal as asking:
            self._input_required = asking
            return write_answer(question.id, question.number, later=True)
        except ToolhallError as error:
            return write_answer(question.id, question.number, error=error_payload(error))


class RemoteRunner:
    """Runs every tool of every tool server; `idempotent`: globs of tools that may run twice, by the operator."""

    __slots__ = (
        "_budget",
        "_has_resource",
        "_id_prefix",
        "_idempotent",
        "_ids",
        "_note_server",
        "_pools",
        "_templates",
    )

    is_interactive = True

    def __init__(
        self,
        pools: ReplicaPools,
        idempotent: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
        note_server: Callable[[str, str], None] = lambda _call_id, _server: None,
        has_resource: HasResource = lambda _toolkit, _uri: False,
    ) -> None:
        """`note_server` gets the id of each call and the tool server that it goes to, again with each retry."""
        self._pools = pools
        self._has_resource = has_resource
        self._idempotent = idempotent
        self._note_server = note_server
        self._budget = RetryBudget(clock)
        self._id_prefix = secrets.token_hex(4)  # tool servers may still run calls of an earlier process of this hall
        self._ids = itertools.count(1)
        self._templates: dict[tuple[str, str, str], _CallerTemplate] = {}  # of each tool's last caller

    def completion_runner(self, argument: str) -> Runner:
        """The runner of the function that completes this argument of a resource or a prompt."""
        return _CompletionRunner(self, argument)

    async def run(
        self,
        tool: Tool,
        call: Call,
        arguments: JsonObject,
        deadline: PausableDeadline,
        complete: str | None = None,
    ) -> object:
        """Run the call at a replica, and at others as long as a retry is safe; returns the value of the tool.

        With `complete`, these are the completions of that argument.
        """
        self._budget.record_call()
        events = CallEvents(call.link, deadline, tool.id.toolkit, self._has_resource)
        failed: list[_FailedAttempt] = []
        tool_id = tool.id
        try:
            replica = self._pools.pick(tool_id.toolkit, tool_id.version)
        except Unavailable:
            if self._pools.is_known(tool_id.toolkit, tool_id.version):
                raise
            raise Unavailable(f"{tool_id} is defined, but nothing runs it") from None
        while True:
            call_id = f"{self._id_prefix}-{next(self._ids)}"
            request = self._write_call(call_id, tool, call, arguments, _remaining_seconds(deadline), complete)
            self._note_server(call.id, replica.info.server)
            attempt = ReplicaCall(replica)
            try:
                response = await attempt.transport.call(request, call_id, events.handle)
                attempt.record_success()
                if events.reached_caller:
                    events.raise_if_input_required()
                return result_or_raise(response) if complete is not None else _value_or_raise(call, response)
            except ExchangeTooLarge as too_large:  # the tool ran to its end, and the replica is healthy
                attempt.record_success()
                events.raise_if_input_required()
                raise BadOutput(_TOO_LARGE_MESSAGE, detail=too_large.reason) from None
            except ExchangeLost as lost:
                attempt.record_loss()
                self._pools.lost_calls += lost.delivered
                events.raise_if_input_required()
                failed.append((replica, lost))
            except NotStarted as rejected:
                attempt.record_rejection()
                failed.append((replica, rejected))
            finally:
                attempt.end()
            replica = self._pick_next(tool, call, failed, events)

    def _pick_next(self, tool: Tool, call: Call, failed: list[_FailedAttempt], events: CallEvents) -> Replica:
        """The replica for a retry; raises the error of the call if it must not be retried."""
        other = self._pick_other(tool, failed) if self._may_retry(tool, failed, events) else None
        if other is None or not self._budget.try_spend():
            raise _unavailable_error(failed)
        self._pools.retried_calls += 1
        if _was_delivered(failed[-1]):
            _log.warning("call %s of %s was lost, and is run again: it is marked idempotent", call.id, tool.id)
        return other

    def _may_retry(self, tool: Tool, failed: list[_FailedAttempt], events: CallEvents) -> bool:
        """Whether a retry is safe: the client got no event of the call, and at most one attempt may have run.

        One that may have run is retried only if the operator marked the tool idempotent.
        """
        if events.reached_caller or _remaining_seconds(events.deadline) == 0:
            return False
        delivered = sum(map(_was_delivered, failed))
        return delivered == 0 or (delivered == 1 and matches_any(self._idempotent, str(tool.id)))

    def _pick_other(self, tool: Tool, failed: list[_FailedAttempt]) -> Replica | None:
        try:
            return self._pools.pick(tool.id.toolkit, tool.id.version, [replica for replica, _ in failed])
        except Unavailable:
            return None

    def _write_call(
        self,
        call_id: str,
        tool: Tool,
        call: Call,
        arguments: JsonObject,
        seconds: float | None,
        complete: str | None,
    ) -> bytes:
        """Encode the call: the caller without its credential, and the credentials that the tool declared."""
        names = tool.id.toolkit, tool.id.tool, tool.id.version
        can, credentials = client_features(call.link), call.credentials
        if credentials is not None or call.kind != "tool":
            context = _context_of(tool, call, can, seconds)
            uri = call.requested_name if call.kind == "resource" and complete is None else None
            request = remote_call(call_id, names, arguments, context)
            return write_call(msgspec.structs.replace(request, kind=call.kind, uri=uri, complete=complete))
        known = self._templates.get(names)
        if known is None or known.caller is not call.caller or known.can != can:
            known = self._remember_template(names, call.caller, can)
        encoded = call.encoded_arguments if arguments is call.arguments else None
        return known.template.write(call_id, encoded or encode(arguments), call.id, seconds)

    def _remember_template(
        self, names: tuple[str, str, str], caller: Caller, can: tuple[str, ...]
    ) -> "_CallerTemplate":
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        template = CallTemplate(names, _caller_payload(caller), can)
        known = self._templates[names] = _CallerTemplate(caller, can, template)
        return known


class _CallerTemplate(msgspec.Struct, frozen=True):
    """The template of a tool's calls by a caller whose client has these features."""

    caller: Caller
    can: tuple[str, ...]
    template: CallTemplate


class _CompletionRunner:
    """Runs the function that completes one argument, of every resource and prompt of every tool server."""

    __slots__ = ("_argument", "_runner")

    is_interactive = False

    def __init__(self, runner: RemoteRunner, argument: str) -> None:
        self._runner = runner
        self._argument = argument

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Ask a tool server for completions of `typed`, where `given` are the other arguments."""
        return self._runner.run(tool, call, arguments, deadline, self._argument)


def _value_or_raise(call: Call, response: ToolResponseMessage) -> object:
    """What a tool returned, a resource reads or a prompt says; raises the error that the call ended with."""
    if call.kind == "tool":
        return result_or_raise(response)
    return contents_or_raise(response) if call.kind == "resource" else messages_or_raise(response)


def _context_of(tool: Tool, call: Call, can: tuple[str, ...], seconds: float | None) -> CallContext:
    """What the call carries besides its params, with the credentials that the tool declared."""
    credentials = call.credentials
    caller = _caller_payload(call.caller)
    if credentials is None:
        return CallContext(call.id, seconds, caller, can, reports=REPORTS)
    return CallContext(
        call.id,
        seconds,
        caller,
        can,
        credentials.user_id if (tool.requirements or {}).get("user_id") is True else None,
        {name: secret.reveal() for name, secret in credentials.secrets.items()},
        {
            name: TokenPayload(account.token.reveal(), account.scopes, account.expires_at)
            for name, account in credentials.accounts.items()
        },
        REPORTS,
    )


def _caller_payload(caller: Caller) -> CallerPayload:
    return CallerPayload(caller.id, caller.person, caller.proof, tuple(sorted(caller.scopes)), caller.acting_for)


def _remaining_seconds(deadline: PausableDeadline) -> float | None:
    """Seconds that are left; None without a deadline."""
    return deadline.remaining if isinstance(deadline, Deadline) else None


def _was_delivered(failed: _FailedAttempt) -> bool:
    """Whether the tool may have run."""
    failure = failed[1]
    return isinstance(failure, ExchangeLost) and failure.delivered


def _unavailable_error(failed: list[_FailedAttempt]) -> Unavailable:
    """The error of the last failure, or of an earlier one that leaves in doubt whether the call had an effect."""
    replica, failure = next(filter(_was_delivered, failed), failed[-1])
    if isinstance(failure, NotStarted):
        return failure
    detail = f"a replica of the tool server {replica.server!r} was lost: {failure.reason}"
    return Unavailable(_LOST_MESSAGE if failure.delivered else _UNREACHABLE_MESSAGE, detail=detail)


class RetryBudget:
    """Allows retries up to a tenth of all calls, over a sliding window (this one, and the rest of the one before)."""

    __slots__ = ("_calls", "_clock", "_retries", "_window_start")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._window_start = clock()
        self._calls = [0, 0]  # in the previous window, and in this one
        self._retries = [0, 0]

    def record_call(self) -> None:
        """Count one more call."""
        if self._clock() - self._window_start >= _WINDOW_SECONDS:
            self._rotate_window()
        self._calls[1] += 1

    def try_spend(self) -> bool:
        """Whether one more retry is allowed; it is counted if so."""
        if self._clock() - self._window_start >= _WINDOW_SECONDS:
            self._rotate_window()
        weight = 1 - (self._clock() - self._window_start) / _WINDOW_SECONDS  # of the previous window
        calls = self._calls[0] * weight + self._calls[1]
        retries = self._retries[0] * weight + self._retries[1]
        if retries + 1 > max(_MIN_RETRIES, calls * _RETRY_RATIO):
            return False
        self._retries[1] += 1
        return True

    def _rotate_window(self) -> None:
        """Begin the next window; after a pause of two windows both counts are forgotten."""
        passed = (self._clock() - self._window_start) // _WINDOW_SECONDS
        for counts in (self._calls, self._retries):
            counts[:] = [counts[1] if passed == 1 else 0, 0]
        self._window_start += passed * _WINDOW_SECONDS
