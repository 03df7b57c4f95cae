"""`CallHooks`: passes what an upstream sends while a call runs on to the caller: progress, logs and questions.

Everything is redacted of the credentials that the hall itself uses for the upstream; those that the call was equipped
with are redacted by its client link.
"""

from collections.abc import Hashable, Mapping

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.dialects.mcp.client_questions import write_reply
from toolhall.execution.client_link import ChangesLink, ThrottledLink
from toolhall.execution.upstream.questions import kind_of, read_question
from toolhall.execution.upstream.sessions import call_owner, caller_identity
from toolhall.model.errors import ToolhallError, Unsupported
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import (
    NULL_LINK,
    Answered,
    Call,
    ClientLink,
    LogEvent,
    ProgressEvent,
    Question,
    required_feature,
)
from toolhall.model.secret import Secret
from toolhall.redaction.redactor import Redactor


class CallHooks:
    """The hooks of one call, however often it is sent to its upstream."""

    def __init__(self, upstream: str, call: Call, deadline: PausableDeadline, redactor: Redactor | None) -> None:
        self.upstream = upstream
        self.call = call
        self.deadline = deadline
        self.redactor = redactor
        self.reached_caller = False  # the caller has heard something: to repeat the call would repeat it
        self.refusal: ToolhallError | None = None  # the first question that could not be put to the caller

    @property
    def caller(self) -> tuple[Hashable, ...]:
        """Who made the call."""
        return caller_identity(self.call)

    @property
    def owner(self) -> tuple[Hashable, ...]:
        """Who made the call, with which client."""
        return call_owner(self.call)

    def redact_also(self, secrets: tuple[Secret, ...]) -> None:
        """Redact these, too: tokens that were renewed, or that belong to the hall."""
        before = self.redactor
        known = () if before is None else before.tool_secrets
        if new := tuple(each for each in secrets if each not in known):
            self.redactor = Redactor((*known, *new))
            self.redactor.tail = "" if before is None else before.tail  # of the same stream

    def on_progress(self, event: ProgressEvent) -> None:
        """RequestHooks: tell the caller."""
        self.reached_caller = True
        if self.redactor is not None and event.message is not None:
            event = ProgressEvent(event.done, event.total, self.redactor.redact_next(event.message))
        self.call.link.emit(event)

    def on_log(self, event: LogEvent) -> None:
        """RequestHooks: tell the caller."""
        self.reached_caller = True
        if self.redactor is not None:
            event = msgspec.json.decode(self.redactor.redact_json(encode(event)), type=LogEvent)
        self.call.link.emit(event)

    async def on_question(self, method: str, params: JsonObject) -> JsonObject:
        """RequestHooks: ask the caller; the upstream gets an error for what cannot be asked."""
        try:
            question = read_question(self.upstream, method, params)
            key = f"{kind_of(question)}_1"
            return write_reply((await self.ask({key: question}))[key])
        except ToolhallError as error:
            self.refusal = self.refusal or error
            raise

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Ask the caller, while the deadline stands still."""
        self.reached_caller = True
        with self.deadline.hold():
            return complete_answers(questions, await self.call.link.ask(self.clean(questions)))

    def clean_text(self, text: str) -> str:
        """The text without credentials of the hall."""
        return text if self.redactor is None else self.redactor.redact_text(text)

    def clean(self, questions: Mapping[str, Question]) -> Mapping[str, Question]:
        """The questions without credentials of the hall."""
        if self.redactor is None:
            return questions
        redact = self.redactor.redact_json
        return {key: msgspec.json.decode(redact(encode(each)), type=type(each)) for key, each in questions.items()}


def complete_answers(questions: Mapping[str, Question], answers: Mapping[str, Answered]) -> Mapping[str, Answered]:
    """The answers; raises Unsupported if one is missing, because there is nobody to ask."""
    for key, question in questions.items():
        if key not in answers:
            raise Unsupported(required_feature(question))
    return answers


def hears_events(link: ClientLink) -> bool:
    """Whether the caller's client hears of progress or log messages; true where the link does not say."""
    if link is NULL_LINK or isinstance(link, ChangesLink):
        return False
    inner = link.link if isinstance(link, ThrottledLink) else link
    return getattr(inner, "hears_events", True) is True
