"""MCP 2025-06-18 and 2025-11-25: a handshake opens a session, and the session remembers the terms."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Hashable

from toolhall.dialects.mcp.asks import read_call, read_list
from toolhall.dialects.mcp.jsonrpc import Request, Response
from toolhall.dialects.mcp.questions import write_question
from toolhall.dialects.mcp.refusals import McpRefusal, bad_params, unknown_method
from toolhall.dialects.mcp.revisions import Revision
from toolhall.dialects.mcp.terms import Terms, log_level, progress_token
from toolhall.dialects.mcp.write import Writer
from toolhall.hall import Hall
from toolhall.model.caller import Caller
from toolhall.model.errors import Broken, ToolFailed, ToolhallError
from toolhall.model.exchange import Asked, Finished, LogLevel, Wire
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.question import Question, Visit
from toolhall.transports.mcp.links import LegacyLink, Outlet
from toolhall.transports.mcp.refusing import refused
from toolhall.transports.mcp.storefront import Audience, called, hear, page
from toolhall.transports.mcp.tracing import join_trace
from toolhall.transports.mcp.verifying import verifiable

QUESTION_SECONDS = 300.0
GREETING_SECONDS = 1.0
_log = logging.getLogger("toolhall.mcp")


class Session:
    """One client after its handshake: its terms, and the questions it has yet to answer."""

    def __init__(self, hall: Hall, writer: Writer, caller: Caller, capabilities: JsonObject) -> None:
        self._hall = hall
        self._capabilities = capabilities
        self._log_level: LogLevel = "info"
        self._waiting: dict[str, asyncio.Future[Json]] = {}
        self._questions = itertools.count(1)
        self._greeted = asyncio.Event()
        self._versions = False  # whether it ever asked for every version
        self.writer = writer
        self.caller = caller

    def greet(self) -> None:
        """`notifications/initialized`: from now on the client may be asked."""
        self._greeted.set()

    def hear(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever the list changes that this client is shown; returns how to end that."""
        return hear(self._hall, lambda: Audience(self.caller, self.revision, self._versions), listener)

    @property
    def revision(self) -> Revision:
        """The revision that was negotiated."""
        return self.writer.revision

    async def answer(self, request: Request, outlet: Outlet, size: int, caller: Caller | None = None) -> Wire:
        """The one reply to a request, which its own credential decides; without one, that of the last request."""
        try:
            return await self._answer(request, outlet, size, caller or self.caller)
        except McpRefusal as refusal:
            # Only 2026-07-28 gives refused methods an HTTP status of their own.
            return Wire(self.writer.error(request.id, refusal).body)
        except ToolhallError as error:
            return self.writer.error(request.id, error)
        except Exception:  # noqa: BLE001 - a tool can return what no dialect can write; its caller gets an answer still
            _log.exception("the answer to %s could not be written", request.method)
            return self.writer.error(request.id, Broken())

    async def _answer(self, request: Request, outlet: Outlet, size: int, caller: Caller) -> Wire:
        match request.method:
            case "tools/call":
                return await self._call(request, outlet, size, caller)
            case "tools/list":
                return self._list(request, caller)
            case "ping":
                return self.writer.response(request.id, {})
            case "logging/setLevel":
                self._log_level = log_level(request.params.get("level"))
                return self.writer.response(request.id, {})
            case "initialize":
                raise bad_params("this session is initialized already")
            case _:
                raise unknown_method(request.method)

    def standing(self, caller: Caller) -> Hashable:
        """What the policy has decided for a caller: the same object until a decision could be another."""
        return self._hall.policy.epoch(caller)

    async def may_read(self, request: Request, size: int, caller: Caller) -> bool:
        """Whether a caller may be sent the answer to a request, by another of its credentials or under newer rules.

        That is decided, counted and recorded as if the caller had sent the same call now. Only calls are ever resumed.
        """
        if request.method != "tools/call":
            return False
        try:
            call = called(self._hall, read_call(request, f"mcp@{self.revision.name}", size))
        except McpRefusal:
            return False
        return await self._hall.repeat(call, caller) is None

    def _list(self, request: Request, caller: Caller) -> Wire:
        asked = read_list(request)
        self._versions = self._versions or asked.versions
        return self.writer.page(request.id, page(self._hall, caller, asked))

    async def _call(self, request: Request, outlet: Outlet, size: int, caller: Caller) -> Wire:
        join_trace(request)
        dialect = f"mcp@{self.revision.name}"
        try:
            call = called(self._hall, read_call(request, dialect, size))
            terms = Terms(self.revision, self._capabilities, self._log_level, progress_token(request))
        except McpRefusal as refusal:
            raise refused(self._hall, request, caller, size, refusal, dialect) from None
        link = LegacyLink(outlet, terms, self.writer, self._put)
        return self._written(request, verifiable(await self._hall.answer(call, caller, link), terms))

    def _written(self, request: Request, answer: object) -> Wire:
        match answer:
            case Asked(questions) if visits := [each for each in questions.values() if isinstance(each, Visit)]:
                return self.writer.visits(request.id, visits)
            case Finished():
                return self.writer.finished(request.id, answer)
            case ToolhallError():
                return self.writer.error(request.id, answer)
            case _:
                raise TypeError("a legacy session asks its questions while the call runs")

    def reply(self, response: Response) -> None:
        """Hand the client's reply to the call that waits for it."""
        waiting = self._waiting.pop(str(response.id), None)
        if waiting is None or waiting.done():
            return
        if response.error is not None:
            waiting.set_exception(ToolFailed("the client could not answer the tool's question"))
        else:
            waiting.set_result(response.result)

    def give_up(self) -> None:
        """Nobody will answer any more, because the server stops: tools that wait for a reply hear so."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ToolFailed("the server stopped before the tool's question was answered"))

    async def _put(self, outlet: Outlet, question: Question) -> Json:
        """Send a question as a request of ours and wait for its response."""
        await self._may_ask()
        question_id = f"toolhall-{next(self._questions)}"
        waiting = self._waiting[question_id] = asyncio.get_running_loop().create_future()
        outlet.send(encode({"jsonrpc": "2.0", "id": question_id, **write_question(question, self.revision)}))
        try:
            async with asyncio.timeout(QUESTION_SECONDS):
                return await waiting
        except TimeoutError:
            self._take_back(outlet, question_id, "no answer in time")
            raise ToolFailed("nobody answered the tool's question in time") from None
        except asyncio.CancelledError:  # the call was cancelled, or its own time is up
            self._take_back(outlet, question_id, "the call has ended")
            raise
        finally:
            self._waiting.pop(question_id, None)

    async def _may_ask(self) -> None:
        """MCP: before `notifications/initialized` a server should send no requests; a client may forget to say it."""
        if not self._greeted.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GREETING_SECONDS):
                    await self._greeted.wait()
            self._greeted.set()

    def _take_back(self, outlet: Outlet, question_id: str, reason: str) -> None:
        """MCP: a request that is no longer waited for is cancelled, so that the client stops working on it."""
        outlet.send(self.writer.notice("notifications/cancelled", {"requestId": question_id, "reason": reason}))
