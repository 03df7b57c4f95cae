"""One HTTP connection: uvicorn's, with an end to every wait, bounds on what it holds, and a quick no when all is full.

Nothing is timed per request: the server looks at every connection about once a second.
"""

import asyncio
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from toolhall.cli.serving.cycle import PAUSE_SECONDS, Cycle
from toolhall.cli.serving.deadlines import Wait
from toolhall.cli.serving.outbox import outbox_of
from toolhall.cli.serving.plain import CROWDED, TOO_LARGE, TOO_SLOW
from toolhall.cli.serving.premises import GuardedConfig

MOST_HEAD_BYTES = 64 * 1024
MOST_PIPELINED = 512  # more than fit into what is read at once, unless they are tiny
_PIECE = 16 * 1024  # what is read at once is looked at in pieces, so that no bound is passed by much

App: TypeAlias = Any  # uvicorn's ASGI types are not ours


def _locate(scope: App, url: bytes) -> None:
    """The path as it is compared, the path as it came, and the query."""
    if b"%" in url or b"?" in url or b"#" in url or not url.startswith(b"/"):
        parts = httptools.parse_url(url)
        raw, scope["query_string"] = parts.path, parts.query or b""
    else:
        raw, scope["query_string"] = url, b""
    path = raw.decode("ascii")
    scope["path"] = unquote(path) if "%" in path else path
    scope["raw_path"] = raw


class GuardedConnection(HttpToolsProtocol):
    """Relies on uvicorn's own parts by name; tests over real sockets say when they change."""

    app: App
    cycle: Any  # uvicorn's types do not say that there is none at first

    def __init__(
        self,
        config: GuardedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._premises = config.premises
        self._admission = config.premises.admission
        self._callers = config.premises.admission.callers
        self._outbox = outbox_of(self.loop)
        self._entered = False
        self._wait = Wait()
        self._answering: RequestResponseCycle | None = None
        self._head_of: object = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Take part, if there is room for one more."""
        super().connection_made(transport)
        self._entered = self._premises.entrance.enter(self.client[0] if self.client else None)
        if not self._entered:
            transport.write(CROWDED)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Every request of this connection hears that its client is gone; uvicorn tells only the last."""
        if self._entered:
            self._premises.entrance.leave(self.client[0] if self.client else None)
        waiting = [cycle for cycle, _ in self.pipeline]
        for cycle in (self._answering, *waiting):
            if cycle is not None and not cycle.response_complete:
                cast("Cycle", cycle).lose()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, within bounds."""
        if len(data) > _PIECE:
            self.data_received(data[:_PIECE])
            if not self.transport.is_closing() and self in self.connections:
                self.data_received(data[_PIECE:])
            return
        super().data_received(data)
        answering = self._answering
        if answering is None or answering.scope is not self.scope:  # most requests come whole, and one by one
            self._bound(len(data))

    def on_headers_complete(self) -> None:
        """A request has begun: answer it, or let it wait for its turn."""
        parser: Any = self.parser
        scope, app = self.scope, self.app
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        if parser.should_upgrade() and self._should_upgrade():
            return
        _locate(scope, self.url)
        before = self.cycle
        self.cycle = cycle = Cycle(self, self._outbox, keep_alive=version != "1.0" and parser.should_keep_alive())
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))

    def handle_websocket_upgrade(self) -> None:
        """A connection whose earlier request is still being answered cannot become something else."""
        if self._answering is not None and not self._answering.response_complete:
            self.transport.abort()
        else:
            super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        """Go on with the next request; that none comes is noticed by `look`, which needs no timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cast("Cycle", cycle), app)

    def look(self, now: float) -> None:
        """End the connection if it has kept us waiting for too long."""
        wait, unread = self._waits_for(), self.transport.get_write_buffer_size()
        if self._wait.begins(wait, self.scope, now, unread) or not wait:
            return
        limits = self._premises.deadlines
        if wait == "stall":
            if self._wait.stuck(limits.stall, unread, now):
                self.transport.abort()  # to close would be to wait until it reads the rest
        elif self._wait.longer_than(getattr(limits, wait), now):
            if self._may_say():
                self.transport.write(TOO_SLOW)
            self.transport.close()

    def _waits_for(self) -> str:
        """The name of a deadline; empty while the client waits for us."""
        if self.flow.write_paused or self.transport.is_closing():
            return "stall"
        if self.flow.read_paused:
            return ""
        if not self._begun:
            return "silent"
        if self._latest is None or self._in_head:
            return "head"
        if self._latest.response_complete:
            return "idle"
        return "body" if self._latest.more_body else ""

    def _may_say(self) -> bool:
        """Whether an answer can be written in between: a request has begun, and no other answer has."""
        latest = self._latest
        if latest is None or self._in_head:
            return self._begun and (latest is None or latest.response_complete)
        return not latest.response_started

    @property
    def _begun(self) -> bool:
        return cast("object", self.scope) is not None

    @property
    def _latest(self) -> RequestResponseCycle | None:
        """The last request whose head is complete."""
        return cast("RequestResponseCycle | None", self.cycle)

    @property
    def _in_head(self) -> bool:
        """Whether a request has begun whose head is not complete."""
        return self._begun and (self._latest is None or self._latest.scope is not self.scope)

    def _bound(self, size: int) -> None:
        """Requests wait for their turn, or headers came in several pieces: neither may go on for ever."""
        if len(self.pipeline) > MOST_PIPELINED:
            self.transport.abort()
        if not self._in_head:
            return
        if self._head_of is not self.scope:
            self._head_of, self._head_bytes = self.scope, 0
        self._head_bytes += size
        if self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
            if self._may_say():
                self.transport.write(TOO_LARGE)
            self.transport.close()

    def _start_asgi_task(self, cycle: Cycle, app: App) -> None:  # type: ignore[override] # all are ours
        if self._callers.taken >= self._callers.most and self._is_turned_away(cycle.scope):
            self._turn_away(cycle)
            return
        self._answering = cycle
        cycle.tasks = self.tasks
        cycle.task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(cycle.task)

    def _is_turned_away(self, scope: App) -> bool:
        return bool(scope["method"] != "HEAD" and self._admission.turns_away(scope["path"]))

    def _turn_away(self, cycle: RequestResponseCycle) -> None:
        """Answer without a task, and without reading the body: when everything is taken, saying so must be cheap."""
        if self.flow.write_paused:  # it only sends, and does not read what it is told
            self.transport.abort()
            return
        self.transport.write(self._premises.refusals.of(cycle.scope["path"], keep_alive=cycle.keep_alive))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        if not self.transport.is_closing() and not self.pipeline:
            self.flow.pause_reading()
            self.loop.call_later(PAUSE_SECONDS, self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()
