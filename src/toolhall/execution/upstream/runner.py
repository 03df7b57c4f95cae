"""`UpstreamRunner`: runs tools, reads resources, gets prompts and completes arguments at upstreams.

`UpstreamRun` is one call: it is sent, sent again where that is safe, and goes on after questions. A call is repeated if
it provably did not run (nothing was written; the session was refused; the credential was), or once if the operator
marked the tool idempotent and the caller has heard nothing of it; always within its deadline and the retry budget.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.concurrency import BackgroundTasks
from toolhall.dialects.mcp.client_questions import (
    ASKING_METHODS,
    OpenQuestions,
    read_open_questions,
    write_reply,
)
from toolhall.dialects.mcp.protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    TASKS_EXTENSION,
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
)
from toolhall.dialects.mcp.requests import HOPS_KEY
from toolhall.execution.client_link import client_features
from toolhall.execution.deadline import Deadline
from toolhall.execution.long_calls import LongCallLink
from toolhall.execution.remote.remote_runner import RetryBudget
from toolhall.execution.upstream import results
from toolhall.execution.upstream.call_hooks import CallHooks
from toolhall.execution.upstream.call_requests import call_request, with_replies
from toolhall.execution.upstream.connection import UpstreamConnection
from toolhall.execution.upstream.parked_calls import PARKED_KEY, ParkableCall, ParkedCalls
from toolhall.execution.upstream.questions import answered_question, kind_of, read_url_elicitations, shown_question
from toolhall.execution.upstream.upstream_tasks import TaskPoller, created_task
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    McpSession,
    NotAcceptable,
    NotSent,
    RateLimited,
    RequestLost,
    ResponseTooLarge,
    RpcError,
    SessionExpired,
    Unauthorized,
)
from toolhall.model.content import Message
from toolhall.model.errors import BadOutput, Malformed, ToolFailed, Unavailable, Unsupported
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import (
    NO_MEMORY,
    TASKS_FEATURE,
    Answered,
    Call,
    CallMemory,
    ClientLink,
    InputRequiredSignal,
    Question,
    memory_of,
)
from toolhall.model.names import matches_any
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Runner
from toolhall.schema.validator import Validator

MAX_HOPS = 4  # halls that a request went through before this one
MAX_ROUNDS = 5  # of questions, in one call
_MAX_ATTEMPTS = 4
_PAUSE_SECONDS = 0.05  # before the next attempt, doubled with each
_MAX_VALIDATORS = 1_000
_ROUND_KEY = "dev.toolhall/upstream"  # in the memory of the call
_LOST = "the upstream {!r} was lost while it ran this call; whether it had an effect is not known"
_LIMITED = "the upstream {!r} takes no more calls now"
_UNUSABLE = "the upstream {!r} cannot be used: {}"
_REFUSES_SESSIONS = "the upstream {!r} refuses each new session: {}"
_UNREACHABLE = "the upstream {!r} cannot be reached now; the call did not run: {}"


class _Round(msgspec.Struct, frozen=True):
    """What a call remembers until its client answers the questions of a modern upstream."""

    number: int
    kinds: dict[str, str]  # of the questions, by the upstream's keys
    state: str | None = None  # the upstream's requestState: opaque, and only ever sent back to it
    task: str | None = None  # the upstream's task that asks


class UpstreamRunner:
    """Runs everything of every upstream; `idempotent`: globs of tools that may run twice, by the operator."""

    is_interactive = True

    def __init__(
        self,
        connections: Mapping[str, UpstreamConnection],
        hall_id: str,
        idempotent: tuple[str, ...] = (),
        note_server: Callable[[str, str], None] = lambda _call_id, _server: None,
        clock: Callable[[], float] = time.monotonic,
        shown_uri: Callable[[str, str], str] = lambda _upstream, uri: uri,
    ) -> None:
        """`hall_id` tells this hall from others in a chain; `note_server` gets the upstream of each call.

        `shown_uri` returns the URI here of what an upstream calls so.
        """
        self._connections = connections
        self._hall_id = hall_id
        self._own_hops: JsonObject = {HOPS_KEY: [hall_id]}
        self._note_server = note_server
        self._validators: dict[str, tuple[Tool, Validator]] = {}  # of outputs of lenient upstreams
        self.idempotent = idempotent
        self.shown_uri = shown_uri
        self.budget = RetryBudget(clock)
        self.parked = ParkedCalls()
        self.stragglers = BackgroundTasks()  # requests that tell an upstream of a cancelled task
        self.retried_calls = 0
        self.asking_tools: set[str] = set()  # that have asked a question
        self.task_tools: set[str] = set()  # that refused to run without a task

    def completion_runner(self, argument: str) -> Runner:
        """The runner that completes this argument of a resource or a prompt."""
        return _UpstreamCompletionRunner(self, argument)

    async def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> object:
        """Run the tool, read the resource or get the prompt; returns its value."""
        connection = self._connection(tool)
        if tool.task is not None and isinstance(link := _client_link(call.link), LongCallLink):
            await link.begin(tool, call, deadline)
        memory = memory_of(call.link)
        parked_id = None if memory is NO_MEMORY else await memory.recall(PARKED_KEY)
        if parked_id is not None:
            return await self._resume(parked_id.decode(errors="replace"), connection, call, deadline)
        self._note_server(call.id, connection.name)
        meta = self.meta_for(call.link)
        hooks = CallHooks(connection.name, call, deadline, connection.redactor())
        started = UpstreamRun(self, connection, call_request(tool, call, arguments, meta), tool)
        if connection.era == "modern" or not _answers_later(call.link):
            return await started.run(hooks, memory)
        if str(tool.id) in self.asking_tools:
            self.parked.check_room(call)
        parkable = ParkableCall(hooks, self.parked)
        try:
            return await self.parked.start(parkable, lambda own: started.run(own, memory))
        except InputRequiredSignal:
            self.asking_tools.add(str(tool.id))
            raise

    async def complete(
        self, tool: Tool, call: Call, given: JsonObject, deadline: PausableDeadline, argument: str
    ) -> object:
        """The completions of an argument, where `given` has what was typed and the other arguments."""
        connection = self._connection(tool)
        kind = "ref/resource" if tool.resource is not None else "ref/prompt"
        member = "uri" if tool.resource is not None else "name"
        params: JsonObject = {
            "ref": {"type": kind, member: tool.upstream_name or tool.name},
            "argument": {"name": argument, "value": given.get("typed", "")},
        }
        if given.get("given"):
            params["context"] = {"arguments": given["given"]}
        request = McpRequest(method="completion/complete", params=params, meta=self.meta_for(call.link), features=())
        hooks = CallHooks(connection.name, call, deadline, connection.redactor())
        return await UpstreamRun(self, connection, request, tool).run(hooks, NO_MEMORY)

    def meta_for(self, link: ClientLink) -> JsonObject:
        """`_meta` of a request: the halls that it went through; raises ToolFailed in a circle of halls."""
        hops: tuple[str, ...] = getattr(_client_link(link), "hops", ())
        if not hops:
            return self._own_hops
        if self._hall_id in hops:
            raise ToolFailed("this call came back to a hall that it went through before: upstreams form a circle")
        if len(hops) > MAX_HOPS:
            raise ToolFailed(f"this call went through more than {MAX_HOPS} halls; call one nearer to the tool")
        return {HOPS_KEY: [*hops, self._hall_id]}

    def lenient_validator(self, tool: Tool) -> Validator | None:
        """The validator of a tool's output, compiled when it is first needed; None if it states none."""
        if tool.output.schema is None:
            return None
        key = str(tool.id)
        known = self._validators.get(key)
        if known is None or known[0] is not tool:
            if len(self._validators) >= _MAX_VALIDATORS:
                self._validators.clear()
            known = self._validators[key] = tool, Validator(tool.output.schema, known_good=True)
        return known[1]

    def _connection(self, tool: Tool) -> UpstreamConnection:
        connection = self._connections.get(tool.id.toolkit)
        if connection is None:
            raise Unavailable(f"the upstream {tool.id.toolkit!r} of this {tool.kind} is not set up any more")
        connection.check_accepts()
        self.budget.record_call()
        return connection

    async def _resume(
        self, parked_id: str, connection: UpstreamConnection, call: Call, deadline: PausableDeadline
    ) -> object:
        first = self.parked.first_call(parked_id)
        self._note_server(call.id, connection.name if first is None else f"{connection.name} (continues {first})")
        return await self.parked.resume(parked_id, call, deadline)


