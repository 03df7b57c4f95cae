"""`McpSessions`: HTTP sessions of the stateful revisions, their streams and in-flight requests, and their expiry.

A session id alone proves nothing: a session is found only for the account that opened it. Idle sessions expire
after an hour; the longest idle one is evicted when there are too many.
"""

import asyncio
import logging
import re
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

import msgspec

from toolhall.dialects.mcp.protocol import RATE_LIMITED, JsonRpcNotification, JsonRpcRequest, McpRefusal, RequestId
from toolhall.http.sse import EventStream
from toolhall.mcp.stateful import McpSession
from toolhall.model.caller import LOCAL, Caller

_log = logging.getLogger("toolhall.mcp")
MAX_SESSIONS = 10_000
MAX_PER_CALLER = 100  # not of the local caller, who is every program of this machine
MAX_STREAMS = 16
MAX_BUFFERED_BYTES = 1024 * 1024  # of a session's older streams together
IDLE_SECONDS = 3_600.0
_EVENT_NUMBER = re.compile(r"[0-9]{1,9}")  # an id that we never gave may hold any text, also one that int() cannot take


class InflightRequests:
    """Each request runs in a task of its own."""

    def __init__(self) -> None:
        self._tasks: dict[RequestId, asyncio.Task[None]] = {}
        self._all: set[asyncio.Task[None]] = set()  # also those whose id a later request took

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._tasks

    def __len__(self) -> int:
        return len(self._all)

    def start(self, request_id: RequestId, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it; of two with the same id, a cancellation reaches the later."""
        task = self._tasks[request_id] = asyncio.create_task(work)
        self._all.add(task)
        task.add_done_callback(lambda done: self._forget(request_id, done))
        return task

    def cancel(self, notification: JsonRpcNotification) -> None:
        """`notifications/cancelled`: one that names nothing that runs comes too late, or never mattered."""
        named = notification.params.get("requestId")
        if not isinstance(named, str | int) or isinstance(named, bool):  # to Python, true is the request number 1
            return
        task = self._tasks.get(named)
        if task:
            _log.info("request %r was cancelled by its client: %.200s", named, notification.params.get("reason"))
            task.cancel()

    async def drain(self, seconds: float) -> None:
        """Give what runs a moment to end, then end it."""
        if self._all:
            await asyncio.wait(self._all, timeout=seconds)
        tasks = self.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel everything that runs."""
        tasks = list(self._all)
        for task in tasks:
            task.cancel()
        return tasks

    def _forget(self, request_id: RequestId, done: asyncio.Task[None]) -> None:
        self._all.discard(done)
        if self._tasks.get(request_id) is done:
            del self._tasks[request_id]


class ResumableRequest(msgspec.Struct, eq=False):
    """A request in a session and the stream that answers it, kept so that its client can come back for missed events.

    `standing` is what the policy had decided for the caller when its events were last found to be for that caller.
    """

    request: JsonRpcRequest
    size: int
    policy_key: Hashable
    stream: EventStream


class HttpSession:
    """A session, its running requests, its standalone stream (opened by GET), and the streams of its calls."""

    def __init__(self, session: McpSession, now: float) -> None:
        self.id = secrets.token_urlsafe(24)
        self.session = session
        self.last_seen = now
        self.standalone = EventStream()
        self.is_reading = False
        self.read_number = 0  # how far the standalone stream has been read
        self.inflight = InflightRequests()
        self._resumable: deque[ResumableRequest] = deque()
        self._unsubscribe = session.on_list_changed(self._tools_changed)

    def begin(self, request: JsonRpcRequest, size: int, policy_key: Hashable) -> ResumableRequest:
        """Keep the stream of one request; the oldest is forgotten when there are too many."""
        answered = ResumableRequest(request, size, policy_key, EventStream())
        while self._resumable and (len(self._resumable) >= MAX_STREAMS or self.buffered_bytes > MAX_BUFFERED_BYTES):
            self._resumable.popleft()
        self._resumable.append(answered)
        return answered

    @property
    def buffered_bytes(self) -> int:
        """What is held for a client that comes back."""
        return sum(answered.stream.buffered_bytes for answered in self._resumable)

    def discard(self, resumable: ResumableRequest) -> None:
        """Nobody can come back for a stream whose events had no ids."""
        if resumable in self._resumable:
            self._resumable.remove(resumable)

    def find_event(self, event_id: str) -> tuple[ResumableRequest, int] | None:
        """The request and the place in its stream that an event id points to; never another session's."""
        name, _, number = event_id.partition("-")
        if not _EVENT_NUMBER.fullmatch(number):
            return None
        return next(((each, int(number)) for each in self._resumable if each.stream.has_name(name)), None)

    @property
    def is_busy(self) -> bool:
        """Whether it is read from, or has calls running."""
        return self.is_reading or bool(self.inflight)

    def end_stream(self) -> None:
        """End its standalone stream; what runs may finish."""
        self.session.fail_questions()
        self.standalone.finish()

    def close(self) -> None:
        """End its calls and its standalone stream."""
        self._unsubscribe()
        self.inflight.close()
        self.standalone.finish()

    def _tools_changed(self) -> None:
        """Tell the client on its standalone stream; while it reads none, one notice waits for it."""
        if self.is_reading or self.standalone.last_number == self.read_number:
            self.standalone.send(self.session.encoder.tools_list_changed())


class McpSessions:
    """All open sessions; an idle one is forgotten after an hour, the idlest when there are too many."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._by_caller: dict[str, OrderedDict[str, HttpSession]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def count_of(self, caller: str) -> int:
        """How many a caller has, by its id."""
        return len(self._by_caller.get(caller, ()))

    def open(self, session: McpSession) -> HttpSession:
        """A new session with an id that cannot be guessed; McpRefusal for a caller with too many at work."""
        caller = session.caller.rate_limit_key
        if caller != LOCAL.id and self.count_of(caller) >= MAX_PER_CALLER:
            self._evict_one_of(caller)
        opened = HttpSession(session, self._clock())
        self._sessions[opened.id] = opened
        self._by_caller.setdefault(caller, OrderedDict())[opened.id] = opened
        self._evict_idle()
        return opened

    def find(self, session_id: str, caller: Caller) -> HttpSession | None:
        """The session, if it is this caller's: the id alone proves nothing."""
        found = self._sessions.get(session_id)
        if found is None or found.session.caller.rate_limit_key != caller.rate_limit_key:
            return None
        found.session.caller = caller  # proven anew, maybe by another credential that may do more or less
        found.last_seen = self._clock()
        self._sessions.move_to_end(session_id)
        self._by_caller[caller.rate_limit_key].move_to_end(session_id)
        return found

    def end(self, session: HttpSession) -> None:
        """Forget a session."""
        self._sessions.pop(session.id, None)
        caller = session.session.caller.rate_limit_key
        theirs = self._by_caller.get(caller, OrderedDict())
        theirs.pop(session.id, None)
        if not theirs:
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
        """The idlest of the caller's own makes room; who keeps them all at work is told so."""
        for session in self._by_caller[caller].values():
            if not session.is_busy:
                self.end(session)
                return
        words = f"{MAX_PER_CALLER} sessions of this caller are at work; end one with DELETE, or wait"
        raise McpRefusal(RATE_LIMITED, words, status=429)

    def _evict_idle(self) -> None:
        """The idlest is the first; one that is read from or has calls running is not idle, whatever the clock says."""
        now = self._clock()
        for session in list(self._sessions.values()):
            crowded = len(self._sessions) > MAX_SESSIONS
            if not crowded and now - session.last_seen <= IDLE_SECONDS:
                return
            if crowded or not session.is_busy:
                self.end(session)
