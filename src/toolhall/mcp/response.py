"""What a request sends back to its client: notifications, questions, and the JSON or SSE response.

`StatelessLink` and `StatefulLink` connect a running tool with its client. `HttpResponseLink` replies with plain JSON
until the first event, then with SSE, and cancels the call on disconnect. `as_url_elicitations` turns missing
approvals and accounts into URLs that the client opens.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Protocol

from toolhall.dialects.mcp.input_requests import read_input_response
from toolhall.dialects.mcp.requests import RequestMeta
from toolhall.dialects.mcp.responses import McpEncoder
from toolhall.http.call_context import DisconnectWatch
from toolhall.http.request import HttpRequest
from toolhall.http.sse import EventStream, start_events, write_events
from toolhall.model.errors import NeedsRequirement, NeedsVerification, ToolFailed, ToolhallError, Unsupported
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import (
    LOG_LEVELS,
    Answer,
    Answered,
    CallEvent,
    InputRequired,
    InputRequiredSignal,
    LogEvent,
    ProgressEvent,
    Question,
    Visit,
    WireResponse,
    required_feature,
)
from toolhall.model.requirements import MissingRequirement

_NO_REPLIES: Mapping[str, Json] = {}
MAX_CARRIED_BYTES = 32_768  # of results of `ctx.once` that a client carries
APPROVAL_KEY = "dev.toolhall/approval"
ACCOUNT_KEY_PREFIX = "dev.toolhall/account/"


class MessageSink(Protocol):
    """Where the messages of one request go: a stream, a response, or stdio."""

    def send(self, message: bytes) -> None:
        """Send one message."""
        ...

    def disconnect_reader(self, retry_ms: int) -> None:
        """End the current connection of the reader, who may resume after this time."""
        ...


class ClientNotifications(ABC):
    """Progress and log notifications, as far as the client asked for them."""

    _last_progress = float("-inf")

    def __init__(self, meta: RequestMeta, encoder: McpEncoder) -> None:
        self._meta = meta
        self._encoder = encoder

    @abstractmethod
    def send(self, message: bytes) -> None:
        """Send one message to the client."""

    def emit(self, event: CallEvent) -> None:
        """Send an event if the client gave a progress token or set a log level for it."""
        match event:
            case ProgressEvent() if self._meta.progress_token is not None:
                self._progress(event)
            case LogEvent() if self._meta.log_level is not None:
                if LOG_LEVELS.index(event.level) >= LOG_LEVELS.index(self._meta.log_level):
                    logger = {"logger": event.logger} if event.logger else {}
                    params = {"level": event.level, "data": event.data, **logger}
                    self.send(self._encoder.notification("notifications/message", params))
            case _:
                pass  # the client did not ask for it

    @property
    def hears_events(self) -> bool:
        """Whether the client asked for progress or log messages."""
        return self._meta.progress_token is not None or self._meta.log_level is not None

    @property
    def hops(self) -> tuple[str, ...]:
        """The ids of the halls that the request went through before this one."""
        return self._meta.hops

    @property
    def features(self) -> tuple[str, ...]:
        """Those of CLIENT_FEATURES that the client declared."""
        return self._meta.features

    def can(self, feature: str) -> bool:
        """Whether the client declared this capability."""
        return self._meta.supports(feature)

    def require_features(self, questions: Mapping[str, Question]) -> None:
        """Raise Unsupported for a question that the client did not declare it can answer (an MCP rule)."""
        for question in questions.values():
            feature = required_feature(question)
            if not self._meta.supports(feature) or (
                feature == "elicitation.url" and not self._meta.revision.url_elicitation
            ):
                raise Unsupported(feature)

    def _progress(self, progress: ProgressEvent) -> None:
        if progress.done <= self._last_progress:
            return  # MCP: progress MUST increase with each notification
        self._last_progress = progress.done
        values = {"progress": progress.done, "total": progress.total, "message": progress.message}
        params: JsonObject = {key: value for key, value in values.items() if value is not None}
        params["progressToken"] = self._meta.progress_token
        self.send(self._encoder.notification("notifications/progress", params))


class StatelessLink(ClientNotifications):
    """The link of a stateless call: questions are answered by a later request, which runs the tool again."""

    replies: Mapping[str, Json] = {}  # of this request and the rounds before it
    results: Mapping[str, bytes] = {}  # of `ctx.once`, in this request and the rounds before it
    task_id: str | None = None  # in line
    refusal: ToolhallError | None = None  # the error of the last question

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Return the replies to these questions; InputRequiredSignal if any is missing."""
        try:
            self.require_features(questions)
            missing = {key: question for key, question in questions.items() if key not in self.replies}
            if missing:
                raise InputRequiredSignal(missing)
            return {key: read_input_response(question, self.replies[key], key) for key, question in questions.items()}
        except ToolhallError as error:
            self.refusal = error
            raise

    @property
    def memory(self) -> "StatelessLink":
        """The memory of the call, which travels through the client in the sealed state."""
        return self

    async def recall(self, key: str) -> bytes | None:
        """Return what an earlier round remembered."""
        return self.results.get(key)

    async def remember(self, key: str, value: bytes) -> None:
        """Remember a result for the rounds that follow; raises ToolFailed if all are too large for a state."""
        results = {**self.results, key: value}
        if sum(len(each) + len(value) for each, value in results.items()) > MAX_CARRIED_BYTES:
            raise ToolFailed(
                f"results of ctx.once may have {MAX_CARRIED_BYTES} bytes together in line; a call as a task keeps more"
            )
        self.results = results

    async def detach(self, retry_ms: int) -> None:
        """Do nothing: a stateless client cannot resume."""