class _UpstreamCompletionRunner:
    """Runs the completion of one argument at the upstream."""

    __slots__ = ("_argument", "_runner")

    is_interactive = False

    def __init__(self, runner: UpstreamRunner, argument: str) -> None:
        self._runner = runner
        self._argument = argument

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        """Ask the upstream for completions of `typed`, where `given` are the other arguments."""
        return self._runner.complete(tool, call, arguments, deadline, self._argument)


class UpstreamRun:
    """One call at its upstream: attempts, questions of a modern upstream, a task."""

    def __init__(self, runner: UpstreamRunner, connection: UpstreamConnection, request: McpRequest, tool: Tool) -> None:
        self._runner = runner
        self._connection = connection
        self._request = request
        self._tool = tool
        self._hooks: CallHooks
        self._memory: CallMemory = NO_MEMORY
        self._attempts = 0
        self._round = 0
        self._has_renewed_session = self._has_refreshed = self._has_repeated = False
        self._as_task = tool.task is not None or str(tool.id) in runner.task_tools

    async def run(self, hooks: CallHooks, memory: CallMemory) -> object:
        """Send the request until it is answered; returns the value, or raises the error, of the call."""
        self._hooks, self._memory = hooks, memory
        circuit = self._connection.circuit
        is_trial = not circuit.is_closed and circuit.begin_call()
        try:
            before = None if memory is NO_MEMORY else await memory.recall(_ROUND_KEY)
            if before is not None:
                return await self._continue(_decode_round(before))
            return await self._send(self._request)
        finally:
            if is_trial:
                circuit.end_trial()

    async def _continue(self, before: _Round) -> object:
        """Go on with the replies that came with this request of the client."""
        self._round = before.number
        replies = await self._replies(before)
        if before.task is not None:
            return await self._poll(before.task, replies)
        return await self._send(with_replies(self._request, replies, before.state))

    async def _send(self, request: McpRequest) -> object:
        """Send a request until there is an answer; questions lead to further requests."""
        while True:
            raw = await self._attempt_until_answered(request)
            if raw is None:
                return None
            if self._connection.era == "legacy" or request.method not in ASKING_METHODS:
                created = created_task(raw, core=True) if self._as_task else None
                return self._value(raw) if created is None else await self._poll(created.id, None)
            asked = _open_questions(raw)
            if asked is None:
                created = created_task(raw, core=False)
                return self._value(raw) if created is None else await self._poll(created.id, None)
            shown = {key: shown_question(self._connection.name, each) for key, each in asked.questions.items()}
            replies = await self._ask(shown, asked.state, None)
            request = with_replies(self._request, replies, asked.state)

    async def _attempt_until_answered(self, request: McpRequest) -> msgspec.Raw | bytes | None:
        """The result of the request; None for a resource that there is not."""
        self._attempts = 0
        while True:
            self._attempts += 1
            try:
                raw = await self._attempt(request)
            except NotSent as lost:
                await self._pause_or_raise(_UNREACHABLE.format(self._connection.name, lost.reason), lost)
            except SessionExpired as expired:
                self._renew_session_or_raise(expired)
            except Unauthorized as refused:
                await self._refresh_or_raise(refused)
            except RateLimited as limited:
                raise self._unavailable(_LIMITED.format(self._connection.name), limited) from None
            except ResponseTooLarge as large:
                raise BadOutput("the upstream returned more than is passed on", detail=large.reason) from None
            except RequestLost as lost:
                self._repeat_or_raise(lost)
            except NotAcceptable as fault:
                raise self._unavailable(_UNUSABLE.format(self._connection.name, fault.reason), fault) from None
            except RpcError as error:
                self._connection.record_success()
                if not await self._handle_rpc_error(error):
                    return None
            else:
                self._connection.record_success()
                return self._redacted(raw)

    async def _attempt(self, request: McpRequest) -> msgspec.Raw:
        credentials = await self._connection.headers(self._hooks.call)
        self._hooks.redact_also(self._connection.sent_secrets(self._hooks.call))
        pooled = await self._connection.acquire(self._hooks.call, credentials)
        return await self._connection.send(pooled, self._for_session(request, pooled.session, credentials), self._hooks)

    def _for_session(self, request: McpRequest, session: McpSession, credentials: Headers) -> McpRequest:
        """The request with what depends on the session: credentials, and the headers of a modern one."""
        headers, params, features = request.argument_headers, request.params, request.features
        if not credentials and not headers and not self._as_task:
            return request
        if not session.server.revision.stateless:
            headers = ()
            if self._as_task and session.server.revision.core_tasks and request.method == "tools/call":
                params = {**params, "task": {}}
        elif self._as_task:
            features = (*(features or ()), TASKS_FEATURE)
        return McpRequest(
            method=request.method,
            params=params,
            encoded_arguments=request.encoded_arguments,
            name=request.name,
            argument_headers=headers,
            credentials=credentials,
            meta=request.meta,
            features=features,
            wants_events=request.wants_events,
        )

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    async def _pause_or_raise(self, message: str, lost: NotSent) -> None:
        """Wait for the next attempt; raises Unavailable if there is none."""
        left = _remaining_seconds(self._hooks.deadline)
        pause = _PAUSE_SECONDS * 2**self._attempts
        if (
            self._attempts >= _MAX_ATTEMPTS
            or (left is not None and left <= pause)
            or not self._runner.budget.try_spend()
        ):
            raise self._unavailable(message, lost) from None
        self._runner.retried_calls += 1
        await asyncio.sleep(pause)
        self._connection.check_accepts()

    def _renew_session_or_raise(self, expired: SessionExpired) -> None:
        """Allow one new handshake: the call was refused, so it did not run."""
        if self._has_renewed_session:
            self._connection.forget_era()
            message = _REFUSES_SESSIONS.format(self._connection.name, expired.reason)
            raise self._unavailable(message, expired) from None
        self._has_renewed_session = True

    async def _refresh_or_raise(self, refused: Unauthorized) -> None:
        """Renew the credential once; raises NeedsRequirement if that is not possible, or did not help."""
        connection, call = self._connection, self._hooks.call
        connection.record_success()
        if not self._has_refreshed and refused.status == 401:
            self._has_refreshed = True
            if await connection.refresh(call, refused.challenge):
                return
        raise await connection.missing(call, refused.challenge) from None

    def _repeat_or_raise(self, lost: RequestLost) -> None:
        """Allow one repetition of a call that may have run, if the operator did and the caller heard nothing."""
        connection = self._connection
        connection.lost_calls += 1
        may_repeat = (
            not self._has_repeated
            and not self._hooks.reached_caller
            and _remaining_seconds(self._hooks.deadline) != 0
            and (self._tool.kind != "tool" or matches_any(self._runner.idempotent, str(self._tool.id)))
            and self._runner.budget.try_spend()
        )
        if not may_repeat:
            if self._hooks.refusal is not None:
                raise self._hooks.refusal from None
            raise self._unavailable(_LOST.format(connection.name), lost) from None
        self._has_repeated = True
        self._runner.retried_calls += 1

    async def _handle_rpc_error(self, error: RpcError) -> bool:
        """Raise the error of the call; True if it is sent again, False if there is no such resource."""
        name, kind = self._connection.name, self._tool.kind
        if self._hooks.refusal is not None:
            raise self._hooks.refusal from None
        match error.code:
            case code if code == RESOURCE_NOT_FOUND or (code == INVALID_PARAMS and kind == "resource"):
                return False
            case code if code == URL_ELICITATION_REQUIRED:
                await self._open_pages(error.data)
                return True
            case code if code == UNSUPPORTED_VERSION and not self._has_renewed_session:
                self._has_renewed_session = True
                self._connection.forget_era()
                return True
            case code if code == MISSING_CAPABILITY and not self._as_task and _wants_tasks(error.data):
                return self._run_as_task()
            case code if code == MISSING_CAPABILITY:
                raise Unsupported(_missing_capability(error.data)) from None
            case code if (
                code == METHOD_NOT_FOUND and kind == "tool" and not self._as_task and self._connection.has_core_tasks
            ):
                return self._run_as_task()  # 2025-11-25: a tool that must be a task refuses any other call like this
            case _:
                raise ToolFailed(self._clean(f"{name}: {error.reason}")) from None

    def _run_as_task(self) -> bool:
        """The call was refused because it is no task: send it again as one, and the tool's next calls at once."""
        self._as_task = True
        self._runner.task_tools.add(str(self._tool.id))
        return True

    async def _open_pages(self, data: Json) -> None:
        self._count_round()
        asked = read_url_elicitations(self._connection.name, data)
        keys = {f"{key}~{self._round}" if self._round > 1 else key: each for key, each in asked.items()}
        replies = await self._hooks.ask(keys)
        if any(getattr(reply, "action", None) != "accept" for reply in replies.values()):
            raise ToolFailed(f"the upstream {self._connection.name!r} needs a page to be opened first, and it was not")

    def _unavailable(self, message: str, cause: Exception) -> Unavailable:
        error = Unavailable(self._clean(message), detail=self._clean(str(cause)))
        error.retry_after = getattr(cause, "retry_after", None)
        return error

    # --- questions of 2026-07-28 --------------------------------------------------------------------------------------

    def _count_round(self) -> None:
        self._round += 1
        if self._round > MAX_ROUNDS:
            raise ToolFailed(f"the upstream {self._connection.name!r} asked more than {MAX_ROUNDS} times")

    async def _ask(
        self, questions: Mapping[str, Question], state: str | None, task: str | None
    ) -> dict[str, JsonObject]:
        """Ask the caller; the link may end this request with the questions, and `_continue` goes on with the next."""
        self._count_round()
        self._runner.asking_tools.add(str(self._tool.id))
        if self._memory is not NO_MEMORY:
            kinds = {key: kind_of(each) for key, each in questions.items()}
            await self._memory.remember(_ROUND_KEY, encode(_Round(self._round, kinds, state, task)))
        keys = {_client_key(key, self._round): key for key in questions}
        answers = await self._hooks.ask({asked: questions[key] for asked, key in keys.items()})
        return {keys[asked]: write_reply(answer) for asked, answer in answers.items()}

    async def _replies(self, before: _Round) -> dict[str, JsonObject]:
        """The client's replies to the questions of the round before; one that is missing is left out."""
        replies: dict[str, JsonObject] = {}
        for key, kind in before.kinds.items():
            asked = _client_key(key, before.number)
            try:
                answers: Mapping[str, Answered] = await self._hooks.call.link.ask({asked: answered_question(kind)})
            except InputRequiredSignal:
                continue  # the upstream asks again for what it needs
            replies[key] = write_reply(answers[asked])
        return replies

    async def _poll(self, task_id: str, replies: dict[str, JsonObject] | None) -> object:
        """Wait until a task of the upstream has ended; its questions are asked like those of a call."""
        poller = TaskPoller(self._connection, self._hooks, task_id, self._request.meta, self._runner.stragglers)
        while True:
            outcome = await poller.until_done(replies)
            if not isinstance(outcome, OpenQuestions):
                return self._value(self._redacted(outcome))
            shown = {key: shown_question(self._connection.name, each) for key, each in outcome.questions.items()}
            replies = await self._ask(shown, None, task_id)

    # --- values -------------------------------------------------------------------------------------------------------

    def _value(self, raw: msgspec.Raw | bytes) -> object:
        tool, name = self._tool, str(self._tool.id)
        if self._request.method == "completion/complete":
            return results.completions(raw)
        if tool.kind == "resource":
            uri = self._hooks.call.requested_name or ""
            return results.resource_contents(raw, self._request.params["uri"], uri, self._shown_uri)
        if tool.kind == "prompt":
            messages = results.prompt_messages(name, raw)
            content = results.linked(tuple(each.content for each in messages), self._shown_uri)
            return [Message(each.role, block) for each, block in zip(messages, content, strict=True)]
        lenient = self._runner.lenient_validator(tool) if self._connection.settings.lenient else None
        reply = results.tool_reply(name, raw, lenient)
        if reply.is_error and self._hooks.refusal is not None:
            raise self._hooks.refusal
        content = results.linked(reply.content, self._shown_uri)
        return reply if content is reply.content else msgspec.structs.replace(reply, content=content)

    def _shown_uri(self, uri: str) -> str:
        """The URI here of what the upstream calls so."""
        return self._runner.shown_uri(self._connection.name, uri)

    def _redacted(self, raw: msgspec.Raw | bytes) -> msgspec.Raw | bytes:
        """The result without credentials of the hall, and of earlier requests of this call."""
        earlier = self._hooks.earlier_redactor if isinstance(self._hooks, ParkableCall) else None
        for redactor in (self._hooks.redactor, earlier):
            if redactor is not None:
                raw = redactor.redact_json(bytes(raw))
        return raw

    def _clean(self, text: str) -> str:
        return self._connection.redact(self._hooks.clean_text(text))


