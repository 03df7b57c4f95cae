"""Requests to and answers of the dispatcher, the Call that the pipeline processes, and its ClientLink.

A dialect decodes bytes into ListTools or CallTool; the dispatcher answers with a ToolPage, a CompletedCall, InputRequired
or a ToolhallError; while the call runs, events and questions travel over its ClientLink.
"""

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.content import Result
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.model.questions import Answered, Question
from toolhall.model.requirements import CallerCredentials, ResolvedCredentials
from toolhall.model.tool import Tool

LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class ProgressEvent(msgspec.Struct, frozen=True):
    """How far a call has come."""

    done: float
    total: float | None = None
    message: str | None = None


class LogEvent(msgspec.Struct, frozen=True):
    """Something a running tool wants its caller to read."""

    level: LogLevel
    data: Json
    logger: str | None = None


CallEvent: TypeAlias = ProgressEvent | LogEvent


class ClientLink(Protocol):
    """The line to the caller while its call runs."""

    def emit(self, event: CallEvent) -> None:
        """Send an event, if the caller wants it."""
        ...

    def can(self, feature: str) -> bool:
        """Whether the caller's program declared this feature: elicitation, sampling, roots."""
        ...

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Put questions to the caller; raises Asking where the dialect answers them in a later request."""
        ...

    async def detach(self, retry_ms: int) -> None:
        """Hang up and let the client come back for the answer, where the dialect can."""
        ...


class NullLink:
    """A link that leads nowhere: events vanish and nobody can be asked."""

    def emit(self, event: CallEvent) -> None:
        """Drop it."""

    def can(self, feature: str) -> bool:  # noqa: ARG002 - no feature leads anywhere
        """Never."""
        return False

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:  # noqa: ARG002
        """Nobody answers."""
        return {}

    async def detach(self, retry_ms: int) -> None:
        """Nothing to hang up."""


NULL_LINK = NullLink()


class CallConsent(msgspec.Struct, frozen=True):
    """A person's yes to a call that goes on in a later request: its approval, and a digest of what it is bound to.

    Only the hall makes one, and seals it before it leaves: nothing that a caller writes is read as a consent.
    """

    approval: str
    call_sha256: str


class InputRequiredSignal(BaseException):
    """Unwinds a tool that must wait for a later request; a tool's `except Exception` must not swallow it."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.questions = questions
        self.consent: CallConsent | None = None  # with which the call goes on once they are answered
        super().__init__(", ".join(questions))


class ListTools(msgspec.Struct, frozen=True):
    """Ask for one page of the tools this caller may see."""

    cursor: str | None = None


class CallTool(msgspec.Struct, frozen=True):
    """Ask to run one tool, by its published name or its id."""

    tool: str
    arguments: JsonObject
    dialect: str
    size: int = 0
    caller_credentials: CallerCredentials | None = None
    requested_name: str | None = None  # what the caller wrote, where `tool` is what a pinned name stands for
    consent: CallConsent | None = None  # opened from a sealed state of the hall's own


DispatchRequest: TypeAlias = ListTools | CallTool


class ToolPage(msgspec.Struct, frozen=True):
    """One page of a listing; `encoded` remembers each dialect's bytes, so a page is written once per snapshot."""

    tools: tuple[Tool, ...]
    next_cursor: str | None
    shared: bool  # the same for every caller
    encoded: dict[str, bytes] = msgspec.field(default_factory=dict)


class CompletedCall(msgspec.Struct, frozen=True):
    """A call that ran to its end, and the tool that ran."""

    tool: Tool
    result: Result


class InputRequired(msgspec.Struct, frozen=True):
    """A call that must be sent again with the replies to these questions."""

    questions: Mapping[str, Question]
    consent: CallConsent | None = None  # a person's yes that holds for the rest of the call


Answer: TypeAlias = ToolPage | CompletedCall | InputRequired | ToolhallError


class WireResponse(msgspec.Struct, frozen=True):
    """Bytes to send, with a status hint that HTTP uses and stdio ignores."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Call(msgspec.Struct, frozen=True):
    """Everything a stage may know of the call it works on."""

    id: str
    tool: str
    arguments: JsonObject
    caller: Caller
    link: ClientLink
    dialect: str
    size: int
    started: float
    caller_credentials: CallerCredentials | None = None  # what the caller sent along for the tool
    credentials: ResolvedCredentials | None = None  # what the tool was supplied with, once it was
    requested_name: str | None = None  # what the caller wrote, where `tool` is what a pinned name stands for
    consent: CallConsent | None = None  # a person's yes to the whole call, of which this is a later request