class StatelessSinkLink(StatelessLink):
    """The link of a stateless call whose messages go to a sink, such as standard output."""

    def __init__(self, sink: MessageSink, meta: RequestMeta, encoder: McpEncoder) -> None:
        super().__init__(meta, encoder)
        self._sink = sink

    def send(self, message: bytes) -> None:
        """Send one message."""
        self._sink.send(message)


class StatefulLink(ClientNotifications):
    """The link of a call in a session: a question is a request on the call's stream, and the tool waits for it."""

    waits_for_answers = True

    def __init__(
        self,
        sink: MessageSink,
        meta: RequestMeta,
        encoder: McpEncoder,
        ask_client: Callable[[MessageSink, Question], Awaitable[Json]],
        client_session: Hashable = None,
    ) -> None:
        """`client_session` stands for the client's session, for as long as that lasts."""
        super().__init__(meta, encoder)
        self.client_session = client_session
        self._sink = sink
        self._ask_client = ask_client

    def send(self, message: bytes) -> None:
        """Send one message on the stream of the call."""
        self._sink.send(message)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Ask one question after the other, because a person can read only one at a time."""
        self.require_features(questions)
        return {
            key: read_input_response(question, await self._ask_client(self._sink, question), key)
            for key, question in questions.items()
        }

    async def detach(self, retry_ms: int) -> None:
        """Close the stream if the client can resume it; the tool goes on."""
        if self._meta.revision.priming_event:
            self._sink.disconnect_reader(retry_ms)


class HttpResponseLink(StatelessLink):
    """The link of a stateless call over HTTP, which also writes the response.

    It costs nothing while the call neither suspends nor sends events. As class attributes, the initial values do not
    either.
    """

    _stream: EventStream | None = None
    _pump: asyncio.Task[None] | None = None  # writes the stream while the call is suspended
    watch: DisconnectWatch | None = None  # once the call was suspended; then `close` must follow
    streaming = False  # whether an event was sent, so that the response is one too

    def __init__(self, request: HttpRequest, meta: RequestMeta, encoder: McpEncoder) -> None:
        self._request = request
        self._meta = meta
        self._encoder = encoder

    def send(self, message: bytes) -> None:
        """Send an event before the response, if the client accepts SSE."""
        if self._stream is None:
            accepted = self._request.headers.get(b"accept", b"*/*")
            if b"text/event-stream" not in accepted and b"*/*" not in accepted:
                return
            self._stream = EventStream()
            self.streaming = True
            if self.watch is not None:
                self._pump = asyncio.create_task(self._write(self._stream))
        self._stream.send(message)

    def is_cancelled_by_disconnect(self) -> bool:
        """Whether the disconnect alone cancelled the call (MCP 2026-07-28: closing the stream cancels)."""
        return self.watch is not None and self.watch.is_sole_cause()

    def watch_disconnect(self) -> None:
        """The call is suspended: watch for a disconnect, and write events meanwhile."""
        if self.watch is not None:
            return
        self.watch = DisconnectWatch(self._request)
        self.watch.start()
        if self._stream is not None:
            self._pump = asyncio.create_task(self._write(self._stream))

    async def finish(self, wire: WireResponse) -> None:
        """Send the final response as the last event."""
        if self._stream is not None:
            self._stream.finish(wire.body)
            await (self._pump or self._write(self._stream))

    async def close(self) -> None:
        """Stop watching and writing."""
        if self.watch is not None:
            await self.watch.stop()
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)

    async def _write(self, stream: EventStream) -> None:
        await start_events(self._request)
        await write_events(self._request, stream)


def as_url_elicitations(answer: Answer, meta: RequestMeta, replies: Mapping[str, Json] = _NO_REPLIES) -> Answer:
    """Turn missing approvals and accounts into URLs to open before the call is repeated.

    The client's reply to them counts for nothing; only what happened on the page does. A client that cannot open URLs,
    or whose user declined, gets the error with the links instead.
    """
    visits = _visits(answer)
    if not visits or not meta.revision.url_elicitation or not meta.supports("elicitation.url"):
        return answer
    return answer if any(map(_is_declined, map(replies.get, visits))) else InputRequired(visits)


def _visits(answer: Answer) -> dict[str, Visit]:
    match answer:
        case NeedsVerification(message=message, url=str(url), id=approval):
            return {APPROVAL_KEY: Visit(message, url, approval or "")}
        case NeedsRequirement(missing=missing):
            visits = dict(map(_account_visit, missing))
            # If something else is missing too, no page would let the call run.
            return {key: visit for key, visit in visits.items() if visit is not None} if all(visits.values()) else {}
        case _:
            return {}


def _account_visit(missing: MissingRequirement) -> tuple[str, Visit | None]:
    """Return the key and URL of the page that links one account."""
    if missing.account is None or missing.url is None:
        return "", None
    scopes = f" for {', '.join(missing.account.scopes)}" if missing.account.scopes else ""
    message = f"link your account at {missing.account.provider}{scopes}, then repeat the call"
    return f"{ACCOUNT_KEY_PREFIX}{missing.account.provider}", Visit(message, missing.url, missing.id or "")


def _is_declined(reply: Json) -> bool:
    match reply:
        case {"action": "decline" | "cancel"}:
            return True
        case _:
            return False