def _open_questions(raw: msgspec.Raw | bytes) -> OpenQuestions | None:
    try:
        return read_open_questions(raw)
    except Malformed as bad:
        raise BadOutput(f"the upstream asked something that cannot be read: {bad.message}") from None


def _decode_round(before: bytes) -> _Round:
    try:
        return msgspec.json.decode(before, type=_Round)
    except msgspec.MsgspecError as error:
        raise Unavailable("this call cannot go on; start it again", detail=str(error)) from None


def _client_key(key: str, number: int) -> str:
    """The key of a question towards the client, whose replies to all rounds are carried together."""
    return key if number == 1 else f"{key}~{number}"


def _missing_capability(data: Json) -> str:
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    named = [each for each in required if isinstance(each, str)] if isinstance(required, dict) else []
    return named[0][:64] if named else "more of MCP"


def _wants_tasks(data: Json) -> bool:
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    extensions = required.get("extensions") if isinstance(required, dict) else None
    return isinstance(extensions, dict) and TASKS_EXTENSION in extensions


def _answers_later(link: ClientLink) -> bool:
    """Whether a client may answer a question of this call with a later request."""
    return not getattr(_client_link(link), "waits_for_answers", False) and bool(client_features(link))


def _client_link(link: ClientLink) -> object:
    """The link to the client itself."""
    return getattr(link, "link", link)


def _remaining_seconds(deadline: PausableDeadline) -> float | None:
    """Seconds that are left; None without a deadline."""
    return deadline.remaining if isinstance(deadline, Deadline) else None
