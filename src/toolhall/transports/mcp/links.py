"""The line from a running tool to its MCP client: notices on the request's stream, questions by either era's way."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from toolhall.dialects.mcp.questions import feature_of, read_reply
from toolhall.dialects.mcp.terms import Terms
from toolhall.dialects.mcp.write import Writer
from toolhall.model.errors import ToolhallError, Unsupported
from toolhall.model.exchange import LOG_LEVELS, Asking, Event, Log, Progress
from toolhall.model.json import Json, JsonObject
from toolhall.model.question import Answered, Question


class Outlet(Protocol):
    """Where messages that belong to one request go."""

    def send(self, message: bytes) -> None:
        """Send one message."""
        ...

    def hang_up(self, retry_ms: int) -> None:
        """Send the reader away for a while."""
        ...


class Notices:
    """Progress and log notices, as far as the client asked for them."""

    _furthest = float("-inf")

    def __init__(self, outlet: Outlet, terms: Terms, writer: Writer) -> None:
        self._outlet = outlet
        self._terms = terms
        self._writer = writer

    def emit(self, event: Event) -> None:
        """Send it, if the client gave a token or set a level for it."""
        match event:
            case Progress() if self._terms.progress_token is not None:
                self._progress(event)
            case Log() if self._terms.log_level is not None:
                if LOG_LEVELS.index(event.level) >= LOG_LEVELS.index(self._terms.log_level):
                    logger = {"logger": event.logger} if event.logger else {}
                    params = {"level": event.level, "data": event.data, **logger}
                    self._outlet.send(self._writer.notice("notifications/message", params))
            case _:
                pass  # the client did not ask to hear of it

    def can(self, feature: str) -> bool:
        """Whether the client declared it."""
        return self._terms.can(feature)

    def require(self, questions: Mapping[str, Question]) -> None:
        """MCP: a client is asked only what it declared it can answer."""
        for question in questions.values():
            feature = feature_of(question)
            if not self._terms.can(feature) or (feature == "elicitation.url" and not self._terms.revision.visits):
                raise Unsupported(feature)

    def _progress(self, progress: Progress) -> None:
        if progress.done <= self._furthest:
            return  # MCP: progress MUST increase with each notification
        self._furthest = progress.done
        stated = {"progress": progress.done, "total": progress.total, "message": progress.message}
        params: JsonObject = {key: value for key, value in stated.items() if value is not None}
        params["progressToken"] = self._terms.progress_token
        self._outlet.send(self._writer.notice("notifications/progress", params))


class ModernLink(Notices):
    """Questions are answered by a later request, which runs the tool again with the replies so far."""

    replies: Mapping[str, Json] = {}  # what came with this request and those before it
    refusal: ToolhallError | None = None  # what the last question was refused with

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """The replies that came with this request; Asking where any is missing."""
        try:
            self.require(questions)
            missing = {key: question for key, question in questions.items() if key not in self.replies}
            if missing:
                raise Asking(missing)
            return {key: read_reply(question, self.replies[key], key) for key, question in questions.items()}
        except ToolhallError as error:
            self.refusal = error
            raise

    async def detach(self, retry_ms: int) -> None:
        """There is no coming back in this revision."""


class LegacyLink(Notices):
    """Questions are requests of our own on the call's stream; the tool waits for the response."""

    def __init__(
        self, outlet: Outlet, terms: Terms, writer: Writer, put: Callable[[Outlet, Question], Awaitable[Json]]
    ) -> None:
        super().__init__(outlet, terms, writer)
        self._put = put

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Put one question after the other; a person can read only one at a time."""
        self.require(questions)
        return {
            key: read_reply(question, await self._put(self._outlet, question), key)
            for key, question in questions.items()
        }

    async def detach(self, retry_ms: int) -> None:
        """Close the stream where the client can resume it; the tool goes on."""
        if self._terms.revision.primed:
            self._outlet.hang_up(retry_ms)
