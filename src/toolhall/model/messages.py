"""Requests to and answers of the dispatcher, the Call that the pipeline processes, its ClientLink, and questions.

A dialect decodes bytes into ListTools or CallTool; the dispatcher answers with a ToolPage, a CompletedCall,
InputRequired or a ToolhallError. While the call runs, events and questions to the client (Form, Visit, Sample, Roots)
travel over its ClientLink; Filled, Sampled and Rooted are the client's answers. The class
names of questions are part of the protocol: input keys such as `form_1` are made from them.
"""

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.content import Result
from toolhall.model.errors import ToolhallError
from toolhall.model.json import Json, JsonObject
from toolhall.model.requirements import CallerCredentials, ResolvedCredentials
from toolhall.model.tool import Kind, Tool

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


class ResourceChanged(msgspec.Struct, frozen=True):
    """A tool has changed what a URI means; for the hall, which tells whoever subscribed to it."""

    uri: str


CallEvent: TypeAlias = ProgressEvent | LogEvent | ResourceChanged


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


CLIENT_FEATURES = ("elicitation", "elicitation.url", "sampling", "roots")  # that a client may declare
TASKS_FEATURE = "tasks"  # as Unsupported names it: a client declares it in its dialect's own way


def required_feature(question: Question) -> str:
    """The feature that a client must have declared to be asked this question."""
    match question:
        case Form():
            return "elicitation"
        case Visit():
            return "elicitation.url"
        case Sample():
            return "sampling"
        case Roots():
            return "roots"


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


class CallMemory(Protocol):
    """What a call remembers when its tool is run again from the top: results of `ctx.once`."""

    @property
    def task_id(self) -> str | None:
        """The id of the task that the call is; None in line."""
        ...

    async def recall(self, key: str) -> bytes | None:
        """Return what was remembered under this key, as JSON; None if nothing was."""
        ...

    async def remember(self, key: str, value: bytes) -> None:
        """Remember this JSON; it is stored when this returns."""
        ...


class NoMemory:
    """The memory of a call that never runs again: it keeps nothing."""

    task_id: str | None = None

    async def recall(self, key: str) -> bytes | None:  # noqa: ARG002 - nothing is kept
        """Return None."""
        return None

    async def remember(self, key: str, value: bytes) -> None:
        """Do nothing."""


NO_MEMORY = NoMemory()


def memory_of(link: ClientLink) -> CallMemory:
    """Return the memory of the call that a link belongs to; only links of calls that may run again have one."""
    memory: CallMemory = getattr(link, "memory", NO_MEMORY)
    return memory


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
    """Request to run one tool, by its published name or its id; or to read a resource, or to get a prompt.

    `tool` is the URI of a resource; the dispatcher makes its id of it, and the URI the `requested_name`.
    """

    tool: str
    arguments: JsonObject
    dialect: str
    size: int = 0
    caller_credentials: CallerCredentials | None = None
    requested_name: str | None = None  # the name that the caller sent, if `tool` is the target of a pinned name
    consent: CallConsent | None = None  # from a state that the hall sealed
    encoded_arguments: bytes | None = None  # the arguments as JSON, if a dialect has encoded them
    kind: Kind = "tool"


class Freshness(msgspec.Struct, frozen=True):
    """How long a client may keep what it read, and whether caches for several callers may."""

    seconds: float = 0.0
    shared: bool = False
    keepable: bool = True  # False: not even by the client


NOT_FRESH = Freshness()


class Complete(msgspec.Struct, frozen=True, kw_only=True):
    """Request for completions of one argument of a prompt or one variable of a resource template."""

    kind: Kind
    name: str  # of the prompt, or the URI template
    argument: str
    typed: str
    given: Mapping[str, str] = {}  # values of other arguments
    dialect: str


class Completion(msgspec.Struct, frozen=True):
    """Completions, the best first; `total` counts also those that were cut off."""

    values: tuple[str, ...] = ()
    total: int = 0


DispatchRequest: TypeAlias = ListTools | CallTool


class ToolPage(msgspec.Struct, frozen=True):
    """One page of a list of tools, resources or prompts; `encoded` caches its bytes by dialect, once per snapshot."""

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


TaskState: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
TASK_STATES: tuple[TaskState, ...] = ("working", "input_required", "completed", "failed", "cancelled")
ENDED_STATES: frozenset[TaskState] = frozenset({"completed", "failed", "cancelled"})


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task as its caller sees it; `failed` also if the tool reported an error."""

    id: str
    tool: str  # with its version
    state: TaskState
    created_at: float
    updated_at: float
    expires_at: float
    poll: float  # seconds between two looks
    status: str | None = None  # what the tool said last about its progress
    questions: Mapping[str, Question] = {}  # those that are open
    outcome: "CompletedCall | ToolhallError | None" = None  # once it has ended; None if it was cancelled

    @property
    def has_ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED_STATES


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
    encoded_arguments: bytes | None = None  # the arguments as JSON, if a dialect has encoded them
    on_suspend: Callable[[], None] | None = None  # called when the call first has to wait, perhaps more than once
    kind: Kind = "tool"

    def suspended(self) -> None:
        """Report that the call has to wait, so that a disconnect of its client is noticed meanwhile."""
        if self.on_suspend is not None:
            self.on_suspend()
