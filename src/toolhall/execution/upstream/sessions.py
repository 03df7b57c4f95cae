"""`SessionPool`: the sessions with one upstream, each of one owner by `share`; `PooledSession` routes what it hears.

Theory of operation
-------------------
A legacy server may keep state in a session, so a session belongs to somebody: to a caller, to one client of a caller,
or to the hall (`share`). The key also holds a digest of the secrets that a call was equipped with, because a server may
tie a session to the credential that opened it. A modern server over HTTP keeps nothing between requests: all callers
share one session, which is no more than a pool of connections, and each request carries its own credential. A child
process can keep state whatever it speaks, so its key is by `share` in both eras.

There are at most `max_sessions`. A session is opened once for all who wait for it, in a task that goes on if they give
up. If there are too many, the one that is idle for longest is ended; a session with a running call never is: who needs
another one waits until one becomes idle. Sessions end after ten idle minutes.

On a stream that belongs to no request nothing says which call a question or a log message is about. It goes to the one
call that runs in the session, or to the newest if all that run are of one caller and one client; otherwise the question
is refused, because it must never reach another caller.
"""

import asyncio
import contextvars
import hashlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.mcp_client.session import McpSession, NotAcceptable, NotSent, RequestHooks, RequestLost, RpcError
from toolhall.model.errors import ToolFailed, Unavailable
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import Call, ClientLink, LogEvent
from toolhall.model.requirements import ResolvedCredentials
from toolhall.model.text import clean_line
from toolhall.model.upstream import Share

IDLE_SECONDS = 600.0
GIVEN_UP_SECONDS = 60.0  # for which a server may still ask for a call that was cancelled
LOG_LINES_PER_SECOND = 20  # of one session
MAX_LOGGED = 500  # characters of a message
MAX_WAITING = 1_000  # callers that wait until a session becomes idle
_log = logging.getLogger("toolhall.upstreams")
ListKind: TypeAlias = Literal["tools", "resources", "prompts"]


class SessionKey(msgspec.Struct, frozen=True):
    """Whose session it is; `owner` is empty for one that all share, and None for the hall's own."""

    owner: tuple[Hashable, ...] | None = ()
    secrets: bytes = b""  # a digest


HALL_KEY = SessionKey(None)  # lists and probes
SHARED_KEY = SessionKey()


class CallSessionHooks(RequestHooks, Protocol):
    """The hooks of a call, and who made it."""

    @property
    def caller(self) -> tuple[Hashable, ...]:
        """Who made the call."""
        ...

    @property
    def owner(self) -> tuple[Hashable, ...]:
        """The caller, and its client where that is known."""
        ...


class PoolEvents(Protocol):
    """What the owner of a pool hears of all of its sessions."""

    def on_list_changed(self, kind: ListKind) -> None:
        """A list of the upstream has changed."""
        ...

    def on_resource_updated(self, uri: str) -> None:
        """A resource of the upstream has changed."""
        ...

    def on_opened(self, session: McpSession) -> bool:
        """A session was opened; True if all callers share it, because the server keeps nothing between requests."""
        ...

    def on_session_lost(self, reason: str) -> None:
        """A session has ended without being asked to."""
        ...


