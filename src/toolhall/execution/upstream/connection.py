"""`UpstreamConnection`: one upstream as this hall reaches it: its state, its sessions, its circuit, when it is synced.

Theory of operation
-------------------
Calls and life are separate. A call takes a session of the pool, and opens one if there is none, whatever the state is;
only a closed door stops it (`check_accepts`): the upstream is off, or its circuit is open. The life of the connection
is one task (`_live`): it connects, lists and syncs, and tries again with a backoff for ever; then it waits for a reason
to list again (the upstream says that a list changed, what was listed is stale) or to look whether the upstream is
there.

Five failures in a row open the circuit for thirty seconds; then one call at a time is the trial that closes it. The
life is told at once, so that an upstream which comes back is found by whoever is first.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import TypeAlias

import msgspec

from toolhall.dialects.mcp.client_handshake import Era
from toolhall.execution.remote.replica import CircuitBreaker
from toolhall.execution.upstream.credentials import ChildEnvironment, SessionOpener, UpstreamCredentials
from toolhall.execution.upstream.faults import fault_of
from toolhall.execution.upstream.listing import FetchedListing, fetch_listing
from toolhall.execution.upstream.sessions import (
    HALL_KEY,
    SHARED_KEY,
    CallSessionHooks,
    ListKind,
    PooledSession,
    SessionKey,
    SessionPool,
    session_key,
)
from toolhall.mcp_client.session import (
    Headers,
    McpRequest,
    McpSession,
    NotAcceptable,
    NotSent,
    RequestLost,
    ResponseTooLarge,
    RpcError,
    ServerDescription,
    SessionError,
    SessionExpired,
    Unauthorized,
)
from toolhall.mcp_client.targets import SessionCredentials
from toolhall.model.errors import NeedsRequirement, ToolhallError, Unavailable
from toolhall.model.messages import Call
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.model.text import clean_line
from toolhall.model.upstream import Share, Upstream, UpstreamListing, UpstreamState, fill_secrets
from toolhall.redaction.redactor import Redactor

HANDSHAKE_SECONDS = 30.0
COMMAND_HANDSHAKE_SECONDS = 75.0  # the session gives up first, and knows more of the reason
MAX_BACKOFF_SECONDS = 60.0
GATHER_SECONDS = 0.5  # of changes of a list, before it is fetched again
RESYNC_SECONDS = 300.0  # where the upstream cannot tell
LOST_RESYNC_SECONDS = 30.0  # between two lists of a child that ends by itself again and again
PROBE_SECONDS = 30.0
PROBE_TIMEOUT_SECONDS = 10.0
MIN_TTL_SECONDS, MAX_TTL_SECONDS = 30.0, 3_600.0
MAX_WATCHED = 1_000  # resources
SWEEP_SECONDS = 30.0  # between two looks for idle sessions
_log = logging.getLogger("toolhall.upstreams")
SyncListing: TypeAlias = Callable[[Upstream, UpstreamListing], Awaitable[object]]


class ConnectingSlots:
    """Lets a few upstreams connect at a time."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.renew()

    def renew(self) -> None:
        """Begin anew, for another loop."""
        self.free = asyncio.Semaphore(self._slots)


class UpstreamServices(msgspec.Struct, frozen=True, kw_only=True):
    """What the connections of all upstreams share."""

    open_session: SessionOpener
    sync: SyncListing
    credentials: UpstreamCredentials
    on_resource_updated: Callable[[str, str], None]  # upstream, its URI
    connecting: ConnectingSlots
    local: bool = False
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    rng: Random = msgspec.field(default_factory=Random)


