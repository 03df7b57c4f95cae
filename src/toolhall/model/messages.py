"""Requests to and answers of the dispatcher, the Call that the pipeline processes, its ClientLink, and questions.

A dialect decodes bytes into ListTools or CallTool; the dispatcher answers with a ToolPage, a CompletedCall,
InputRequired or a ToolhallError. While the call runs, events and questions to the client (Form, Visit, Sample, Roots)
travel over its ClientLink; Filled, Sampled and Rooted are the client's answers. The class
names of questions are part of the protocol: input keys such as `form_1` are made from them.
"""

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.content import Result
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.model.requirements import CallerCredentials, ResolvedCredentials
from toolhall.model.tool import Tool

LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class ProgressEvent(msgspec.Struct, frozen=True):
    """The progress of a running call."""

    done: float
    total: float | None = None
    message: str | None = None


class LogEvent(msgspec.Struct, frozen=True):
    """A log message of a running tool to its caller."""

    level: LogLevel
    data: Json
    logger: str | None = None


CallEvent: TypeAlias = ProgressEvent | LogEvent


class Form(msgspec.Struct, frozen=True):
    """Elicitation by form: ask the person to fill in a few fields (a flat object schema)."""

    message: str
    schema: JsonObject


class Visit(msgspec.Struct, frozen=True):
    """Elicitation by URL: ask the person to open a page; what happens there does not pass through the client."""

    message: str
    url: str
    id: str


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Sampling: ask the client's model to continue these messages."""

    messages: tuple[JsonObject, ...]
    max_tokens: int
    system: str | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()


class Roots(msgspec.Struct, frozen=True):
    """Ask for the folders that the client works in."""


Question: TypeAlias = Form | Visit | Sample | Roots


class Filled(msgspec.Struct, frozen=True):
    """The reply to a form or a visit."""

    action: Literal["accept", "decline", "cancel"]
    content: JsonObject | None = None


class Sampled(msgspec.Struct, frozen=True):
    """The reply of the client's model."""

    role: str
    content: Json
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """All text blocks of the message, joined."""
        blocks = self.content if isinstance(self.content, list) else [self.content]
        texts = [block.get("text") for block in blocks if isinstance(block, dict)]
        return "".join(text for text in texts if isinstance(text, str))


class Root(msgspec.Struct, frozen=True):
    """One folder that the client works in."""

    uri: str
    name: str | None = None


class Rooted(msgspec.Struct, frozen=True):
    """The reply to a request for roots."""

    roots: tuple[Root, ...]


Answered: TypeAlias = Filled | Sampled | Rooted


class ClientLink(Protocol):
    """The connection to the client while its call runs."""

    def emit(self, event: CallEvent) -> None:
        """Send an event, if the client wants events."""
        ...

    def can(self, feature: str) -> bool:
        """Whether the client declared this feature: elicitation, sampling, roots."""
        ...

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Ask the client; raises InputRequiredSignal if the dialect sends the replies in a later request."""
        ...

    async def detach(self, retry_ms: int) -> None:
        """Let the client disconnect and fetch the answer later, if the dialect supports that."""
        ...


class NullLink:
    """A link without a client: it drops events and answers no questions."""

    def emit(self, event: CallEvent) -> None:
        """Drop the event."""

    def can(self, feature: str) -> bool:  # noqa: ARG002 - there is no client
        """Always False."""
        return False

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:  # noqa: ARG002
        """Return no replies."""
        return {}

    async def detach(self, retry_ms: int) -> None:
        """Do nothing."""


NULL_LINK = NullLink()


class CallConsent(msgspec.Struct, frozen=True):
    """A person's approval of a call that continues in a later request, and the digest of the approved call.

    Only the hall creates one, and it seals it before it sends it to a client: nothing else is accepted as a consent.
    """

    approval: str
    call_sha256: str


class InputRequiredSignal(BaseException):
    """Ends a tool that must wait for a later request; a BaseException, so that no `except Exception` catches it."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        self.questions = questions
        self.consent: CallConsent | None = None  # with which the call continues once they are answered
        super().__init__(", ".join(questions))


class ListTools(msgspec.Struct, frozen=True):
    """Request one page of the tools that the caller may see."""

    cursor: str | None = None


class CallTool(msgspec.Struct, frozen=True):
    """Request to run one tool, by its published name or its id."""

    tool: str
    arguments: JsonObject
    dialect: str
    size: int = 0
    caller_credentials: CallerCredentials | None = None
    requested_name: str | None = None  # the name that the caller sent, if `tool` is the target of a pinned name
    consent: CallConsent | None = None  # from a state that the hall sealed


DispatchRequest: TypeAlias = ListTools | CallTool


class ToolPage(msgspec.Struct, frozen=True):
    """One page of the tool list; `encoded` caches its bytes by dialect, once per snapshot."""

    tools: tuple[Tool, ...]
    next_cursor: str | None
    shared: bool  # whether every caller gets the same page
    encoded: dict[str, bytes] = msgspec.field(default_factory=dict)


class CompletedCall(msgspec.Struct, frozen=True):
    """The tool and the result of a completed call."""

    tool: Tool
    result: Result


class InputRequired(msgspec.Struct, frozen=True):
    """A call that must be sent again with the replies to these questions."""

    questions: Mapping[str, Question]
    consent: CallConsent | None = None  # an approval that holds for the rest of the call


Answer: TypeAlias = ToolPage | CompletedCall | InputRequired | ToolhallError


class WireResponse(msgspec.Struct, frozen=True):
    """The bytes of a response; HTTP also uses the status and the headers, stdio ignores them."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Call(msgspec.Struct, frozen=True):
    """One call as every stage of the pipeline sees it."""

    id: str
    tool: str
    arguments: JsonObject
    caller: Caller
    link: ClientLink
    dialect: str
    size: int
    started: float
    caller_credentials: CallerCredentials | None = None  # credentials that the caller sent for the tool
    credentials: ResolvedCredentials | None = None  # credentials for the tool, once they are resolved
    requested_name: str | None = None  # the name that the caller sent, if `tool` is the target of a pinned name
    consent: CallConsent | None = None  # an approval from an earlier request of the same call
