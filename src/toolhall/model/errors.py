"""The error tree: every way in which a call can end badly.

ToolhallError
├── Refused            the caller must change something
│   ├── Malformed      the message is not valid in its dialect
│   ├── NotFound       no such tool, or none this caller may see
│   │   └── NotActive (shown to the operator only) · Retired (past its sunset date; names the successor)
│   ├── BadArguments   the arguments do not match the input schema (all problems, with paths)
│   ├── Unsupported    the client lacks a feature that the tool needs
│   ├── Unauthenticated · Denied · NeedsVerification · NeedsRequirement (secret, account, user id)
│   └── Limited        too many calls; see retry_after
└── Failed             the caller did nothing wrong
    ├── ToolFailed (ToolError: with the author's code; Crashed: an unexpected exception; NotEnded: a long call)
    ├── TimedOut · Cancelled · BadOutput
    ├── Unavailable    upstream down, circuit open
    ├── OutcomeUnknown a long call was running when the hall stopped, and must not be run again
    └── Broken         internal error; the details are in the log only

`message` may be shown to anyone; `detail` never leaves the log. The class names are data: they are sent to clients, to
worker processes and to the audit log.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from toolhall.model.json import JsonObject
from toolhall.model.requirements import MissingRequirement

MAX_RETRY_AFTER_SECONDS = 31_536_000  # a year


class Problem(msgspec.Struct, frozen=True):
    """One problem of a value: its path and the reason, never the value itself."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.reason}"


class ToolhallError(Exception):
    """The root of the tree: `message` may be shown to anyone, `detail` goes to the log only."""

    message = "the call could not be answered"
    reached_tool = True  # False: the pipeline ended the call before its run stage, so no code of the tool ran

    def __init__(self, message: str | None = None, *, detail: str | None = None) -> None:
        self.message = message or type(self).message
        self.detail = detail
        super().__init__(self.message)


class Refused(ToolhallError):
    """The caller must change something."""


class Malformed(Refused):
    """The message is not valid in its dialect."""

    message = "the message is malformed"