class UpstreamConnection:
    """One upstream: `start` its life, or only let calls use it."""

    def __init__(self, upstream: Upstream, services: UpstreamServices) -> None:
        self.upstream = upstream
        self.name = upstream.name
        self.settings = upstream.settings
        self.share: Share = upstream.settings.effective_share(local=services.local)
        self.pool = SessionPool(upstream.name, upstream.settings.max_sessions, self, services.clock)
        self.circuit = CircuitBreaker(services.clock)
        self.state: UpstreamState = "off" if upstream.settings.off else "new"
        self.reason: str | None = None
        self.since = services.wall_clock()
        self.next_try: float | None = None
        self.last_sync: float | None = None
        self.server: ServerDescription | None = None
        self.era: Era | None = None
        self.syncs = self.restarts = self.lost_calls = 0
        self._services = services
        self._secrets: frozenset[Secret] = frozenset(upstream.settings.literal_secrets)  # of the hall itself
        self._sent_secrets: frozenset[Secret] = frozenset()  # in headers of the hall's own requests
        self._life: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._list_changed = False
        self._watched: set[str] = set()  # URIs of the upstream that somebody subscribed to
        self._subscribed: set[str] = set()  # of these, at the upstream
        self._subscribed_in: McpSession | None = None
        self._retry_now = False
        self.sync_due = 0.0
        self.listed_at = 0.0  # by the clock, as `sync_due`, when it is listed again
        self._heard_at = 0.0
        self._synced = asyncio.Event()

    @property
    def is_command(self) -> bool:
        """Whether it is a child process."""
        return self.settings.command is not None

    @property
    def has_core_tasks(self) -> bool:
        """Whether the server runs calls as tasks (2025-11-25)."""
        tasks = None if self.server is None else self.server.capabilities.get("tasks")
        requests = tasks.get("requests") if isinstance(tasks, dict) else None
        return isinstance(requests, dict) and isinstance(requests.get("tools"), dict)

    # --- for calls ----------------------------------------------------------------------------------------------------

    def check_accepts(self) -> None:
        """Raise Unavailable if no call goes there now."""
        if self.circuit.is_closed and self.state != "off":
            return
        if self.state == "off":
            raise Unavailable(f"the upstream {self.name!r} is switched off")
        if not self.circuit.allows_call():
            error = Unavailable(f"the upstream {self.name!r} cannot be reached now: {self.reason or 'calls failed'}")
            error.retry_after = max(1.0, self.circuit.retry_after)
            raise error

    async def acquire(self, call: Call, credentials: Headers) -> PooledSession:
        """Take the session of a call; raises the errors of `mcp_client.session`."""
        if self.era == "modern" and not self.is_command:
            key = SHARED_KEY
        else:
            key = session_key(self.share, call, None if self.is_command else call.credentials)
        return self.pool.find(key) or await self.pool.acquire(key, partial(self._open, credentials))

    async def send(self, pooled: PooledSession, request: McpRequest, hooks: CallSessionHooks) -> msgspec.Raw:
        """Send a request of a call in the session that was taken for it, and give the session back."""
        pooled.enter(hooks)
        try:
            return await pooled.session.request(request, hooks)
        except SessionExpired:
            self.pool.expire(pooled)
            raise
        except (NotSent, RequestLost) as lost:
            self._count_loss(pooled, lost)
            raise
        except asyncio.CancelledError:
            pooled.leave_unanswered(hooks)
            raise
        finally:
            pooled.leave(hooks)
            self.pool.release(pooled)

    def headers(self, call: Call | None) -> Awaitable[Headers]:
        """The headers of a call; a child has none."""
        if self.is_command:
            return _no_headers()
        return self._own_headers() if call is None else self._services.credentials.headers(self.upstream, call)

    async def _own_headers(self) -> Headers:
        """The headers of the hall's own requests; what is secret of them is remembered, to redact reasons."""
        credentials, settings = self._services.credentials, self.settings
        named = [await credentials.secret(name) for name in settings.header_secrets]
        headers = await credentials.headers(self.upstream, None)
        tokens = {text.rpartition(" ")[2] for name, text in headers if settings.headers.get(name) != text}
        filled = (Secret(token) for token in tokens if len(token) >= MIN_SECRET_LENGTH)
        self._sent_secrets = frozenset((*filled, *(each for each in named if each is not None)))
        return headers

    def refresh(self, call: Call | None, challenge: str | None) -> Awaitable[bool]:
        """Renew the token that the upstream refused; False if there is nothing to renew."""
        return self._services.credentials.refresh(self.upstream, call, challenge)

    def sent_secrets(self, call: Call) -> tuple[Secret, ...]:
        """The tokens that were sent and that the call was not equipped with."""
        return () if self.is_command else self._services.credentials.secrets(self.upstream, call)

    async def missing(self, call: Call | None, challenge: str | None) -> ToolhallError:
        """The error that says what a person has to link or to set."""
        return await self._services.credentials.missing(self.upstream, call, challenge)

    def redactor(self) -> Redactor | None:
        """Removes the hall's own credentials for this upstream; one for each call, since it remembers what it saw."""
        return Redactor(tuple(self._secrets)) if self._secrets else None

    def redact(self, reason: str) -> str:
        """A reason without any credential that the hall sends by itself: servers repeat a key that they refuse."""
        known = self._secrets | self._sent_secrets
        return Redactor(tuple(known)).redact_text(reason) if known else reason

    def record_success(self) -> None:
        """The upstream has answered."""
        self._heard_at = self._services.clock()
        if not self.circuit.is_closed or self.circuit.has_failures:
            self.circuit.record_success()
        if self.state == "away":
            self.retry_now()

    def _count_loss(self, pooled: PooledSession, lost: SessionError) -> None:
        """Count a lost request; a session that ended with several running requests is one failure."""
        if isinstance(lost, ResponseTooLarge):
            return
        if not pooled.session.is_open:
            if pooled.loss_counted:
                return
            pooled.loss_counted = True
        self.record_failure(lost.reason)

    def record_failure(self, reason: str) -> None:
        """The upstream could not be reached, or was lost."""
        was_closed = self.circuit.is_closed
        reason = self.redact(reason)
        self.circuit.record_failure()
        is_told = self.state in ("away", "refused", "waiting")
        if was_closed and not self.circuit.is_closed and not is_told:
            _log.warning("upstream %s is away, because several requests in a row failed: %s", self.name, reason)
            self._set_state("away", reason)
            self.retry_now()

    def forget_era(self) -> None:
        """Ask again which era the upstream speaks, with the next session."""
        self.era = None
        for key in (SHARED_KEY, HALL_KEY):
            if (pooled := self.pool.find(key)) is not None:
                self.pool.expire(pooled)
                self.pool.release(pooled)

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Reach the upstream in the background from now on."""
        if self._life is None and self.state != "off":
            self._life = asyncio.get_running_loop().create_task(self._live(), name=f"upstream {self.name}")

    async def stop(self) -> None:
        """Reach it no more; sessions end with their last call."""
        life, self._life = self._life, None
        self.pool.retire()
        if life is not None:
            life.cancel()
            await asyncio.wait({life})

    async def stop_and_wait(self) -> None:
        """Reach it no more, and wait until every session has ended with its last call."""
        await self.stop()
        await self.pool.wait_ended()

    async def close(self) -> None:
        """End everything, whatever runs."""
        await self.stop()
        await self.pool.close()

    def retry_now(self) -> None:
        """Connect or list at once, instead of at the next time that is due."""
        self._retry_now = True
        self._wake.set()

    def watch(self, uri: str, *, watched: bool) -> None:
        """Ask the upstream to tell when this resource of it changes, or do so no more."""
        if not watched:
            self._watched.discard(uri)
        elif len(self._watched) < MAX_WATCHED:
            self._watched.add(uri)
        self._wake.set()

    async def sync_now(self) -> None:
        """List and sync now; raises Unavailable with the reason if that fails."""
        try:
            await self._sync_once()
        except Exception as error:  # noqa: BLE001 - whatever it is, the reason is told
            state, reason, _ = self._fault(error)
            self._set_state(state, reason)
            raise Unavailable(f"{self.name}: {reason}") from None
        self._set_ready()
        self.retry_now()  # for the next time that is due

    async def wait_synced(self) -> None:
        """Wait until it was listed once."""
        await self._synced.wait()

    # --- PoolEvents ---------------------------------------------------------------------------------------------------

    def on_list_changed(self, kind: ListKind) -> None:
        """Fetch the lists again soon."""
        del kind  # all lists are fetched together, so that a sync is always about all of them
        self._list_changed = True
        self._wake.set()

    def on_resource_updated(self, uri: str) -> None:
        """Tell the hall, which tells whoever subscribed."""
        self._services.on_resource_updated(self.name, uri)

    def on_opened(self, session: McpSession) -> bool:
        """Remember what the server says of itself; True if all callers share the session."""
        self.server = session.server
        self.era = "modern" if session.server.revision.stateless else "legacy"
        if self.is_command and self.last_sync is not None:  # nobody listened while there was no child
            relist_at = self.listed_at + (LOST_RESYNC_SECONDS if self._lost_child else RESYNC_SECONDS)
            if self._services.clock() > relist_at:
                self.on_list_changed("tools")
            elif self._lost_child:
                self.sync_due = min(self.sync_due, relist_at)
                self._wake.set()
        return self.era == "modern" and not self.is_command

    def on_session_lost(self, reason: str) -> None:
        """A session has ended by itself."""
        _log.info("upstream %s: a session was lost: %s", self.name, self.redact(clean_line(reason, 300)))
        if self.is_command:
            self.restarts += 1
            self._lost_child = True
        if not self.is_command or self.settings.start == "always":
            self._wake.set()

    # --- private ------------------------------------------------------------------------------------------------------

    @property
    def _own_key(self) -> SessionKey:
        """The session in which the hall itself lists."""
        shares = self.share == "hall" or (self.era == "modern" and not self.is_command)
        return SHARED_KEY if shares else HALL_KEY

    @property
    def _keeps_session(self) -> bool:
        """Whether the hall's own session stays open: to listen, or because the operator wants the child alive."""
        return not self.is_command or self.settings.start == "always" or bool(self._watched)

    async def _live(self) -> None:
        failures = 0
        while True:
            self._retry_now = False
            self._wake.clear()
            try:
                async with self._services.connecting.free:
                    if self.state == "new":
                        self._set_state("connecting", None)
                    await self._sync_once()
                self._set_ready()
                failures = 0
                await self._stay_ready()
            except Exception as error:  # noqa: BLE001 - whatever an upstream does, the next try comes
                failures += 1
                state, reason, pause = self._fault(error)
                if (state, reason) != (self.state, self.reason):
                    _log.warning("upstream %s is %s: %s", self.name, state, reason)
                self._set_state(state, reason)
                backoff = min(MAX_BACKOFF_SECONDS, 2.0 ** (failures - 1)) * self._services.rng.uniform(0.75, 1.0)
                await self._wait_for_retry(max(backoff, pause))

    async def _wait_for_retry(self, seconds: float) -> None:
        self.next_try = self._services.wall_clock() + seconds
        until = self._services.clock() + seconds
        while not self._retry_now and (left := until - self._services.clock()) > 0:
            await self._wait(min(left, SWEEP_SECONDS))
        self.next_try = None

    async def _wait(self, seconds: float) -> None:
        """Wait until somebody wakes the life, or for these seconds; ends idle sessions."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()
        self.pool.end_idle(self._own_key if self._keeps_session else None)

    async def _stay_ready(self) -> None:
        """Sync and probe whenever that is due; raises what went wrong."""
        clock = self._services.clock
        while True:
            due = min(self.sync_due, self._heard_at + PROBE_SECONDS)
            await self._wait(max(0.05, min(due - clock(), SWEEP_SECONDS)))
            if self._list_changed:
                await asyncio.sleep(GATHER_SECONDS)
            is_due = clock() >= self.sync_due and (self._keeps_session or self._has_own_session())
            if self._list_changed or self._retry_now or is_due:
                self._list_changed = self._retry_now = False
                await self._sync_once()
                self._set_ready()
            elif self.sync_due <= clock():
                self._plan_sync(None)
            await self._renew_watches()
            if self._keeps_session and not self._has_own_session():
                await self._sync_once()  # what changed while nobody listened is not known
            elif clock() >= self._heard_at + PROBE_SECONDS:
                await self._probe()

    async def _renew_watches(self) -> None:
        """Subscribe at the upstream to what is watched, in the hall's own session; again in each new one."""
        if not self._watched and not self._subscribed:
            return
        credentials = await self.headers(None)
        pooled = await self.open_own(self._own_key, credentials)
        try:
            if pooled.session is not self._subscribed_in:
                self._subscribed_in, self._subscribed = pooled.session, set()
            server = pooled.session.server
            if not server.has("resources", None if server.revision.stateless else "subscribe"):
                return
            for method, uris in (
                ("resources/subscribe", self._watched - self._subscribed),
                ("resources/unsubscribe", self._subscribed - self._watched),
            ):
                for uri in uris:
                    with contextlib.suppress(RpcError):  # it will not tell
                        await pooled.session.request(
                            McpRequest(method=method, params={"uri": uri}, credentials=credentials)
                        )
            self._subscribed = set(self._watched)
        finally:
            self.pool.release(pooled)

    def _has_own_session(self) -> bool:
        pooled = self.pool.find(self._own_key)
        if pooled is None:
            return False
        self.pool.release(pooled)
        return True

    async def _probe(self) -> None:
        """Look whether the upstream is there, in a session that exists; a child is looked at by its session."""
        pooled = None if self.is_command else self.pool.find(self._own_key)
        self._heard_at = self._services.clock()
        if pooled is None:
            return
        method = "server/discover" if self.era == "modern" else "ping"
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                credentials = await self.headers(None)
                await pooled.session.request(McpRequest(method=method, credentials=credentials))
        except RpcError:
            pass  # it answers
        except (SessionError, TimeoutError) as lost:
            self.pool.expire(pooled)
            if isinstance(lost, SessionExpired):
                return
            self.record_failure(str(lost) or "it did not answer")
            raise
        finally:
            self.pool.release(pooled)
        self.record_success()

    async def _sync_once(self) -> None:
        """Fetch all lists and sync; one new handshake if the session was refused."""
        try:
            fetched = await self._fetch()
        except SessionExpired:
            fetched = await self._fetch()
        except Unauthorized as refused:
            if refused.status != 401:
                raise
            if not await self.refresh(None, refused.challenge):
                raise await self.missing(None, refused.challenge) from None
            fetched = await self._fetch()
        self._heard_at = self._services.clock()
        for _ in range(1 if self.circuit.is_closed else 2):  # an open circuit becomes half-open, and then closed
            self.circuit.record_success()
        self._list_changed = self._lost_child = False
        await self._services.sync(self.upstream, fetched.listing)
        self.syncs += 1
        self.last_sync = self._services.wall_clock()
        self.listed_at = self._services.clock()
        self._plan_sync(fetched)
        self._synced.set()

    async def _fetch(self) -> FetchedListing:
        credentials = await self.headers(None)
        pooled = await self.open_own(self._own_key, credentials)
        try:
            return await fetch_listing(pooled.session, self.settings, credentials)
        except SessionExpired:
            self.pool.expire(pooled)
            raise
        except (NotSent, RequestLost) as lost:
            self._count_loss(pooled, lost)
            raise
        finally:
            self.pool.release(pooled)

    def _plan_sync(self, fetched: FetchedListing | None) -> None:
        """When to list again without being told."""
        jitter = self._services.rng.uniform(0.9, 1.1)
        seconds = RESYNC_SECONDS * jitter
        if fetched is not None and fetched.ttl is not None:
            seconds = min(max(fetched.ttl, MIN_TTL_SECONDS), MAX_TTL_SECONDS)
        elif fetched is not None and fetched.tells_changes:
            seconds = MAX_TTL_SECONDS * jitter  # in case that a notification was lost
        self.sync_due = self._services.clock() + seconds

    async def open_own(self, key: SessionKey, credentials: Headers) -> PooledSession:
        """Take a session for the hall itself; raises the errors of `mcp_client.session`."""
        return await self.pool.acquire(key, partial(self._open, credentials))

    async def _open(self, credentials: Headers, pooled: PooledSession) -> McpSession:
        env, listening = await self.fill_environment(), await self._listening_headers()
        seconds = COMMAND_HANDSHAKE_SECONDS if self.is_command else HANDSHAKE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                return await self._services.open_session(
                    self.upstream,
                    pooled,
                    pooled.answer_question,
                    era=self.era,
                    credentials=SessionCredentials(credentials, listening),
                    env=env,
                )
        except TimeoutError:
            reason = f"it did not answer the handshake within {seconds:g} seconds"
            self.record_failure(reason)
            raise NotSent(reason) from None
        except (
            NotSent,
            RequestLost,
            NotAcceptable,
            RpcError,
        ) as fault:  # once, for all who wait
            self.record_failure(fault.reason)
            raise

    async def _listening_headers(self) -> Headers:
        """The headers of a stream that all callers share: never with the account of one of them."""
        try:
            own = await self.headers(None)
        except NeedsRequirement:
            return ()
        is_personal = self.settings.auth == "oauth"
        return tuple(each for each in own if not is_personal or each[0].lower() != "authorization")

    async def fill_environment(self) -> ChildEnvironment:
        """The variables of a child with the hall's own secrets filled in; raises NeedsRequirement for a missing one."""
        if unset := self.upstream.missing:
            raise NeedsRequirement(
                f"the variable {', '.join(unset)} in {self.upstream.where} is not set: set it and start the hall again,"
                " or write what it stands for"
            )
        if not self.settings.env:
            return ChildEnvironment(secrets=tuple(self._secrets))
        secrets: dict[str, Secret] = {}
        for name in self.settings.env_secrets:
            secret = await self._services.credentials.secret(name)
            if secret is None:
                raise NeedsRequirement(f"the secret {name} is not set: set it with 'toolhall secret set {name}'")
            secrets[name] = secret
        self._secrets |= frozenset(secrets.values())
        variables = {name: fill_secrets(text, secrets) for name, text in self.settings.env.items()}
        return ChildEnvironment(variables, tuple(self._secrets))

    def _set_ready(self) -> None:
        if self.state != "ready":
            _log.info("upstream %s is ready", self.name)
        self._set_state("ready", None)

    def _set_state(self, state: UpstreamState, reason: str | None) -> None:
        if state != self.state:
            self.since = self._services.wall_clock()
        self.state, self.reason = state, reason

    def _fault(self, error: Exception) -> tuple[UpstreamState, str, float]:
        """The state that follows from a failure, its reason, and the least pause before the next try."""
        state, reason, pause = fault_of(error)
        return state, self.redact(reason), pause


async def _no_headers() -> Headers:
    return ()
