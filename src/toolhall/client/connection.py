"""ClientConnection: a client's session with its server, with timeouts, questions and callbacks; ClientSettings.

Time spent on a question to the person does not count towards the timeout of a request. On a stream that all requests
share nothing says which of them asks, so the clocks of all stand still.
"""

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Literal, TypeAlias, TypedDict

import msgspec

from toolhall.dialects.mcp.client_questions import (
    OpenQuestions,
    read_open_questions,
    read_question,
    retry_params,
    write_reply,
)
from toolhall.mcp_client.session import Headers, McpRequest, McpSession, NotAcceptable
from toolhall.model.errors import Unsupported
from toolhall.model.json import JsonObject
from toolhall.model.messages import Answered, LogEvent, ProgressEvent, Question, required_feature

DEFAULT_TIMEOUT = 60.0
MAX_ROUNDS = 10  # of questions in one request
FEATURES = ("elicitation", "elicitation.url", "sampling")
OnProgress: TypeAlias = Callable[[ProgressEvent], object]
OnLog: TypeAlias = Callable[[LogEvent], object]
OnQuestion: TypeAlias = Callable[[Question], Answered | Awaitable[Answered]]
OnChange: TypeAlias = Callable[[str], object]
OpenSession: TypeAlias = Callable[["ClientConnection"], Awaitable[McpSession]]


class ClientOptions(TypedDict, total=False):
    """What every kind of client takes by keyword."""

    timeout: float  # seconds that a request may take
    on_progress: OnProgress
    on_log: OnLog
    on_question: OnQuestion  # a form, a page to visit, a request to the model; without it, servers are told not to ask
    on_change: OnChange  # "tools", "resources" or "prompts" for a list, else the URI of a resource
    features: tuple[str, ...]  # what `on_question` answers: FEATURES, and "roots"


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a client, with their defaults."""

    timeout: float = DEFAULT_TIMEOUT
    on_progress: OnProgress | None = None
    on_log: OnLog | None = None
    on_question: OnQuestion | None = None
    on_change: OnChange | None = None
    features: tuple[str, ...] = FEATURES

    @property
    def declared_features(self) -> tuple[str, ...]:
        """What servers are told that the client can do."""
        return self.features if self.on_question is not None else ()


class ClientConnection:
    """One session, opened by `open`, and what a client hears in it."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.credentials: Headers = ()  # of every request, such as Authorization
        self._session: McpSession | None = None
        self._deadlines: set[_Deadline] = set()

    @property
    def session(self) -> McpSession:
        """The open session; RuntimeError before and after it."""
        if self._session is None:
            raise RuntimeError("use the client inside 'async with Client(...) as client:'")
        return self._session

    async def open(self, open_session: OpenSession) -> None:
        """Connect and do the handshake."""
        if self._session is not None:
            raise RuntimeError("the client is open already; use one client for each 'async with'")
        self._session = await open_session(self)

    async def close(self) -> None:
        """End the session."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(
        self, request: McpRequest, seconds: float | None = None, on_progress: OnProgress | None = None
    ) -> msgspec.Raw:
        """The result of a request, after any questions; raises TimeoutError after `seconds`, and errors of sessions."""
        progress = on_progress or self.settings.on_progress
        if progress is not None or self.settings.on_log is not None:
            request = msgspec.structs.replace(request, wants_events=True)
        if self.credentials:
            request = msgspec.structs.replace(request, credentials=self.credentials)
        hooks = _RequestEvents(self, progress)
        with self._deadline(seconds) as deadline:
            async with deadline.timeout:
                for _ in range(MAX_ROUNDS):
                    result = await self.session.request(request, hooks)
                    asked = read_open_questions(result) if self.session.server.revision.stateless else None
                    if asked is None:
                        return result
                    request = msgspec.structs.replace(request, params=await self._answered(request.params, asked))
        raise NotAcceptable(f"the server asked more than {MAX_ROUNDS} times in one request")

    async def reply_to(self, method: str, params: JsonObject) -> JsonObject:
        """QuestionHandler: answer a question of the server that belongs to no request that can be told."""
        return write_reply(await self.answer(read_question(method, params)))

    async def answer(self, question: Question) -> Answered:
        """Ask the program that uses the client; raises Unsupported if it answers no such question."""
        ask = self.settings.on_question
        if ask is None or required_feature(question) not in self.settings.features:
            raise Unsupported(required_feature(question))
        for deadline in self._deadlines:
            deadline.stop()
        try:
            reply = ask(question)
            return await reply if inspect.isawaitable(reply) else reply
        finally:
            for deadline in self._deadlines:
                deadline.go_on()

    async def _answered(self, params: JsonObject, asked: OpenQuestions) -> JsonObject:
        replies = {key: await self.answer(question) for key, question in asked.questions.items()}
        return retry_params(params, replies, asked.state)

    @contextmanager
    def _deadline(self, seconds: float | None) -> "Generator[_Deadline, None, None]":
        deadline = _Deadline(self.settings.timeout if seconds is None else seconds)
        self._deadlines.add(deadline)
        try:
            yield deadline
        finally:
            self._deadlines.discard(deadline)

    # --- SessionEvents ---

    def on_list_changed(self, kind: Literal["tools", "resources", "prompts"]) -> None:
        """SessionEvents: a list of the server has changed."""
        if self.settings.on_change is not None:
            self.settings.on_change(kind)

    def on_resource_updated(self, uri: str) -> None:
        """SessionEvents: a resource that was subscribed to has changed."""
        if self.settings.on_change is not None:
            self.settings.on_change(uri)

    def on_log(self, event: LogEvent) -> None:
        """SessionEvents: a log message."""
        if self.settings.on_log is not None:
            self.settings.on_log(event)

    def on_closed(self, reason: str) -> None:
        """SessionEvents: the next request raises NotSent with the reason."""


class _RequestEvents:
    """RequestHooks of one request."""

    def __init__(self, connection: ClientConnection, on_progress: OnProgress | None) -> None:
        self._connection = connection
        self._on_progress = on_progress

    def on_progress(self, event: ProgressEvent) -> None:
        if self._on_progress is not None:
            self._on_progress(event)

    def on_log(self, event: LogEvent) -> None:
        self._connection.on_log(event)

    async def on_question(self, method: str, params: JsonObject) -> JsonObject:
        return await self._connection.reply_to(method, params)


class _Deadline:
    """A timeout that can stand still."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.timeout = asyncio.timeout(None if math.isinf(seconds) else seconds)
        self._left: float | None = None
        self._stops = 0

    def stop(self) -> None:
        self._stops += 1
        when = self.timeout.when()
        if self._stops == 1 and when is not None:
            self._left = when - self._loop.time()
            self.timeout.reschedule(None)

    def go_on(self) -> None:
        self._stops -= 1
        if self._stops == 0 and self._left is not None and not self.timeout.expired():
            self.timeout.reschedule(self._loop.time() + self._left)