class NotFound(Refused):
    """There is no such tool, or this caller may not see it; a caller cannot tell which."""

    message = "unknown tool"

    def __init__(
        self,
        message: str | None = None,
        *,
        hidden: object = None,
        uri: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.hidden = hidden  # the invisible tool and why it is invisible; for the audit record only
        self.uri = uri  # of the resource that there is not
        super().__init__(message, detail=detail)


class NotActive(NotFound):
    """A registered tool that is not active; only the operator gets this error, other callers get NotFound."""

    message = "this tool is registered, but not active"

    def __init__(self, message: str | None = None, *, state: str = "registered", detail: str | None = None) -> None:
        self.state = state
        super().__init__(message, detail=detail)


class Retired(NotFound):
    """The sunset date of `tool` is over; `successor` is what to call instead, if the operator named one."""

    message = "this tool was retired"

    def __init__(
        self,
        message: str | None = None,
        *,
        tool: str | None = None,
        successor: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.tool = tool
        self.successor = successor
        super().__init__(message, detail=detail)


class BadArguments(Refused):
    """The arguments do not match the input schema."""

    def __init__(self, problems: Sequence[Problem], *, detail: str | None = None) -> None:
        self.problems = tuple(problems)
        listed = "; ".join(str(problem) for problem in self.problems)
        super().__init__(f"the arguments do not match the tool's input schema: {listed}", detail=detail)


class Unsupported(Refused):
    """The client did not declare a feature that the tool needs."""

    def __init__(self, feature: str, *, detail: str | None = None) -> None:
        self.feature = feature
        super().__init__(f"this tool needs a client that supports {feature}", detail=detail)


class Unauthenticated(Refused):
    """The request has no credential, or an invalid one."""

    message = "a valid credential is required"


class Denied(Refused):
    """The caller is authenticated and not authorized."""

    message = "this caller may not call this tool"

    def __init__(
        self,
        message: str | None = None,
        *,
        scopes: Sequence[str] = (),
        by: str | None = None,
        level: int | None = None,
        detail: str | None = None,
    ) -> None:
        self.scopes = tuple(scopes)  # scopes that a credential would need
        self.by = by  # the grant or rule that denies; for the audit record only
        self.level = level  # of the tool; for the audit record only
        super().__init__(message, detail=detail)


class NeedsVerification(Refused):
    """A person must verify this call on a page of the hall first: step up, approve, or have another person approve."""

    message = "this call needs the approval of a person"

    def __init__(
        self,
        message: str | None = None,
        *,
        how: Literal["step_up", "approval", "second_person"] = "approval",
        url: str | None = None,
        id: str | None = None,  # noqa: A002 - it is the approval's id in every dialect
        detail: str | None = None,
    ) -> None:
        self.how = how
        self.url = url  # the page
        self.id = id
        super().__init__(message, detail=detail)


class NeedsRequirement(Refused):
    """Secrets, linked accounts or a user id are missing; `missing` lists all of them."""

    message = "this tool needs something that has not been set up"

    def __init__(
        self, message: str | None = None, *, missing: Sequence[MissingRequirement] = (), detail: str | None = None
    ) -> None:
        self.missing = tuple(missing)
        super().__init__(message, detail=detail)


class Limited(Refused):
    """A rate limit is exceeded; `retry_after` is in seconds."""

    def __init__(self, retry_after: float, *, detail: str | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(f"too many calls: try again in {retry_after:.1f} seconds", detail=detail)


class Failed(ToolhallError):
    """The caller did nothing wrong."""


class ToolFailed(Failed):
    """The tool reports an error; its message is meant for the model."""

    message = "the tool failed"

    def __init__(
        self,
        message: str | None = None,
        *,
        detail: str | None = None,
        retry_after: float | None = None,
        can_retry: bool = False,
        prompt: str | None = None,
    ) -> None:
        if retry_after is not None and not 0 <= retry_after <= MAX_RETRY_AFTER_SECONDS:
            raise ValueError(f"retry_after is in seconds, from 0 to {MAX_RETRY_AFTER_SECONDS}")
        super().__init__(message, detail=detail)
        self.retry_after = retry_after  # seconds after which the same call may succeed
        self.can_retry = can_retry or retry_after is not None  # the same call may succeed later
        self.prompt = prompt  # further text for the model


class NotEnded(ToolFailed):
    """A long call has not ended yet; the same id sent again gets the result, in dialects that have no tasks."""

    message = "this call takes long and still runs; send the same id again for its result"

    def __init__(self, message: str | None = None, *, detail: str | None = None, retry_after: float = 1.0) -> None:
        super().__init__(message, detail=detail, retry_after=retry_after)


class ToolError(ToolFailed):
    """A ToolFailed with a code and details of the author's own, as the hub protocol defines them."""

    def __init__(
        self,
        message: str | None = None,
        code: str = "TOOL_ERROR",
        details: JsonObject | None = None,
        *,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail)
        self.code = code
        self.details = dict(details or {})


class Crashed(ToolFailed):
    """The tool raised an unexpected exception; its text goes to the log only."""


class TimedOut(Failed):
    """The tool did not finish before its deadline."""

    message = "the tool did not finish in time"


class Cancelled(Failed):
    """The caller cancelled the call or disconnected."""

    message = "the call was cancelled"


class BadOutput(Failed):
    """The tool's result does not match its output schema, or is too large."""

    message = "the tool returned something other than it promises"


class Unavailable(Failed):
    """The tool's server or upstream cannot be reached now."""

    message = "the tool is not available now"
    retry_after: float | None = None  # seconds, if known


class OutcomeUnknown(Failed):
    """The hall stopped while the call ran, and running it again could do it twice."""

    message = "the hall stopped while the call ran: the outcome is not known; find out before you call again"


class Broken(Failed):
    """An internal error of the hall; the details are in the log only."""

    message = "internal error; the details are in the server's log"


class LifespanFailed(Exception):
    """A lifespan failed to start, so the hall does not serve; the message names it and the error."""

    def __init__(self, name: str, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        super().__init__(f"{name} could not be entered: {reason}")
