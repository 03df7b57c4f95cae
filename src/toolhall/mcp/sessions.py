"""`McpSessions`: HTTP sessions of the stateful revisions, their streams and in-flight requests, and their expiry.

A session id alone proves nothing: a session is found only for the account that opened it. When a
session is opened, those that were idle for an hour end, and beyond the limit the longest idle one.
"""

import asyncio
import logging
import re
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.dialects.mcp.protocol import (
    RATE_LIMITED,
    JsonRpcNotification,
    JsonRpcRequest,
    McpRefusal,
    PlainCall,
    RequestId,
)
from toolhall.http.sse import EventStream
from toolhall.mcp.stateful import StatefulSession
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.messages import WireResponse

_log = logging.getLogger("toolhall.mcp")
MAX_SESSIONS = 10_000
MAX_PER_CALLER = 100  # except the local caller, which is every program of this machine
MAX_STREAMS = 16
MAX_BUFFERED_BYTES = 1024 * 1024  # of a session's older streams together
IDLE_SECONDS = 3_600.0
MAX_WAITING = 1_000  # notifications for a stream that is not read
_EVENT_NUMBER = re.compile(r"[0-9]{1,9}")  # a forged id may hold any text, also one that int() rejects


class InflightRequests:
    """Running requests of one client, each in its own task, by request id."""

    def __init__(self) -> None:
        self._tasks: dict[RequestId, asyncio.Task[None]] = {}
        self._all = BackgroundTasks()  # also those whose id a later request reused

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._tasks

    def __len__(self) -> int:
        return len(self._all)

    def add(self, request_id: RequestId, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """Hold the task of a request; of two with the same id, a cancellation reaches the later one."""
        self._tasks[request_id] = self._all.add(task)
        task.add_done_callback(lambda done: self._forget(request_id, done))
        return task

    def cancel(self, notification: JsonRpcNotification) -> None:
        """Handle `notifications/cancelled`; an id that is not running is ignored."""
        request_id = notification.params.get("requestId")
        if not isinstance(request_id, str | int) or isinstance(request_id, bool):  # True == 1 in Python
            return
        task = self._tasks.get(request_id)
        if task:
            _log.info("request %r was cancelled by its client: %.200s", request_id, notification.params.get("reason"))
            task.cancel()

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` for running requests, then cancel them."""
        await self._all.shutdown(seconds)

    def close(self) -> None:
        """Cancel everything that runs."""
        self._all.cancel()

    def _forget(self, request_id: RequestId, done: asyncio.Task[None]) -> None:
        if self._tasks.get(request_id) is done:
            del self._tasks[request_id]


class ResumableRequest(msgspec.Struct, eq=False):
    """A request of a session with the stream of its messages, kept so that the client can resume.

    `policy_key` stands for the policy's decisions when the caller was last found to be allowed to read the stream.
    """

    request: JsonRpcRequest
    size: int
    policy_key: Hashable
    stream: EventStream


class HttpSession:
    """A session with its running requests, its standalone stream (opened by GET), and the streams of its calls."""

    def __init__(self, session: StatefulSession, now: float) -> None:
        self.id = secrets.token_urlsafe(24)
        self.session = session
        self.last_seen = now
        self.standalone = EventStream()
        self.is_reading = False
        self.read_number = 0  # of the last event that was read
        self.inflight = InflightRequests()
        self._resumable: deque[ResumableRequest] = deque()
        self._waiting: set[bytes] = set()  # notifications that nobody has read yet
        self._unsubscribe = session.on_change(self._notify)

    def begin(self, request: JsonRpcRequest, size: int, policy_key: Hashable) -> ResumableRequest:
        """Keep a new stream for a request; the oldest are dropped when there are too many or they are too large."""
        resumable = ResumableRequest(request, size, policy_key, EventStream())
        while self._resumable and (len(self._resumable) >= MAX_STREAMS or self.buffered_bytes > MAX_BUFFERED_BYTES):
            self._resumable.popleft()
        self._resumable.append(resumable)
        return resumable

    @property
    def buffered_bytes(self) -> int:
        """The size of what is kept for resuming."""
        return sum(each.stream.buffered_bytes for each in self._resumable)

    def discard(self, resumable: ResumableRequest) -> None:
        """Drop a stream that was never sent with event ids, so that it cannot be resumed."""
        if resumable in self._resumable:
            self._resumable.remove(resumable)

    def find_event(self, event_id: str) -> tuple[ResumableRequest, int] | None:
        """Return the request and number of an event id of this session; None for any other id."""
        name, _, number = event_id.partition("-")
        if not _EVENT_NUMBER.fullmatch(number):
            return None
        return next(((each, int(number)) for each in self._resumable if each.stream.has_name(name)), None)

    @property
    def is_busy(self) -> bool:
        """Whether its stream is being read, or calls are running."""
        return self.is_reading or bool(self.inflight)

    def end_stream(self) -> None:
        """End its standalone stream; running calls may finish."""
        self.session.fail_questions()
        self.standalone.finish()

    def close(self) -> None:
        """Cancel its calls and end its standalone stream."""
        self._unsubscribe()
        self.inflight.close()
        self.standalone.finish()

    def _notify(self, notification: bytes) -> None:
        """Notify the client on its standalone stream; while that is not read, equal notifications are kept once."""
        if self.is_reading or self.standalone.last_number == self.read_number:
            self._waiting.clear()
        if self.is_reading or (notification not in self._waiting and len(self._waiting) < MAX_WAITING):
            self._waiting.add(notification)
            self.standalone.send(notification)


class SessionResponse:
    """The response to one request of a session: a plain one, or a stream that the client can resume.

    It is the request's MessageSink. The stream is made with the first message before the response, or when the request
    has to wait: most requests are answered in their first step, and need none.
    """

    wire: WireResponse | None = None  # once the request is answered
    _resumable: ResumableRequest | None = None

    def __init__(self, session: HttpSession, request: JsonRpcRequest | PlainCall, size: int, caller: Caller) -> None:
        self.session = session
        self.request = request
        self._size = size
        self._caller = caller

    @property
    def has_stream(self) -> bool:
        """Whether there is a stream."""
        return self._resumable is not None

    @property
    def resumable(self) -> ResumableRequest:
        """The request with its stream, which is made now if there is none."""
        if self._resumable is None:
            request, session = self.request, self.session
            self._resumable = session.begin(
                request.to_request() if isinstance(request, PlainCall) else request,
                self._size,
                session.session.policy_key(self._caller),
            )
        return self._resumable

    def send(self, message: bytes) -> None:
        """Send a message before the response."""
        self.resumable.stream.send(message)

    def disconnect_reader(self, retry_ms: int) -> None:
        """End the current connection of the reader, who may resume after this time."""
        self.resumable.stream.disconnect_reader(retry_ms)

    async def finish_with(self, work: Awaitable[WireResponse]) -> None:
        """Keep the response once the work is done; it ends the stream, if there is one."""
        self.wire = await work
        if self._resumable is not None:
            self._resumable.stream.finish(self.wire.body)


class McpSessions:
    """All open sessions. Opening one ends those idle for an hour, and beyond the limit the longest idle one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._by_caller: dict[str, OrderedDict[str, HttpSession]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def count_of(self, caller: str) -> int:
        """Return the number of sessions of a caller key."""
        return len(self._by_caller.get(caller, ()))

    def open(self, session: StatefulSession) -> HttpSession:
        """Open a session with an unguessable id; McpRefusal if the caller has too many busy ones."""
        caller = session.caller.rate_limit_key
        if caller != LOCAL.id and self.count_of(caller) >= MAX_PER_CALLER:
            self._evict_one_of(caller)
        http_session = HttpSession(session, self._clock())
        self._sessions[http_session.id] = http_session
        self._by_caller.setdefault(caller, OrderedDict())[http_session.id] = http_session
        self._evict_idle()
        return http_session

    def find(self, session_id: str, caller: Caller) -> HttpSession | None:
        """Return the session if it is this caller's: the id alone proves nothing."""
        session = self._sessions.get(session_id)
        if session is None or session.session.caller.rate_limit_key != caller.rate_limit_key:
            return None
        session.session.caller = caller  # maybe with another credential, with other scopes
        session.last_seen = self._clock()
        self._sessions.move_to_end(session_id)
        self._by_caller[caller.rate_limit_key].move_to_end(session_id)
        return session

    def end(self, session: HttpSession) -> None:
        """Close and remove a session."""
        self._sessions.pop(session.id, None)
        caller = session.session.caller.rate_limit_key
        of_caller = self._by_caller.get(caller, OrderedDict())
        of_caller.pop(session.id, None)
        if not of_caller:
            self._by_caller.pop(caller, None)
        session.close()

    def end_streams(self) -> None:
        """End all standalone streams."""
        for session in self._sessions.values():
            session.end_stream()

    def close(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            self.end(session)

    def _evict_one_of(self, caller: str) -> None:
        """End the longest idle session of this caller; McpRefusal if all are busy."""
        for session in self._by_caller[caller].values():
            if not session.is_busy:
                self.end(session)
                return
        message = f"{MAX_PER_CALLER} sessions of this caller are busy; end one with DELETE, or wait"
        raise McpRefusal(RATE_LIMITED, message, status=429)

    def _evict_idle(self) -> None:
        """End sessions that are idle for too long; beyond the limit also the longest idle one, even a busy one."""
        now = self._clock()
        for session in list(self._sessions.values()):
            is_full = len(self._sessions) > MAX_SESSIONS
            if not is_full and now - session.last_seen <= IDLE_SECONDS:
                return
            if is_full or not session.is_busy:
                self.end(session)
