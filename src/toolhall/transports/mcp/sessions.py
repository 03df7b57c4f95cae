"""The sessions of the older revisions over HTTP: who owns each, its streams, and when it is forgotten."""

import re
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

import msgspec

from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.dialects.mcp.refusals import LIMITED, McpRefusal
from toolhall.model.caller import LOCAL, Caller
from toolhall.transports.mcp.legacy import Session
from toolhall.transports.mcp.running import Running
from toolhall.transports.stream import Stream

MAX_SESSIONS = 10_000
MAX_PER_CALLER = 100  # not of the local caller, who is every program of this machine
MAX_STREAMS = 16
MAX_KEPT_BYTES = 1024 * 1024  # of a session's older streams together
IDLE_SECONDS = 3_600.0
_PLACE = re.compile(r"[0-9]{1,9}")  # an id that we never gave may hold any text, also one that int() cannot take


class AnsweredRequest(msgspec.Struct, eq=False):
    """A request in a session and the stream that answers it, kept so that its client can come back for missed events.

    `standing` is what the policy had decided for the caller when its events were last found to be for that caller.
    """

    request: Request
    size: int
    standing: Hashable
    stream: Stream


class HttpSession:
    """A session, its running requests, its standalone stream (opened by GET), and the streams of its calls."""

    def __init__(self, session: Session, now: float) -> None:
        self.id = secrets.token_urlsafe(24)
        self.session = session
        self.seen = now
        self.standalone = Stream()
        self.reading = False
        self.heard = 0  # how far the standalone stream has been read
        self.running = Running()
        self._answered: deque[AnsweredRequest] = deque()
        self._stop_hearing = session.hear(self._tools_changed)

    def begin(self, request: Request, size: int, standing: Hashable) -> AnsweredRequest:
        """Keep the stream of one request; the oldest is forgotten when there are too many."""
        answered = AnsweredRequest(request, size, standing, Stream())
        while self._answered and (len(self._answered) >= MAX_STREAMS or self.kept_bytes > MAX_KEPT_BYTES):
            self._answered.popleft()
        self._answered.append(answered)
        return answered

    @property
    def kept_bytes(self) -> int:
        """What is held for a client that comes back."""
        return sum(answered.stream.kept_bytes for answered in self._answered)

    def forget(self, answered: AnsweredRequest) -> None:
        """Nobody can come back for a stream whose events had no ids."""
        if answered in self._answered:
            self._answered.remove(answered)

    def find_event(self, event_id: str) -> tuple[AnsweredRequest, int] | None:
        """The request and the place in its stream that an event id points to; never another session's."""
        name, _, number = event_id.partition("-")
        if not _PLACE.fullmatch(number):
            return None
        return next(((each, int(number)) for each in self._answered if each.stream.is_named(name)), None)

    @property
    def busy(self) -> bool:
        """Whether it is read from, or has calls running."""
        return self.reading or bool(self.running)

    def retire(self) -> None:
        """End its standalone stream; what runs may finish."""
        self.session.give_up()
        self.standalone.finish()

    def close(self) -> None:
        """End its calls and its standalone stream."""
        self._stop_hearing()
        self.running.close()
        self.standalone.finish()

    def _tools_changed(self) -> None:
        """Tell the client on its standalone stream; while it reads none, one notice waits for it."""
        if self.reading or self.standalone.last == self.heard:
            self.standalone.send(self.session.writer.tools_changed())


class Sessions:
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

    def open(self, session: Session) -> HttpSession:
        """A new session with an id that cannot be guessed; McpRefusal for a caller with too many at work."""
        caller = session.caller.account
        if caller != LOCAL.id and self.count_of(caller) >= MAX_PER_CALLER:
            self._forget_one_of(caller)
        opened = HttpSession(session, self._clock())
        self._sessions[opened.id] = opened
        self._by_caller.setdefault(caller, OrderedDict())[opened.id] = opened
        self._forget_idle()
        return opened

    def find(self, session_id: str, caller: Caller) -> HttpSession | None:
        """The session, if it is this caller's: the id alone proves nothing."""
        found = self._sessions.get(session_id)
        if found is None or found.session.caller.account != caller.account:
            return None
        found.session.caller = caller  # proven anew, maybe by another credential that may do more or less
        found.seen = self._clock()
        self._sessions.move_to_end(session_id)
        self._by_caller[caller.account].move_to_end(session_id)
        return found

    def end(self, session: HttpSession) -> None:
        """Forget a session."""
        self._sessions.pop(session.id, None)
        caller = session.session.caller.account
        theirs = self._by_caller.get(caller, OrderedDict())
        theirs.pop(session.id, None)
        if not theirs:
            self._by_caller.pop(caller, None)
        session.close()

    def retire(self) -> None:
        """End all standalone streams."""
        for session in self._sessions.values():
            session.retire()

    def close(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            self.end(session)

    def _forget_one_of(self, caller: str) -> None:
        """The idlest of the caller's own makes room; who keeps them all at work is told so."""
        for session in self._by_caller[caller].values():
            if not session.busy:
                self.end(session)
                return
        words = f"{MAX_PER_CALLER} sessions of this caller are at work; end one with DELETE, or wait"
        raise McpRefusal(LIMITED, words, status=429)

    def _forget_idle(self) -> None:
        """The idlest is the first; one that is read from or has calls running is not idle, whatever the clock says."""
        now = self._clock()
        for session in list(self._sessions.values()):
            crowded = len(self._sessions) > MAX_SESSIONS
            if not crowded and now - session.seen <= IDLE_SECONDS:
                return
            if crowded or not session.busy:
                self.end(session)