class PooledSession:
    """One session and the calls that run in it; hears what belongs to no request."""

    def __init__(
        self,
        name: str,
        key: SessionKey,
        events: PoolEvents,
        on_lost: "Callable[[PooledSession], None]",
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._events = events
        self._on_lost = on_lost
        self._clock = clock
        self._given_up: dict[tuple[Hashable, ...], float] = {}  # callers of calls that were, and until when it matters
        self._calls: list[CallSessionHooks] = []  # the newest last
        self.key = key
        self.users = 0  # calls, and others who use it now
        self.idle_since = 0.0
        self._told, self._told_at = 0, -1.0  # lines of the log in the second that began then
        self.loss_counted = False  # as a failure of the upstream
        self.session: McpSession

    def enter(self, call: CallSessionHooks) -> None:
        """A call runs in the session from now on."""
        self._calls.append(call)

    def leave(self, call: CallSessionHooks) -> None:
        """The call has ended."""
        self._calls.remove(call)

    def leave_unanswered(self, call: CallSessionHooks) -> None:
        """The call was given up, and the server may still ask for it."""
        self._given_up[call.caller] = self._clock() + GIVEN_UP_SECONDS

    def on_list_changed(self, kind: ListKind) -> None:
        """SessionEvents: tell the owner of the pool."""
        self._events.on_list_changed(kind)

    def on_resource_updated(self, uri: str) -> None:
        """SessionEvents: tell the owner of the pool."""
        self._events.on_resource_updated(uri)

    def on_log(self, event: LogEvent) -> None:
        """SessionEvents: a message that belongs to no request goes to the call that it must be about, or to the log."""
        call = self._certain_call()
        if call is not None:
            call.on_log(event)
        else:
            self._tell(logging.INFO, clean_line(_start_of(event.data), MAX_LOGGED))

    def on_closed(self, reason: str) -> None:
        """SessionEvents: the session has ended."""
        self._on_lost(self)
        self._events.on_session_lost(reason)

    async def answer_question(self, method: str, params: JsonObject) -> JsonObject:
        """Let the call that a question must be about answer it; raises ToolFailed if that is not certain."""
        call = self._certain_call()
        if call is None:
            self._tell(
                logging.WARNING,
                f"it asked a question that belongs to one of {len(self._calls)} running calls, and does not say to"
                ' which; it was refused: give the upstream share = "caller" or share = "session"',
            )
            raise ToolFailed("nobody can tell whose call this question belongs to")
        return await call.on_question(method, params)

    def _tell(self, level: int, text: str) -> None:
        """Log a line, a few a second: what a server sends must not fill the log."""
        now = self._clock()
        if now - self._told_at >= 1.0:
            self._told_at, self._told = now, 0
        self._told += 1
        if self._told <= LOG_LINES_PER_SECOND:
            _log.log(level, "upstream %s: %s", self._name, text)
        elif self._told == LOG_LINES_PER_SECOND + 1:
            _log.info("upstream %s says too much: lines are left out", self._name)

    def _certain_call(self) -> CallSessionHooks | None:
        calls = self._calls
        if not calls or any(each.owner != calls[0].owner for each in calls):
            return None
        if self._given_up:
            now, caller = self._clock(), calls[0].caller
            self._given_up = {each: until for each, until in self._given_up.items() if until > now}
            if any(each != caller for each in self._given_up):
                return None
        return calls[-1]


# Opens the session for a key; the PooledSession is its SessionEvents and answers its questions.
OpenPooled: TypeAlias = Callable[[PooledSession], Awaitable[McpSession]]


class SessionPool:
    """The sessions with one upstream; `acquire` one for each request, and `release` it."""

    def __init__(self, name: str, max_sessions: int, events: PoolEvents, clock: Callable[[], float]) -> None:
        self._name = name
        self._max = max_sessions
        self._events = events
        self._clock = clock
        self._sessions: dict[SessionKey, PooledSession] = {}
        self._opening: dict[SessionKey, asyncio.Task[PooledSession]] = {}
        self._leaving: set[PooledSession] = set()  # expired or retired, with calls that still run
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ending = BackgroundTasks()
        self._retired = False
        self._empty: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._sessions) + len(self._leaving)

    @property
    def sessions(self) -> tuple[PooledSession, ...]:
        """The sessions that calls may take."""
        return tuple(self._sessions.values())

    def find(self, key: SessionKey) -> PooledSession | None:
        """Take the open session of this key, if there is one."""
        pooled = self._sessions.get(key)
        if pooled is None or not pooled.session.is_open:
            return None
        pooled.users += 1
        return pooled

    async def acquire(self, key: SessionKey, open_session: OpenPooled) -> PooledSession:
        """Take the session of this key, opened if there is none; raises NotSent for one that was lost meanwhile."""
        pooled = self.find(key)
        while pooled is None:
            if self._retired:
                raise NotSent("the settings of the upstream have changed")
            task = self._opening.get(key)
            if task is None:
                if (stale := self._sessions.get(key)) is not None:
                    self.expire(stale)
                await self._make_room(key)
                if key in self._opening or key in self._sessions:
                    pooled = self.find(key)
                    continue
                # In a context of its own: the session outlives the call that needs it first, and its secrets.
                opening = self._open(key, open_session)
                task = asyncio.get_running_loop().create_task(opening, context=contextvars.Context())
                self._opening[key] = task
                task.add_done_callback(lambda done: self._on_opened(key, done))
            await asyncio.wait({task})
            pooled = task.result()  # raises what opening raised
            pooled.users += 1
        return pooled

    def release(self, pooled: PooledSession) -> None:
        """Give a session back."""
        pooled.users -= 1
        if not pooled.users:
            pooled.idle_since = self._clock()
            if pooled in self._leaving:
                self._end(pooled)
            self._wake_one()

    def expire(self, pooled: PooledSession) -> None:
        """Use the session for nothing new; it ends with its last call."""
        if self._sessions.get(pooled.key) is pooled:
            del self._sessions[pooled.key]
            if pooled.users:
                self._leaving.add(pooled)
            else:
                self._end(pooled)
            self._wake_one()

    def end_idle(self, keep: SessionKey | None = None) -> None:
        """End the sessions that are idle for ten minutes, but not that of the key `keep`."""
        end_before = self._clock() - IDLE_SECONDS
        for pooled in list(self._sessions.values()):
            if not pooled.users and pooled.idle_since <= end_before and pooled.key != keep:
                self.expire(pooled)

    def retire(self) -> None:
        """Open no more sessions, and end each with its last call."""
        self._retired = True
        for pooled in list(self._sessions.values()):
            self.expire(pooled)
        while self._waiting:
            self._wake_one()

    async def wait_ended(self) -> None:
        """Wait until every session of a retired pool has ended with its last call."""
        while self._opening or self._leaving or self._ending:
            if self._leaving:
                self._empty = asyncio.get_running_loop().create_future()
                await self._empty
            await asyncio.gather(*self._opening.values(), return_exceptions=True)
            await self._ending.wait()

    async def close(self) -> None:
        """End every session, whatever runs in it."""
        self.retire()
        for task in list(self._opening.values()):
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        self.retire()
        for pooled in list(self._leaving):
            self._end(pooled)
        await self._ending.wait()

    # --- private ---

    async def _open(self, key: SessionKey, open_session: OpenPooled) -> PooledSession:
        pooled = PooledSession(self._name, key, self._events, self._on_lost, self._clock)
        try:
            pooled.session = await open_session(pooled)
        except RequestLost as lost:  # the handshake was lost: no call was sent
            raise NotSent(lost.reason) from None
        except RpcError as refused:
            raise NotAcceptable(f"the handshake was refused: {refused.reason}") from None
        pooled.idle_since = self._clock()
        if self._events.on_opened(pooled.session):
            pooled.key = SHARED_KEY
        known = self._sessions.get(pooled.key)
        if known is not None and known.session.is_open:  # another caller was first to open what all share
            self._end(pooled)
            return known
        self._sessions[pooled.key] = pooled
        if self._retired:
            self.expire(pooled)
        return pooled

    def _on_opened(self, key: SessionKey, done: "asyncio.Task[PooledSession]") -> None:
        self._opening.pop(key, None)
        if done.cancelled() or done.exception() is not None:  # whoever waits raises it
            self._wake_one()

    async def _make_room(self, key: SessionKey) -> None:
        """End an idle session, or wait until one is idle, if there are too many."""
        while len(self) + len(self._opening) >= self._max and not self._retired:
            idle = [each for each in self._sessions.values() if not each.users and each.key != key]
            if idle:
                self.expire(min(idle, key=lambda each: (each.key == HALL_KEY, each.idle_since)))
                continue
            if len(self._waiting) >= MAX_WAITING:
                raise Unavailable(f"all sessions with the upstream {self._name!r} are in use")
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._wake_one()  # the turn is somebody else's
                raise

    def _wake_one(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _on_lost(self, pooled: PooledSession) -> None:
        """The session has ended by itself."""
        self._leaving.discard(pooled)
        if self._sessions.get(pooled.key) is pooled:
            del self._sessions[pooled.key]
        self._end(pooled)
        self._wake_one()

    def _end(self, pooled: PooledSession) -> None:
        self._leaving.discard(pooled)
        if self._empty is not None and not self._leaving and not self._empty.done():
            self._empty.set_result(None)
        if not hasattr(pooled, "session"):  # it was lost during the handshake
            return
        loop = asyncio.get_running_loop()
        self._ending.add(loop.create_task(_close(self._name, pooled.session), context=contextvars.Context()))


async def _close(name: str, session: McpSession) -> None:
    try:
        await session.close()
    except Exception:  # noqa: BLE001 - whatever it is, the session is not used any more
        _log.exception("a session with the upstream %s did not end well", name)


def _start_of(data: Json) -> str:
    """The beginning of what a server wants to have logged."""
    if isinstance(data, str):
        return data[: 2 * MAX_LOGGED]
    try:
        return encode(data)[: 2 * MAX_LOGGED].decode(errors="replace")
    except (RecursionError, ValueError):
        return "a message that cannot be shown"


def session_key(share: Share, call: Call, credentials: ResolvedCredentials | None) -> SessionKey:
    """Whose session a call runs in."""
    secrets = b"" if credentials is None or not credentials.secrets else _digest(credentials)
    match share:
        case "hall":
            return SessionKey((), secrets) if secrets else SHARED_KEY
        case "caller":
            return SessionKey(caller_identity(call), secrets)
        case "session":
            return SessionKey(call_owner(call), secrets)


def caller_identity(call: Call) -> tuple[Hashable, ...]:
    """Who calls: callers without a credential are told apart by their address."""
    caller = call.caller
    return (caller.id, caller.address, caller.acting_for)


def call_owner(call: Call) -> tuple[Hashable, ...]:
    """Who calls, and with which client, where the client has a session of its own."""
    return (*caller_identity(call), client_session_of(call.link))


def client_session_of(link: ClientLink) -> Hashable:
    """What stands for the client's own session; None for a client that has none."""
    inner: ClientLink = getattr(link, "link", link)
    session: Hashable = getattr(inner, "client_session", None)
    return session


def _digest(credentials: ResolvedCredentials) -> bytes:
    """Account tokens do not count: a renewed one is the same account."""
    digest = hashlib.sha256()
    for name, secret in sorted(credentials.secrets.items()):
        for part in (name, secret.reveal()):
            digest.update(hashlib.sha256(part.encode(errors="surrogatepass")).digest())
    return digest.digest()
