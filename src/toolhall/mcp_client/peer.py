"""What sessions of every transport share: MessageRouter, and StreamPeer for transports with one stream each way.

Theory of operation
-------------------
`MessageRouter` numbers requests and decides what a message of the server is about. A response belongs to the request
with its id, progress to the request whose token it names (tokens are the request ids). What comes on a request's own
stream, over HTTP, belongs to that request. On a stream that all share, nothing says to which request a question or a
log message belongs: these go to the QuestionHandler and the SessionEvents of the session, whose owner knows what runs.

A question runs in a task of its own, so that it never delays the reader; there are few at a time, and the rest is
dropped. It ends with the request on whose stream it came, with the session, or when the server takes it back. In
2026-07-28 servers do not ask like this, and their requests are ignored.

`StreamPeer` adds what pipes and the old HTTP+SSE transport need: a future for each request, and a cancellation message
for one that is given up. Its owner passes on what comes in (`receive`), writes what goes out (`send`), and says when
the stream has ended (`fail`).
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.dialects.mcp.client_messages import (
    IncomingMessage,
    ListChanged,
    ProgressNotification,
    QuestionCancelled,
    ResourceUpdated,
    read_error,
    read_incoming,
    read_incoming_batch,
    read_notification,
    read_params,
)
from toolhall.dialects.mcp.client_questions import QUESTION_METHODS
from toolhall.dialects.mcp.client_requests import (
    MetaWriter,
    write_answer,
    write_cancellation,
    write_notification,
    write_refusal,
    write_request,
)
from toolhall.dialects.mcp.protocol import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RequestId, Revision
from toolhall.mcp_client.session import McpRequest, NotSent, RequestHooks, RequestLost, RpcError, SessionEvents
from toolhall.mcp_client.targets import ClientProfile, QuestionHandler
from toolhall.model.errors import Malformed, ToolhallError, Unsupported
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import LogEvent

MAX_PENDING = 1_000  # requests of one session
MAX_QUESTIONS = 16  # that are open at a time
MAX_CANCELLATIONS = 100  # that wait for a server which does not read
MAX_BAD_MESSAGES = 100  # in a row, on a stream that all share
CANCELLED = "the caller does not wait any more"
Send: TypeAlias = Callable[[bytes], Awaitable[None]]  # raises a SessionError
_log = logging.getLogger("toolhall.upstreams")


class PendingRequest:
    """A request that was made; `answer` is there if somebody else reads the stream of its response."""

    __slots__ = ("answer", "body", "hooks", "id", "questions")

    def __init__(self, id: int, body: bytes, hooks: RequestHooks | None) -> None:  # noqa: A002 - JSON-RPC's name
        self.id = id
        self.body = body
        self.hooks = hooks
        self.answer: asyncio.Future[IncomingMessage] | None = None
        self.questions: set[RequestId] | None = None  # that came on its stream

    def is_answered_by(self, message: IncomingMessage) -> bool:
        """Whether a message on its own stream is its response; an error that names no request is about this one."""
        return message.is_response and (message.id == self.id or (message.request_id is None and message.has_error))


def result_of(message: IncomingMessage) -> msgspec.Raw:
    """The result of a response; raises RpcError, or RequestLost if it has neither a result nor an error."""
    if message.has_error:
        error = read_error(message)
        raise RpcError(error.code, error.message, error.data)
    if not message.result:
        raise RequestLost("the server answered with neither a result nor an error")
    return message.result


class MessageRouter:
    """The requests of one session, and the way of messages to whom they are about; `send` writes to the server."""

    def __init__(
        self, profile: ClientProfile, events: SessionEvents, questions: QuestionHandler | None, send: Send
    ) -> None:
        self.profile = profile
        self.events = events
        self.pending: dict[int, PendingRequest] = {}
        self._ask = questions
        self._send = send
        self._last_id = 0
        self._tasks = BackgroundTasks()
        self._questions: dict[RequestId, asyncio.Task[None]] = {}
        self._has_dropped = False  # a question
        self.revision: Revision
        self._meta: MetaWriter

    def speak(self, revision: Revision) -> None:
        """Write requests of this revision from now on."""
        profile = self.profile
        self.revision = revision
        self._meta = MetaWriter(revision, profile.client_info, profile.features, profile.log_level)

    def begin(self, request: McpRequest, hooks: RequestHooks | None) -> PendingRequest:
        """Number and encode a request; raises NotSent if too many run. Every one must `end`."""
        if len(self.pending) >= MAX_PENDING:
            raise NotSent(f"{MAX_PENDING} requests run in this session already")
        self._last_id = number = self._last_id + 1
        params, extra = request.params, request.meta
        if "_meta" in params:
            params = dict(params)
            stated = params.pop("_meta")
            extra = {**stated, **extra} if isinstance(stated, dict) else extra
        meta = self._meta.write(extra, request.features, number if request.wants_events else None)
        body = write_request(number, request.method, params, request.encoded_arguments, meta)
        pending = self.pending[number] = PendingRequest(number, body, hooks)
        return pending

    def end(self, pending: PendingRequest) -> None:
        """Forget a request, and the questions that came on its stream."""
        self.pending.pop(pending.id, None)
        if pending.questions is not None:
            for question in pending.questions:
                self._cancel_question(question)

    def read(self, body: bytes) -> list[IncomingMessage]:
        """The messages of a text; raises Malformed."""
        return read_incoming_batch(body) if self.revision.batches else [read_incoming(body)]

    def route(self, message: IncomingMessage, own: PendingRequest | None) -> None:
        """Pass a message to whom it is about; `own` is the request on whose stream it came."""
        if message.is_response:
            request_id = message.request_id
            pending = self.pending.get(request_id) if isinstance(request_id, int) else None
            if pending is not None and pending.answer is not None and not pending.answer.done():
                pending.answer.set_result(message)
        elif message.is_request:
            self._take_request(message, own)
        else:
            with contextlib.suppress(RecursionError):  # it is nested too deeply to be passed on
                self._take_notification(message, own)

    def close(self) -> None:
        """Cancel all questions."""
        self._tasks.cancel()

    # --- private ---

    def _take_notification(self, message: IncomingMessage, own: PendingRequest | None) -> None:
        match read_notification(message):
            case ProgressNotification(token, event):
                pending = self.pending.get(token) if isinstance(token, int) else None
                if pending is not None and pending.hooks is not None:
                    pending.hooks.on_progress(event)
            case LogEvent() as event:
                if own is not None and own.hooks is not None:
                    own.hooks.on_log(event)
                else:
                    self.events.on_log(event)
            case ListChanged(kind):
                self.events.on_list_changed(kind)
            case ResourceUpdated(uri):
                self.events.on_resource_updated(uri)
            case QuestionCancelled(question):
                self._cancel_question(question)
            case _:
                return

    def _take_request(self, message: IncomingMessage, own: PendingRequest | None) -> None:
        request_id = message.request_id
        if request_id is None or self.revision.stateless:
            return
        if request_id in self._questions:
            return
        if len(self._tasks) >= MAX_QUESTIONS:
            if not self._has_dropped:  # said once, or a server could fill the log
                _log.warning("a server asks more than %d questions at a time; the others are dropped", MAX_QUESTIONS)
            self._has_dropped = True
            return
        if own is not None:
            own.questions = own.questions or set()
            own.questions.add(request_id)
        task = self._tasks.start(self._answer(request_id, message, own))
        self._questions[request_id] = task
        task.add_done_callback(lambda _: self._questions.pop(request_id, None))

    def _cancel_question(self, question: RequestId) -> None:
        task = self._questions.get(question)
        if task is not None:
            task.cancel()

    async def _answer(self, request_id: RequestId, message: IncomingMessage, own: PendingRequest | None) -> None:
        """Answer a request of the server; if that cannot be sent, the server finds out by itself."""
        try:
            body = write_answer(request_id, await self._result_for(message, own))
        except Unsupported as error:
            body = write_refusal(request_id, METHOD_NOT_FOUND, error.message)
        except Malformed as error:
            body = write_refusal(request_id, INVALID_PARAMS, error.message)
        except ToolhallError as error:
            body = write_refusal(request_id, INTERNAL_ERROR, error.message)
        except RecursionError:
            body = write_refusal(request_id, INVALID_PARAMS, "the question is nested too deeply")
        try:
            await self._send(body)
        except (NotSent, RequestLost) as lost:
            _log.info("an answer to a server's question was not delivered: %s", lost.reason)

    async def _result_for(self, message: IncomingMessage, own: PendingRequest | None) -> JsonObject:
        method = message.method
        if method == "ping":
            return {}
        if not isinstance(method, str) or method not in QUESTION_METHODS:
            raise Unsupported(str(method)[:64])
        kind = method.partition("/")[0]
        if not any(each.startswith(kind) for each in self.profile.features):  # roots are told without asking anybody
            raise Unsupported(method)
        params = read_params(message)
        if own is not None and own.hooks is not None:
            return await own.hooks.on_question(method, params)
        if self._ask is None:
            raise Unsupported(method)
        return await self._ask(method, params)


class StreamPeer(MessageRouter):
    """The requests of a session whose messages all come on one stream."""

    def __init__(
        self, profile: ClientProfile, events: SessionEvents, questions: QuestionHandler | None, send: Send
    ) -> None:
        super().__init__(profile, events, questions, send)
        self._bad_messages = 0
        self._cancellations = BackgroundTasks()
        self.failure: str | None = None  # why nothing can be sent any more

    async def request(self, request: McpRequest, hooks: RequestHooks | None = None) -> msgspec.Raw:
        """Send a request and return its result; see McpSession."""
        if self.failure is not None:
            raise NotSent(self.failure)
        pending = self.begin(request, hooks)
        pending.answer = asyncio.get_running_loop().create_future()
        try:
            await self._send(pending.body)
            return result_of(await pending.answer)
        except asyncio.CancelledError:
            # MCP: `initialize` is never cancelled.
            if request.method != "initialize" and len(self._cancellations) < MAX_CANCELLATIONS:
                self._cancellations.start(self._cancel(pending.id))
            raise
        finally:
            self.end(pending)

    async def notify(self, method: str, params: Mapping[str, Json]) -> None:
        """Send a notification; see McpSession."""
        if self.failure is not None:
            raise NotSent(self.failure)
        await self._send(write_notification(method, params))

    def receive(self, body: bytes) -> bool:
        """Take a message, or a batch; False if it is none, which is ignored.

        Raises Malformed after MAX_BAD_MESSAGES in a row.
        """
        try:
            messages = self.read(body)
        except Malformed:
            self._bad_messages += 1
            if self._bad_messages >= MAX_BAD_MESSAGES:
                raise
            return False
        self._bad_messages = 0
        for message in messages:
            self.route(message, None)
        return True

    def close(self) -> None:
        """Cancel all questions, and what was still to be said of requests that were given up."""
        super().close()
        self._cancellations.cancel()

    def fail(self, reason: str) -> None:
        """Nothing comes any more: every request that waits is lost."""
        if self.failure is not None:
            return
        self.failure = reason
        self.close()
        for pending in [*self.pending.values()]:
            if pending.answer is not None and not pending.answer.done():
                pending.answer.set_exception(RequestLost(reason))

    async def _cancel(self, request_id: int) -> None:
        """A late answer is dropped, because its request is forgotten."""
        try:
            await self._send(write_cancellation(request_id, CANCELLED))
        except (NotSent, RequestLost) as lost:
            _log.info("a cancellation was not delivered: %s", lost.reason)
